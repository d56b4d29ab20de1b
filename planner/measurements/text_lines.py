"""Text files by lines, of bounded length, with mistakes in words."""

from __future__ import annotations

import contextlib
import csv
import gzip
import zlib
from typing import TYPE_CHECKING, Final, TextIO, cast

from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_LINE: Final = 1_000_000
"""Characters of a line; traces that carry the texts themselves have long ones."""


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
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {why}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error


def open_text(path: Path) -> TextIO:
    """Open a text file, unpacking it if its name ends in ``.gz``."""
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open("r", encoding="utf-8-sig", newline="")


def bounded_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield lines; one that never ends, as a device's or an archive's, must not fill the memory."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{path}:{number}:1: a line of more than {LONGEST_LINE:,} characters; a trace has"
                " one request a line"
            )
        yield line
