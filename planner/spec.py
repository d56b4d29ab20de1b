"""The base of every document class, and the reader that blames a line for a mistake."""

from __future__ import annotations

import difflib
import json
import types
import typing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from planner.errors import InputError, Where, nearest
from planner.source import dotted, read_source, write_yaml
from planner.units import FROM_FILE, shown, with_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from planner.source import Loc, Source


class Spec(BaseModel):
    """A frozen, closed, self-documenting record. Sequences are tuples."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


S = TypeVar("S", bound=Spec)


def mistake(message: str, *at: str | int) -> PydanticCustomError:
    """Make the error that a validator raises to blame a part of its value.

    Args:
        message: What is wrong, and how to mend it.
        at: Keys and indices from the validated value down to the part.
    """
    return PydanticCustomError("mistake", "{message}", {"message": message, "at": at})


_KINDS: Final = {type(None): "empty", list: "a list", str: "text"}


def validate(source: Source, as_type: type[S], *, written_by_hand: bool = True) -> S:
    """Make a document of plain data; report every mistake, each with its place.

    Args:
        source: The data; its own problems are told instead of what else is wrong there.
        as_type: The class of the document.
        written_by_hand: Whether quantities must have their unit.

    Raises:
        InputError: One line per mistake, in file order.
    """
    problems: list[tuple[Where | str, str]] = list(source.problems)
    result: S | None = None
    if not isinstance(source.data, dict):
        kind = _KINDS.get(type(source.data), "a single value")
        raise InputError(f"{source.name}:1:1: the document is {kind}; expected keys and values")
    context = FROM_FILE if written_by_hand else None
    try:
        result = as_type.model_validate_json(_as_json(source.data), strict=True, context=context)
    except ValidationError as error:
        known = {_place_of(*problem) for problem in problems}
        found = _mistakes(source, as_type, error)
        problems += (each for each in found if _place_of(*each) not in known)
    if problems or result is None:
        raise InputError("\n".join(f"{where}: {what}" for where, what in _in_order(problems)))
    return result


def _place_of(where: Where | str, what: str) -> tuple[str, str]:
    """Return where a mistake is, and its path in the document."""
    return str(where), what.partition(": ")[0]


def _as_json(data: object) -> str:
    """Write plain data as JSON, whose strict reading takes lists but no ``"8"`` for 8."""
    return json.dumps(data)


def read_spec(path: Path, as_type: type[S]) -> S:
    """Read one YAML document as ``as_type``; report every mistake, each with its line.

    Raises:
        InputError: The file is no YAML, repeats a key, or does not fit ``as_type``.
    """
    return validate(read_source(path), as_type)


def dump_yaml(document: Spec) -> str:
    """Write a document as YAML that :func:`read_spec` reads back as an equal one."""
    data = document.model_dump(mode="json", exclude_none=True)
    return write_yaml(data)


def dump_json(document: Spec) -> str:
    """Write a document as indented JSON, keys in the order of the class, newline at the end."""
    data = document.model_dump(mode="json")
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _in_order(problems: Iterable[tuple[Where | str, str]]) -> list[tuple[Where | str, str]]:
    def key(item: tuple[Where | str, str]) -> tuple[int, int, int, str]:
        where, what = item
        if isinstance(where, Where):
            return (0, where.line, where.column, what)
        return (1, 0, 0, f"{where}{what}")

    return sorted(problems, key=key)


def _mistakes(
    source: Source, as_type: type[Spec], error: ValidationError
) -> Iterator[tuple[Where | str, str]]:
    """Yield place and sentence per mistake, without those that follow from another."""
    found: dict[Loc, ErrorDetails] = {}
    for item in error.errors():
        loc = (*item["loc"], *item.get("ctx", {}).get("at", ()))
        if item["type"] not in ("missing", "mistake"):
            loc = _written_part(source.data, loc)
        found.setdefault(loc, item)
    misspelt = set(_misspelt(as_type, found))
    for loc, item in found.items():
        follows = any(loc != other and loc == other[: len(loc)] for other in found)
        if follows or loc in misspelt:
            continue
        sentence = _sentence(as_type, item, _value_at(source.data, loc))
        yield source.at(loc), f"{dotted(loc) or 'document'}: {sentence}"


def _misspelt(as_type: type[Spec], found: Mapping[Loc, ErrorDetails]) -> Iterator[Loc]:
    """Yield the missing keys that an unknown key beside them was meant to be."""
    for loc, item in found.items():
        if item["type"] == "extra_forbidden":
            meant = difflib.get_close_matches(str(loc[-1]), _fields_at(as_type, loc[:-1]), n=1)
            key = (*loc[:-1], *meant)
            if meant and key in found and found[key]["type"] == "missing":
                yield key


def _value_at(data: object, loc: Loc) -> object:
    """Return what the document says at a location, or ``None``."""
    for step in loc:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _written_part(data: object, loc: Loc) -> Loc:
    """Return a location without what follows a value: the kinds of which it might have been."""
    for end, step in enumerate(loc):
        inside = step in data if isinstance(data, dict) else False
        if isinstance(data, list):
            inside = isinstance(step, int) and step < len(data)
        if not inside:
            return loc[:end]
        data = data[step]  # type: ignore[index]
    return loc


_PLAIN: Final = {
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number; NaN and infinity are none",
    "string_type": "expected a word or text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "model_type": "expected keys and values",
    "model_attributes_type": "expected keys and values",
}
_BOUNDS: Final = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}


def _sentence(as_type: type[Spec], error: ErrorDetails, value: object) -> str:
    """Say what is wrong, and how to mend it, in the words of the file."""
    kind, loc, context = error["type"], error["loc"], error.get("ctx", {})
    if kind == "mistake":
        return str(context["message"])
    if kind == "extra_forbidden":
        known = _fields_at(as_type, loc[:-1])
        return f"unknown key; {nearest(str(loc[-1]), known)}"
    if kind == "missing":
        return "is required; add it"
    if kind == "too_short":
        return f"needs at least {context.get('min_length')} entry; the list is empty"
    if kind == "too_long":
        most, length = context.get("max_length"), context.get("actual_length")
        return f"has more entries ({length}) than the {most} that are searched; leave some out"
    if kind == "value_error":
        return error["msg"].removeprefix("Value error, ")
    if kind == "out_of_bounds":
        return f"{with_unit(context['bound'], context['unit'], value)}; got {shown(value)}"
    return f"{_expectation(kind, context, error['msg'])}; got {shown(value)}"


def _expectation(kind: str, context: Mapping[str, object], message: str) -> str:
    """Say what a value should have been."""
    if kind == "string_pattern_mismatch":
        return "an id has lower-case letters, digits, dots and hyphens only, such as 'h100-sxm'"
    if kind in ("literal_error", "enum"):
        return f"expected {context.get('expected')}"
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind]} {_number(next(iter(context.values())))}"
    if kind == "string_too_long":
        return f"must have at most {context.get('max_length')} characters"
    if kind == "string_too_short":
        return "needs at least one character"
    return _PLAIN.get(kind, message)


def _number(value: Any) -> str:
    """Write a bound whole: ``4,294,967,296``, and ``0.5``."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def _fields_at(as_type: type[Spec], loc: Loc) -> tuple[str, ...]:
    """Return the keys that the document class allows at a location."""
    here: object = as_type
    for step in loc:
        here = _spec_in(here)
        if isinstance(step, str) and isinstance(here, type) and issubclass(here, Spec):
            fields = here.model_fields
            here = fields[step].annotation if step in fields else None
    here = _spec_in(here)
    if isinstance(here, type) and issubclass(here, Spec):
        return tuple(f.alias or name for name, f in here.model_fields.items())
    return ()


def _spec_in(annotation: object) -> object:
    """Unwrap ``tuple[X, ...]``, ``X | None`` and ``Annotated[X, ...]`` to the record ``X``."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is None:
            return annotation
        if origin in (typing.Union, types.UnionType, tuple, typing.Annotated):
            inner = typing.get_args(annotation)
            specs = [a for a in inner if a is not type(None) and a is not Ellipsis]
            annotation = specs[0] if specs else None
        else:
            return None
