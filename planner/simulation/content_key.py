"""A name for a value by everything that is in it: equal content, equal name, on every run."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

SIZE: Final = 24
"""Bytes of a name: two of 2**60 values share one with a chance of about 2**-73."""


def content_key(*values: Any) -> bytes:
    """Return the name of some values: ``SIZE`` bytes that any change of any part changes.

    Every part is written with its kind and its length, so that no two values read alike: ``1``
    and ``1.0`` differ, as do ``("ab",)`` and ``("a", "b")``, and a field of a class is that of no
    other. Documents and tuples are written part by part, to any depth; arrays by kind, shape and
    bytes.

    Args:
        values: None, bool, int, float, str, bytes, tuples, dataclasses, and arrays of numbers.

    Raises:
        TypeError: Something else is in them, of which it is not known what makes it equal.
    """
    found = blake2b(digest_size=SIZE)
    _write(found, values)
    return found.digest()


def _write(into: blake2b, value: Any) -> None:
    match value:
        case None:
            into.update(b"0")
        case np.ndarray() if value.dtype.kind in "biuf":
            _write_sized(into, b"a", f"{value.dtype.str}{value.shape}".encode())
            into.update(np.ascontiguousarray(value).data)
        case tuple():
            names = getattr(value, "_fields", ())
            _write_sized(into, b"t", f"{_class(value) if names else ''}{len(value)}".encode())
            for part in value:
                _write(into, part)
        case _ if is_dataclass(value) and not isinstance(value, type):
            own = fields(value)
            _write_sized(into, b"d", f"{_class(value)}{len(own)}".encode())
            for field in own:
                _write_sized(into, b"n", field.name.encode())
                _write(into, getattr(value, field.name))
        case _:
            _write_sized(into, *_plain(value))


def _plain(value: Any) -> tuple[bytes, bytes]:
    """Return the kind and the bytes of a number or a text."""
    match value:
        case bool() | np.bool_():
            return b"b", b"1" if value else b"0"
        case int() | np.integer():
            return b"i", str(int(value)).encode()
        case float() | np.floating():
            return b"f", struct.pack("<d", float(value))
        case str():
            return b"s", value.encode("utf-8", "surrogatepass")
        case bytes():
            return b"y", value
    raise TypeError(f"no name for a value of {type(value).__name__}: {value!r:.80}")


def _write_sized(into: blake2b, kind: bytes, data: bytes) -> None:
    into.update(kind + struct.pack("<Q", len(data)) + data)


def _class(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__} "
