"""Files of a set, in a folder or in a tar archive, read within bounds."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from planner.errors import InputError
from planner.source import is_folder, refuse_odd

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES: Final = 2**30
"""All files of a set together, unpacked; in an archive, those that nobody asked for too."""
MOST_FILE: Final = 2**26
MOST_FILES: Final = 100_000


def files_of(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files whose names are wanted, in the order of the archive.

    Args:
        path: A folder, by whose files' names they are put in order, or a tar archive, packed by
            gzip or not. Links and devices in it are passed over.
        wanted: Matches the name of a file, in an archive with its folders.

    Raises:
        InputError: It cannot be read, is no archive, or is too large.
    """
    try:
        refuse_odd(path)
        yield from _in_folder(path, wanted) if is_folder(path) else _in_archive(path, wanted)
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise InputError(
            f"{path}: is no whole archive ({' '.join(str(error).split())}); write it again by"
            " tar -czf"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _in_folder(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    total = count = 0
    for file in sorted(path.iterdir()):
        if wanted.match(file.name) is None or file.is_dir():
            continue
        refuse_odd(file)
        size = file.stat().st_size
        total, count = total + size, count + 1
        _refuse_excess(path, total, count, size)
        yield file.name, file.read_bytes()


def _in_archive(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    total = count = 0
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw
        with tarfile.open(fileobj=cast("BinaryIO", _Pieces(unpacked)), mode="r:") as archive:
            for member in archive:
                asked = member.isfile() and wanted.match(member.name) is not None
                total, count = total + member.size, count + 1
                _refuse_excess(path, total, count, member.size if asked else 0)
                if asked and (data := archive.extractfile(member)) is not None:
                    yield member.name, data.read()


class _Pieces:
    """A file that gives no piece longer than a file of a set: the header of a member may ask."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_FILE:
            raise tarfile.ReadError(f"a header of more than {MOST_FILE >> 20} MiB")
        return self.file.read(size)


def _refuse_excess(path: Path, total: int, count: int, size: int) -> None:
    if total > MOST_BYTES:
        raise InputError(f"{path}: more than {MOST_BYTES >> 20} MiB unpacked; take fewer clients")
    if count > MOST_FILES:
        raise InputError(f"{path}: more than {MOST_FILES:,} files; take fewer clients")
    if size > MOST_FILE:
        raise InputError(f"{path}: a file of more than {MOST_FILE >> 20} MiB; take shorter windows")
