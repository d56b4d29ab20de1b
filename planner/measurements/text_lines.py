"""Text files of others by lines and by rows, of bounded length, with mistakes in words."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import math
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from planner.errors import InputError
from planner.source import refuse_odd, refuse_too_many_values
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

LONGEST_LINE: Final = 1_000_000
"""Characters of a line; traces that carry the texts themselves have long ones."""
LONGEST_ROW: Final = LONGEST_LINE
"""Characters of a row of a table, which quotation marks may spread over many lines."""
MOST_BLANK: Final = 1_000_000
"""Empty lines of a file; an archive of nothing else would take for ever."""
LONGEST_WHOLE: Final = 300
"""Most digits of a whole number that is one."""
_LONG: Final = re.compile(rf"\d{{{LONGEST_WHOLE + 1}}}")


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Say why a file cannot be read, in place of the system's error."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; name a file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {_no_text(path, error)}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: is no whole gzip file ({error}); write it again") from error
    except (OSError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {why}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error


def _no_text(path: Path, error: UnicodeDecodeError) -> str:
    if error.object.startswith(b"\x1f\x8b") and path.suffix != ".gz":
        return "is packed by gzip; let its name end in .gz"
    if b"\0" in error.object:
        return "is no text but a binary file; name a file of UTF-8 text"
    return f"not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8"


def open_text(path: Path) -> TextIO:
    """Open a text file, unpacking it if its name ends in ``.gz``.

    Raises:
        InputError: It is a pipe or a device.
        OSError: It cannot be opened.
    """
    refuse_odd(path)
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open("r", encoding="utf-8-sig", newline="")


def bounded_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield lines; one that never ends, as a device's or an archive's, must not fill the memory."""
    number = blank = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{path}:{number}:1: a line of more than {LONGEST_LINE:,} characters; a trace has"
                " one request a line"
            )
        blank += line.isspace()
        if blank > MOST_BLANK:
            raise InputError(
                f"{path}:{number}:1: more than {MOST_BLANK:,} empty lines; leave them out"
            )
        yield line


def csv_rows(path: Path | str, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, with the line on which it ends; empty lines have none.

    Raises:
        InputError: A row is none; told with its line.
    """
    size = 0

    def of_row() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > LONGEST_ROW:
                where = f"{path}:{reader.line_num + 1}:1"
                what = f"a row of more than {LONGEST_ROW:,} characters; close its quotation mark"
                raise InputError(f"{where}: {what}")
            yield line

    reader = csv.reader(of_row())
    while True:
        try:
            size = 0
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = str(error)
            if "field larger" in what:
                what = (
                    f"a cell of more than {csv.field_size_limit():,} characters; close its"
                    " quotation mark, or leave the column out"
                )
            raise InputError(f"{path}:{reader.line_num}:1: {what}") from error
        yield reader.line_num, cells


def column_names(where: str, cells: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises:
        InputError: Two have one name: which is meant nobody could tell.
    """
    names = tuple(cell.strip() for cell in cells)
    twice = [shown(name) for name, count in Counter(names).items() if name and count > 1]
    if twice:
        listed = ", ".join(twice[:12]) + (f" and {len(twice) - 12} more" if twice[12:] else "")
        what = "columns are" if len(twice) > 1 else "column is"
        raise InputError(f"{where}: the {what} there twice: {listed}; keep one of each, or rename")
    return names


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row of a table.

    Attributes:
        line: The line on which it ends, from 1.
        cells: By column; a row that is too short lacks the last ones.
        ragged: What is wrong with the number of its cells; empty where nothing is.
        short: Whether it has too few.
    """

    line: int
    cells: dict[str, str]
    ragged: str
    short: bool

    def whole(self) -> dict[str, str]:
        """Return the cells by column.

        Raises:
            InputError: The row has too few or too many.
        """
        if self.ragged:
            raise InputError(self.ragged)
        return self.cells


def csv_table(path: Path, lines: Iterable[str], needed: Sequence[str] = ()) -> Iterator[CsvRow]:
    """Yield the rows of a table whose first row names its columns.

    Raises:
        InputError: A column of ``needed`` is missing, two have one name, or a row is none.
    """
    rows = csv_rows(path, lines)
    head, first = next(((line, cells) for line, cells in rows if cells), (1, []))
    names = column_names(f"{path}:{head}:1", first)
    missing = [name for name in needed if name not in names]
    if missing:
        what = f"no column {', '.join(missing)}" if names else "the file is empty"
        raise InputError(
            f"{path}:{head}:1: {what}; name the columns in the first line, as one of the tables"
            " that docs/measurements.md lists does"
        )
    for line, cells in rows:
        if cells:
            ragged = ""
            if len(cells) != len(names):
                ragged = f"{len(cells)} cells where the header has {len(names)}"
            found = dict(zip(names, cells, strict=False))
            yield CsvRow(line, found, ragged, len(cells) < len(names))


def parse_json(where: str, text: str, *, line: int = 1, mend: str = "") -> Any:
    """Parse JSON; ``NaN`` and ``Infinity`` are taken, for some tools write them.

    A whole number beyond floats becomes infinite, which bounds then refuse.

    Args:
        where: The file.
        text: The document.
        line: The line of the file on which it begins.
        mend: How to mend what is no JSON.

    Raises:
        InputError: The text is no JSON or nests too deep, told with its line and column.
    """
    refuse_too_many_values(text, f"{where}:{line}:1")
    try:
        return json.loads(text, parse_int=_whole if _LONG.search(text) else None)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno + line - 1}:{error.colno}"
        raise InputError(f"{place}: not JSON: {error.msg}{mend and f'; {mend}'}") from error
    except RecursionError as error:
        raise InputError(f"{where}:{line}:1: nests too deep") from error


def _whole(digits: str) -> float:
    if len(digits) <= LONGEST_WHOLE:
        return int(digits)
    return -math.inf if digits.startswith("-") else math.inf


def json_row(path: Path, line: int, text: str) -> Mapping[str, Any]:
    """Return the object of one line.

    Raises:
        InputError: The line is no JSON, or no object.
    """
    row = parse_json(str(path), text.rstrip(), line=line, mend="give each line one object, whole")
    if not isinstance(row, dict):
        raise InputError(
            f"{path}:{line}:1: expected an object with the columns of a request; got {shown(row)}"
        )
    return row
