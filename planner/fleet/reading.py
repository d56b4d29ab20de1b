"""How a plan is read: every mistake of a hand in its place."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, Where
from planner.fleet.plan import FleetPlan
from planner.source import Source, dotted, json_places, read_text, refuse_too_many_values, whole
from planner.spec import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.source import Loc

MAX_BYTES: Final = 256 * 2**20
"""Longest plan that is read."""
KEYS: Final = frozenset({"scenario", "pools", "totals"})
"""Of what has none of them the missing keys are not told one by one."""
MOST: Final = 2**53 - 1
"""Largest whole number that a float tells from the next."""


def read_plan(path: Path) -> FleetPlan:
    """Read ``plan.json``.

    Raises:
        InputError: The file cannot be read, is no JSON, or is no plan; one line per mistake.
    """
    text, name = read_text(path, MAX_BYTES), str(path)
    data = _parse(text, name)
    odd = dict(_odd_numbers(data, ()))
    if not (odd or (isinstance(data, dict) and data.keys() & KEYS)):
        what = f"it has none of the keys {', '.join(sorted(KEYS))}"
        raise InputError(f"{name}:1:1: {what}; is this a plan? planner plan -o writes one")
    if not odd:
        try:
            return validate(Source(name, data, {(): name}), FleetPlan, written_by_hand=False)
        except InputError:
            pass  # told again below, with places: to find them takes as long as reading ten plans
    source = Source(name, data, {(): name, **json_places(text, name)})
    told = tuple((source.at(loc), f"{dotted(loc)}: {what}") for loc, what in odd.items())
    if isinstance(data, dict) and data.keys() & KEYS:
        return validate(replace(source, problems=told), FleetPlan, written_by_hand=False)
    raise InputError("\n".join(f"{where}: {what}" for where, what in told))


def _parse(text: str, name: str) -> object:
    refuse_too_many_values(text, f"{name}:1:1")
    try:
        return json.loads(text, parse_float=_unsigned_zero, parse_int=whole)
    except json.JSONDecodeError as error:
        where = Where(name, error.lineno, error.colno)
        raise InputError(f"{where}: not JSON: {error.msg}; mend it there") from error
    except RecursionError as error:
        raise InputError(f"{name}:1:1: not JSON that can be read: it nests too deep") from error


def _unsigned_zero(digits: str) -> float:
    """Read a number; nothing costs less than nothing, so that ``-0.0`` is 0."""
    return float(digits) + 0.0


def _odd_numbers(data: object, loc: Loc) -> Iterator[tuple[Loc, str]]:
    """Yield the numbers that no plan holds; whole ones of the scenario are the scenario's own."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _odd_numbers(value, (*loc, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _odd_numbers(value, (*loc, i))
    elif isinstance(data, float) and not math.isfinite(data):
        what = "NaN is no number" if math.isnan(data) else "it is beyond all numbers"
        yield loc, f"{what}; write a finite one"
    elif isinstance(data, int) and abs(data) > MOST and loc[:1] != ("scenario",):
        yield loc, f"must be between {-MOST:,} and {MOST:,}"
