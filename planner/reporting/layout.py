"""Tables and headings of one look; text from documents is never read as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable


def plain(text: str, style: str = "") -> Text:
    """Make text of words from a document: no markup, no control characters."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return Text(shown, style=style)


def heading(text: str) -> Text:
    """Make the heading of a section, with an empty line before it."""
    return plain(f"\n{text}", style="bold")


def grid(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Lay out rows under headers.

    Args:
        headers: Names of the columns; one that begins with ``>`` is aligned to the right.
        rows: Cells as plain words.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        right = header.startswith(">")
        name = plain(header.removeprefix(">"))
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def lines(items: Iterable[str]) -> Group:
    """Set out sentences one below another, indented, so that long ones wrap under themselves."""
    return Group(*(Padding(plain(item), (0, 0, 0, 2)) for item in items))


def _printable(character: str) -> str:
    keep = character.isprintable() or character == "\n"
    return character if keep else "\N{REPLACEMENT CHARACTER}"
