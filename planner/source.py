"""YAML as plain data that remembers where each key and item is written.

Scalars follow YAML 1.2: ``no`` is a word, ``1:30`` is text, ``1e3`` is a number. Anchors
and aliases are refused: a short document could otherwise grow without bound. Tags are refused:
a value is what it looks like.
"""

from __future__ import annotations

import codecs
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from planner.errors import InputError, Where

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES: Final = 4 * 2**20
"""Longest YAML document that is read; traces and tables are other files."""
MAX_DEPTH: Final = 40
MAX_NODES: Final = 50_000
"""Most keys, items and values of a document: a few seconds of reading."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

Loc = tuple[int | str, ...]
"""A location: keys and indices from the root of a document."""


@dataclass(frozen=True, slots=True)
class Source:
    """A document as plain data, and the place of each of its keys and items.

    A place is a line of the file, or the option that set the value.
    """

    name: str
    data: object
    places: Mapping[Loc, Where | str]
    problems: tuple[tuple[Where | str, str], ...] = ()

    def at(self, loc: Loc) -> Where | str:
        """Return the place of the deepest part of ``loc`` that is written down."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.places:
                return self.places[loc[:end]]
        return Where(self.name, 1, 1)


SHORT: Final = 2**20
"""Characters of JSON of which no number of values takes much memory."""
MOST_VALUES_BYTES: Final = 640 * 2**20
MOST_DIGITS: Final = 400
"""Of a whole number; one with more is beyond every bound, and read as one that just is."""


def whole(digits: str) -> int:
    """Read a whole number, however many digits it has.

    Python refuses very long ones as a whole document; read so, each is refused in its place.
    """
    if len(digits) <= MOST_DIGITS:
        return int(digits)
    sign = -1 if digits.startswith("-") else 1
    return sign * 10**MOST_DIGITS if digits.strip("+-0") else 0


def dotted(loc: Loc) -> str:
    """Write a location as ``workloads.0.slo.ttft``."""
    return ".".join(map(str, loc))


class _Loader(yaml.SafeLoader):
    """The scalars of YAML 1.2."""


class _Dumper(yaml.SafeDumper):
    """Quotes a word that either YAML, 1.1 or 1.2, would take for something else."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|false)$", "tf"),
    ("tag:yaml.org,2002:null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$|^\.nan$",
        "-+0123456789.",
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))
    _Dumper.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _written(dumper: _Dumper, text: str) -> yaml.Node:
    """Escape the odd line breaks, which PyYAML would write as they are and read as blanks."""
    style = '"' if any(c in text for c in "\x85\u2028\u2029\ufeff") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _written)


def _where(name: str, mark: Any) -> Where:
    return Where(name, mark.line + 1, mark.column + 1) if mark else Where(name, 1, 1)


def _place(name: str, before: str) -> Where:
    """Return the place right behind some text."""
    lines = before.split("\n")
    return Where(name, len(lines), len(lines[-1]) + 1)


_MENDS: Final = (
    ("'\\t'", "a tab; indent with spaces"),
    ("another document", "a second document begins; keep one"),
    ("mapping values", "a key cannot stand here; check the indent, or quote a text with a colon"),
    ("end of stream", "a quotation mark is not closed; close it"),
)
"""What PyYAML says of common mistakes, and how to mend them."""


def _told(error: yaml.MarkedYAMLError) -> str:
    """Say what is wrong in our words where we know how to mend it, else in those of PyYAML."""
    problem = error.problem or "it cannot be read"
    mends = (ours for theirs, ours in _MENDS if theirs in problem)
    told = next(mends, problem)
    return f"{told}; quote the text" if told.endswith("cannot start any token") else told


class _Builder:
    """Builds plain data from YAML nodes, noting places and repeated keys on the way."""

    def __init__(self, name: str, loader: _Loader) -> None:
        self.name = name
        self.loader = loader
        self.places: dict[Loc, Where | str] = {}
        self.problems: list[tuple[Where, str]] = []

    def where(self, mark: Any) -> Where:
        return _where(self.name, mark)

    def build(self, node: yaml.Node, loc: Loc, where: Where) -> object:
        self.places[loc] = where
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.build(v, (*loc, i), self.where(v.start_mark)) for i, v in items]
        if node.tag == "tag:yaml.org,2002:int":
            return whole(node.value)  # decimal: 012 is twelve
        return self.loader.construct_object(node)

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, object]:
        out: dict[str, object] = {}
        for key, value in node.value:
            place = self.where(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append((place, "a key must be a word"))
                continue
            word = str(key.value)
            here = (*loc, word)
            if word in out:
                first = self.places[here]
                line = first.line if isinstance(first, Where) else first
                what = f"{dotted(here)}: key is repeated (first on line {line}); keep one"
                self.problems.append((place, what))
                continue
            out[word] = self.build(value, here, place)
        return out


def _refuse_excess(text: str, name: str) -> None:
    """Walk the events once, before anything is built, and refuse what a document must not hold."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        where = _where(name, event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InputError(f"{where}: anchors and aliases are not read; write the value out")
        if getattr(event, "tag", None):
            raise InputError(f"{where}: tags are not read; write the plain value")
        if isinstance(event, yaml.ScalarEvent) and _SURROGATE.search(event.value):
            raise InputError(f"{where}: half a character (a lone surrogate); write it whole")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise InputError(f"{where}: the document nests too deep")
        if nodes > MAX_NODES:
            raise InputError(f"{where}: the document has more than {MAX_NODES:,} values")


