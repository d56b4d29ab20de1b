"""``--set path=value``: change a scenario from the command line, before it is validated."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, nearest
from planner.source import MAX_DEPTH, Source, parse_yaml
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.errors import Where
    from planner.source import Loc

LONGEST: Final = 120
"""Longest path that a message repeats in full."""


def apply_overrides(source: Source, settings: Sequence[str]) -> Source:
    """Return the source with every ``path=value`` applied, in order.

    A path is dotted; list items go by their id (``workloads.chat.slo.ttft``), which may hold
    dots itself, or by position. The value is read as YAML. A key that is not there yet is added.

    Raises:
        InputError: A setting has no ``=``, or its path leads nowhere.
    """
    data = copy.deepcopy(source.data)
    places: dict[Loc, Where | str] = dict(source.places)
    for setting in settings:
        path, equals, text = setting.partition("=")
        origin = f"--set {_short(path)}"
        if not equals or not path:
            raise InputError(f"--set {_short(setting)}: write it as path=value")
        value = parse_yaml(text, origin)
        if value.problems:
            raise InputError(f"{origin}: {value.problems[0][1]}")
        loc = _set(data, path.split("."), value.data, origin)
        for old in [p for p in places if p[: len(loc)] == loc]:
            del places[old]
        places[loc] = origin
    return Source(source.name, data, places, source.problems)


def _short(text: str) -> str:
    """Cut what is too long for a message."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _set(data: object, steps: list[str], value: object, origin: str) -> Loc:
    """Put a value where the steps lead, and return the location."""
    if len(steps) > MAX_DEPTH:
        raise InputError(f"{origin}: the path nests too deep; shorten it")
    here, loc = data, []
    while True:
        key, taken = _key(here, steps, origin)
        loc.append(key)
        steps = steps[taken:]
        if not steps:
            here[key] = value  # type: ignore[index]
            return tuple(loc)
        if isinstance(here, dict) and here.get(key) is None:
            here[key] = {}
        here = here[key]  # type: ignore[index]


def _key(here: object, steps: list[str], origin: str) -> tuple[str | int, int]:
    """Return the key or index that the first steps name, and how many steps that takes."""
    step = steps[0]
    if isinstance(here, dict):
        return step, 1
    if isinstance(here, list):
        ids = [item.get("id") if isinstance(item, dict) else None for item in here]
        for taken in range(len(steps), 0, -1):
            name = ".".join(steps[:taken])
            if name in ids:
                return ids.index(name), taken
        if step.isdecimal() and float(step) < len(here):
            return int(step), 1
        known = [str(i) for i in ids if i is not None] or [str(i) for i in range(len(here))]
        raise InputError(f"{origin}: no item {shown(step)}; {nearest(step[:80], known)}")
    raise InputError(f"{origin}: nothing is below {shown(step)} here; shorten the path")
