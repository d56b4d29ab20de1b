"""What tables for a terminal say, as sections of headings, paragraphs, lists and rows.

Reports are made of the same sections as the tables on a terminal, so that neither says what the
other does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table; columns of numbers are aligned to the right."""

    headers: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Paragraph | Items | Rows


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: tuple[Block, ...]


def sections(renderables: Iterable[RenderableType]) -> tuple[Section, ...]:
    """Cut what a table function lays out at its headings; the first is the title."""
    found: list[tuple[str, list[Block]]] = []
    for one in renderables:
        if isinstance(one, Text) and "bold" in str(one.style):
            found.append((one.plain.strip(), []))
        else:
            if not found:
                found.append(("", []))
            found[-1][1].extend(_blocks(one))
    return tuple(Section(name, tuple(blocks)) for name, blocks in found)


def _blocks(one: RenderableType) -> Iterator[Block]:
    if isinstance(one, Table):
        columns = [tuple(map(_words, column.cells)) for column in one.columns]
        yield Rows(
            tuple(_words(column.header) for column in one.columns),
            tuple(column.justify == "right" for column in one.columns),
            tuple(zip(*columns, strict=True)),
        )
    elif isinstance(one, Group):
        yield Items(tuple(_words(part) for part in one.renderables))
    elif _words(one).strip():
        yield Paragraph(_words(one).strip())


def _words(one: object) -> str:
    if isinstance(one, Padding):
        return _words(one.renderable)
    return one.plain if isinstance(one, Text) else str(one)