def parse_yaml(text: str, name: str) -> Source:
    """Turn YAML into plain data that remembers its lines; ``name`` is what errors call it.

    Raises:
        InputError: The text is no YAML, uses anchors or tags, nests too deep or is too long. A
            repeated key is noted in ``problems``, so that it is told with the other mistakes.
    """
    if len(text) > MAX_BYTES:
        raise InputError(f"{name}:1:1: the document is longer than {MAX_BYTES >> 20} MiB")
    try:
        _refuse_excess(text, name)
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            builder = _Builder(name, loader)
            data = builder.build(root, (), Where(name, 1, 1)) if root is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        where = _where(name, error.problem_mark)
        raise InputError(f"{where}: not YAML: {_told(error)}") from error
    except yaml.reader.ReaderError as error:
        where = _place(name, text[: error.position])
        what = f"the character U+{error.character:04X} must not stand in a file; remove it"
        raise InputError(f"{where}: not YAML: {what}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{name}:1:1: not YAML: {first_line}") from error
    return Source(name, data, builder.places, tuple(builder.problems))


def refuse_too_many_values(text: str, where: str) -> None:
    """Refuse JSON whose values would fill the memory: short ones take far more than their text.

    Raises:
        InputError: It holds ten million values, or two million objects.
    """
    if len(text) > SHORT:
        values = 232 * text.count("{") + 64 * (text.count("[") + text.count(","))
        if values > MOST_VALUES_BYTES:
            raise InputError(f"{where}: holds too many values to be read whole; cut it")


def json_places(text: str, name: str) -> Mapping[Loc, Where | str]:
    """Find where each key and item of a JSON document is written; JSON is nearly YAML.

    Returns:
        Nothing where the document is longer or odder than YAML is walked; its paths must do.
    """
    try:
        return parse_yaml(text.replace("\t", " "), name).places
    except InputError:
        return {}


def write_yaml(data: object) -> str:
    """Write plain data as YAML that :func:`parse_yaml` reads back the same."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def refuse_odd(path: Path) -> None:
    """Refuse a pipe or a device: it can be read but once, if it ever begins or ends.

    Raises:
        InputError: It is one.
        OSError: There is no such file.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: is no regular file but a pipe or a device; save it to a file")


def is_folder(path: Path) -> bool:
    """Tell a folder, as far as can be seen: what opens a path says what is wrong with it."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or behind a closed door
        return False


def is_file(path: Path) -> bool:
    """Tell a regular file, as far as can be seen."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_text(path: Path, max_bytes: int) -> str:
    """Read a text file; a byte order mark is dropped.

    Raises:
        InputError: The file cannot be read, is a pipe or a device, is longer than ``max_bytes``,
            or is no UTF-8.
    """
    try:
        refuse_odd(path)
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; name a file") from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error
    if len(raw) > max_bytes:
        raise InputError(f"{path}:1:1: the document is longer than {max_bytes >> 20} MiB")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = _place(str(path), raw[: error.start].decode("utf-8"))
        raise InputError(f"{where}: not UTF-8 text; save the file as UTF-8") from error


def read_source(path: Path) -> Source:
    """Read one YAML file as plain data with places.

    Raises:
        InputError: The file cannot be read, is no UTF-8 or no YAML.
    """
    return parse_yaml(read_text(path, MAX_BYTES), str(path))
