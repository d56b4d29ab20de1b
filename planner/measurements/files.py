"""Files of others, read within bounds. Whatever is in them, only InputError comes out."""

from __future__ import annotations

import contextlib
import io
import math
import stat
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from planner.errors import InputError
from planner.measurements.node import Node
from planner.measurements.text_lines import csv_rows, csv_table, open_text, told
from planner.measurements.text_lines import parse_json as parse_text
from planner.source import read_source, refuse_odd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MOST_CHARACTERS: Final = 256 * 2**20
"""Longest JSON document, line or text that is read whole."""
MOST_STREAMED: Final = 4 * 2**30
"""Most characters of a file that is read line by line, decompressed."""
MOST_ROWS: Final = 2_000_000
MOST_NAMES: Final = 20_000
"""Most files in a folder."""
MOST_ARRAYS: Final = 64
MOST_ARRAY_BYTES: Final = 64 * 2**20
HEAD: Final = 65_536

Kind = Literal["folder", "npz", "json", "jsonl", "csv", "yaml", "text"]


@dataclass(frozen=True, slots=True)
class Probe:
    """What a file is on the outside, and enough of its inside to tell formats apart.

    Attributes:
        path: The file or folder.
        kind: How it is written.
        data: ``json`` and ``yaml``: the document. ``jsonl``: the first object. ``csv``: the
            names of the columns. ``text``: its beginning. ``folder``: the names in it.
            ``npz``: nothing.
    """

    path: Path
    kind: Kind
    data: Any

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the document or of its first row, or the names of the columns."""
        first = self.data
        if isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, dict):
            return frozenset(map(str, first))
        return frozenset(first) if isinstance(first, tuple) else frozenset()


def probe(path: Path) -> Probe:
    """Look at a file or folder.

    Raises:
        InputError: It is missing, unreadable, too large, no regular file, or no UTF-8 text.
    """
    with told(path):
        try:
            mode = path.stat().st_mode
        except ValueError as error:  # a NUL in the name
            raise InputError(f"{str(path)!r}: no such file") from error
        if stat.S_ISDIR(mode):
            return Probe(path, "folder", _names(path))
        refuse_odd(path)
        with path.open("rb") as raw:
            if raw.read(4) == b"PK\x03\x04":
                return Probe(path, "npz", None)
        with open_text(path) as file:
            head = file.read(HEAD)
        return _probe_text(path, head)


def _names(path: Path) -> tuple[str, ...]:
    names = []
    for entry in path.iterdir():
        names.append(entry.name)
        if len(names) > MOST_NAMES:
            raise InputError(f"{path}: more than {MOST_NAMES:,} files; name a smaller folder")
    return tuple(sorted(names))


def _probe_text(path: Path, head: str) -> Probe:
    start = head.lstrip()
    if not start:
        raise InputError(f"{path}: the file is empty")
    if "\0" in head:
        raise InputError(
            f"{path}: is a binary file; name the text that a benchmark wrote, or an .npz of Dynamo"
        )
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if start[0] in "{[":
        return _probe_json(path)
    if suffixes and suffixes[-1] in (".yaml", ".yml"):
        source = read_source(path)
        if source.problems:
            raise InputError("\n".join(f"{where}: {what}" for where, what in source.problems))
        return Probe(path, "yaml", source.data)
    first = start.splitlines()[0]
    if ".csv" in suffixes or ("," in first and not first.startswith(("#", "vllm:"))):
        _, names = next(csv_rows(path, [first]), (1, []))
        return Probe(path, "csv", tuple(name.strip() for name in names))
    return Probe(path, "text", head)


def _probe_json(path: Path) -> Probe:
    """Tell one document from one object a line, without reading a long stream whole."""
    with open_text(path) as file:
        first = file.readline(MOST_CHARACTERS + 1)
        while first and not first.strip():
            first = file.readline(MOST_CHARACTERS + 1)
        if len(first) > MOST_CHARACTERS:
            raise InputError(f"{path}: longer than {MOST_CHARACTERS >> 20} MiB")
        second = file.readline(HEAD)
        while second and not second.strip():
            second = file.readline(HEAD)
    if second.lstrip().startswith("{"):
        with contextlib.suppress(InputError):
            row = parse_json(path, first, line=1)
            if isinstance(row, dict):
                return Probe(path, "jsonl", row)
    return Probe(path, "json", parse_json(path, read_text(path)))


def read_text(path: Path) -> str:
    """Read a whole text file, ``.gz`` too.

    Raises:
        InputError: It cannot be read, is no UTF-8 or too long.
    """
    with told(path), open_text(path) as file:
        text = file.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{path}: longer than {MOST_CHARACTERS >> 20} MiB")
    return text


def parse_json(path: Path, text: str, *, line: int | None = None) -> Any:
    """Parse JSON; ``NaN`` and ``Infinity`` are taken, for some tools write them.

    Raises:
        InputError: The text is no JSON or nests too deep, told with its line and column.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{path}:{line or 1}: longer than {MOST_CHARACTERS >> 20} MiB")
    return parse_text(str(path), text, line=line or 1)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file within bounds.

    Raises:
        InputError: The file cannot be read, a line is too long, or there are too many.
    """
    total = 0
    with told(path), open_text(path) as file:
        while line := file.readline(MOST_CHARACTERS + 1):
            total += len(line)
            if len(line) > MOST_CHARACTERS or total > MOST_STREAMED:
                raise InputError(f"{path}: too long to be a benchmark's result")
            yield line


def rows_of(found: Probe) -> Iterator[Node]:
    """Yield the rows of JSON (one object, or a list of them), JSONL or CSV, with their places.

    Raises:
        InputError: A row is no object, a line is no JSON, or there are too many rows.
    """
    rows = {"json": _json_rows, "jsonl": _jsonl_rows, "csv": _csv_rows}[found.kind](found)
    for number, row in enumerate(rows, start=1):
        if number > MOST_ROWS:
            raise InputError(f"{found.path}: more than {MOST_ROWS:,} rows")
        yield row


def _json_rows(found: Probe) -> Iterator[Node]:
    root = Node(found.data, str(found.path))
    yield from root.elements() if isinstance(found.data, list) else (root,)


def _jsonl_rows(found: Probe) -> Iterator[Node]:
    for number, line in enumerate(lines_of(found.path), start=1):
        if line.strip():
            row = parse_json(found.path, line.rstrip(), line=number)
            yield Node(row, f"{found.path}:{number}")


def _csv_rows(found: Probe) -> Iterator[Node]:
    for row in csv_table(found.path, lines_of(found.path)):
        where = f"{found.path}:{row.line}"
        if row.ragged and not row.short:
            raise InputError(f"{where}: {row.ragged}; quote what holds a comma")
        yield Node({name: cell.strip() for name, cell in row.cells.items()}, where, cells=True)


def read_arrays(path: Path) -> dict[str, NDArray[np.float64]]:
    """Read the numeric arrays of an ``.npz`` as floats. No pickle is ever opened.

    Raises:
        InputError: No zip file, encrypted, too large, or an array is not plain numbers.
    """
    arrays: dict[str, NDArray[np.float64]] = {}
    with told(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                if len(members) > MOST_ARRAYS:
                    raise InputError(f"{path}: more than {MOST_ARRAYS} arrays")
                left = MOST_ARRAY_BYTES
                for member in members:
                    raw = _member(path, archive, member, left)
                    left -= len(raw)
                    name = member.filename.removesuffix(".npy")
                    arrays[name] = _array(f"{path}: {name}", raw)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
            raise InputError(f"{path}: not an .npz file: {str(error)[:200]}") from error
    return arrays


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> bytes:
    if member.flag_bits & 1 or member.compress_type not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):
        raise InputError(f"{path}: {member.filename[:60]!r} is encrypted or packed in an odd way")
    with archive.open(member) as file:
        raw = file.read(left + 1)
    if len(raw) > left:
        raise InputError(f"{path}: arrays of more than {MOST_ARRAY_BYTES >> 20} MiB")
    return raw


def _array(where: str, raw: bytes) -> NDArray[np.float64]:
    """Read one ``.npy``: its header is checked before anything is allocated by it."""
    file = io.BytesIO(raw)
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, KeyError) as error:
        raise InputError(f"{where}: not a numpy array") from error
    if dtype.kind not in "iuf" or dtype.hasobject or len(shape) > 2:
        raise InputError(f"{where}: expected a vector or a table of plain numbers")
    if math.prod(shape) * dtype.itemsize != len(raw) - file.tell() or min(shape, default=1) < 0:
        raise InputError(f"{where}: the array is cut off or longer than its shape says")
    flat = np.frombuffer(raw, dtype, offset=file.tell()).astype(np.float64)
    if not np.isfinite(flat).all():
        raise InputError(f"{where}: holds NaN or infinite values")
    return flat.reshape(shape, order="F" if fortran else "C")
