"""Damage to files: what editors, broken transfers and ill will do to them, drawn by a seed."""

from __future__ import annotations

import copy
import gzip
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random  # noqa: TID251 - ten times as fast, and always from a seed
    from collections.abc import Iterator, Sequence

LONGEST: Final = 200_000
"""Bytes of a damaged file: speed is in small files, bombs have tests of their own."""
NUMBERS: Final = (
    "0", "-0", "-0.0", "-1", "1", "0.5", "1.5", "1e-320", "1e308", "1e400", "-1e400", "nan", "NaN",
    "inf", "Infinity", "-Infinity", ".inf", ".nan", "9" * 30, "9" * 5000, "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "2147483648", "1e9", "1e-9", "0x10", "0o7",
    "1_000", "1,5", "1:30", "012", "١٢", "½", "1e", "+", "--1", "1e+", "4503599627370497.5",
)  # fmt: skip
UNITS: Final = (
    "0 req/s", "1e400 req/s", "-1 ms", "nan s", "0 s", "1e308 USD/h", "1e-300 s", "5 parsecs",
    "1 req/day", "1e6 req/s", "1 GiB", "100 %", "101 %", "-3 %", "1 ms", "1 h", "9e99 tokens",
)  # fmt: skip
WORDS: Final = (
    "", " ", "null", "~", "true", "no", "[]", "{}", "[[]]", "[1, 2", "{a: 1}", "\"", "'", "`", "x",
    "&a [*a]", "*a", "<<: *a", "!!python/object/apply:os.system [id]", "!!binary AA==", "--- ", "%",
    "../../etc/passwd", "/etc/passwd", "/dev/zero", "/dev/stdin", "..", "/", "a\0b", "~/x", "C:\\x",
    "file:///etc/passwd", "a" * 300 + ".csv", "<script>alert(1)</script>", "]]>", "[bold]x[/bold]",
    "[/]", "[link=x]", "=1+1", "=cmd|'/c calc'!A0", "@x", "\x1b[31m", "\u202e", "\ufeff", "é",
    "\ud83d", "名", "\u2028", "\x85", "%s%n", "{0}", "${x}",
    "\\", "\\u0000", "\\ud800", "#", ",", ";", ":", "\t",
    "\r", "\n", "\n\n", "2024-13-45T99:99:99Z", "0000-00-00", "1e9", "-5", "00:00:61",
)  # fmt: skip
BYTES: Final = (
    b"\0", b"\xff", b"\xfe\xff", b"\xc3", b"\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"\x1f\x8b\x08",
    b"PK\x03\x04", b"PAR1", b"\r\n", b"\x1a", b"[" * 2000, b'{"a":' * 1500, b"- " * 500,
    b"? " * 300,
    b"\t", b'"' * 3, b"," * 200, b"\n" * 300, b" " * 3000,
)  # fmt: skip
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), 2**31, 2**53,
    2**63, 2**64, -(2**63), 10**400, "", "x", "1", "NaN", "1 ms", "0 req/s", "\ud800", "\0", "a\nb",
    "9" * 500, [], {}, [[]], [None], [{}], {"": None}, {"mean": None}, [1, "2"], [float("inf")],
    "=1+1",
    "<b>", "[bold]", "../../etc/passwd", "/dev/zero", 1e-9, 1e9, [0.0], [1.0], [[1, 2], [3]],
)  # fmt: skip
_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*")
_VALUE: Final = re.compile(rb"\d+(?:\.\d+)? [A-Za-z%/]+")


def damaged(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the files of a corpus with one to four injuries."""
    raw = rng.choice(seeds)
    if rng.random() < 0.4:
        raw = _in_json(rng, raw)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 4))):
        raw = rng.choice(DAMAGES)(rng, raw, seeds)
    return raw[:LONGEST]


def packed(rng: random.Random, raw: bytes) -> bytes:
    """Return a gzip file of it, sometimes cut off, flipped, doubled or with rubbish behind."""
    whole = gzip.compress(raw, 1, mtime=0)
    how = rng.randrange(6)
    if how == 0:
        return whole[: rng.randrange(len(whole))]
    if how == 1:
        return _flip(rng, whole, ())
    if how == 2:
        return whole + whole
    return whole + b"rubbish" if how == 3 else whole


def _at(rng: random.Random, raw: bytes) -> int:
    return rng.randrange(len(raw) + 1)


def _flip(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(raw)
    for _time in range(rng.choice((1, 1, 3, 10))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    start = _at(rng, raw)
    return raw[:start] + raw[min(len(raw), start + rng.choice((1, 3, 20, 200))) :]


def _truncate(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    return raw[: _at(rng, raw)]


def _double(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    start, here = _at(rng, raw), _at(rng, raw)
    return raw[:here] + raw[start : start + rng.choice((5, 50, 400))] + raw[here:]


def _insert(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    what = rng.choice((*BYTES, *(_bytes(word) for word in (*WORDS, *NUMBERS))))
    here = _at(rng, raw)
    return raw[:here] + what + raw[here:]


def _splice(rng: random.Random, raw: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return raw[: _at(rng, raw)] + other[_at(rng, other) :]


def _lines(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """Drop, double, swap or shuffle lines."""
    lines = raw.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        rng.shuffle(lines)
    return b"\n".join(lines)


def _number(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(rng, raw, _NUMBER, NUMBERS)


def _value(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(rng, raw, _VALUE, UNITS)


def _word(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """Replace a word by an odd one, or by another of the file: keys and values trade places."""
    own = [m.group().decode() for m in _WORD.finditer(raw[:20_000])]
    return _replaced(rng, raw, _WORD, own if own and rng.random() < 0.4 else WORDS)


def _replaced(
    rng: random.Random, raw: bytes, pattern: re.Pattern[bytes], by: Sequence[str]
) -> bytes:
    found = list(pattern.finditer(raw[:20_000]))
    if not found:
        return raw
    one = rng.choice(found)
    return raw[: one.start()] + _bytes(rng.choice(by)) + raw[one.end() :]


def _recode(rng: random.Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    text = raw.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32")), "replace")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


DAMAGES: Final = (
    _flip, _cut, _truncate, _double, _insert, _splice, _lines, _recode,
    _number, _number, _number, _value, _value, _word, _word,
)  # fmt: skip


def _in_json(rng: random.Random, raw: bytes) -> bytes:
    """Replace, drop, double or rename values of a document of JSON, or of one of its lines."""
    lines = [raw]
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        lines = raw.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except (ValueError, RecursionError):
        return raw
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_places(document))
        if not places:
            return raw
        _injure(rng, *rng.choice(places))
    try:
        lines[at] = _bytes(json.dumps(document, ensure_ascii=rng.random() < 0.5))
    except ValueError:  # more digits than Python writes
        return raw
    return b"\n".join(lines)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _injure(rng: random.Random, node: Any, key: Any) -> None:
    how = rng.randrange(8)
    if how == 0:
        del node[key]
    elif how == 1 and isinstance(node, dict):
        node[rng.choice(WORDS)] = node.pop(key)
    elif how == 2 and isinstance(node, list):
        node.extend(copy.deepcopy(node[key]) for _ in range(rng.choice((1, 2, 50))))
    elif how == 3 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
        node[key] = min(node[key], 1e200) * rng.choice((-1, 0, 2, 1e3, 1e9, 1e-9, 0.5))
    else:
        node[key] = copy.deepcopy(rng.choice(ODD))
