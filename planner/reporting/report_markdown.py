"""A report as Markdown, for pull requests and tickets; words of a document are no markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planner.reporting.blocks import Items, Paragraph, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.reporting.blocks import Block, Section

_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~#@])")


def markdown(sections: Sequence[Section], foot: str = "") -> str:
    """Write sections; the first heading is the title."""
    parts: list[str] = []
    for i, section in enumerate(sections):
        if section.heading:
            parts.append(f"{'#' if i == 0 else '##'} {_plain(section.heading)}")
        parts += [_block(block) for block in section.blocks]
    if foot:
        parts.append(_plain(foot))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown and HTML would read as more than words, on one line."""
    return _SPECIAL.sub(r"\\\1", " · ".join(text.split("\n"))).replace("&", "&amp;")


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Items):
        return "\n".join(f"- {_plain(item)}" for item in block.items)
    return "\n".join(_table(block))


def _table(rows: Rows) -> Iterator[str]:
    yield _row(rows.headers)
    yield "|" + "|".join(" ---: " if right else " --- " for right in rows.right) + "|"
    for row in rows.rows:
        yield _row(row)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell) or " " for cell in cells) + " |"
