"""``--set path=value``: change a scenario from the command line, before it is validated."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from planner.errors import InputError, nearest
from planner.source import Source, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.errors import Where
    from planner.source import Loc


def apply_overrides(source: Source, settings: Sequence[str]) -> Source:
    """Return the source with every ``path=value`` applied, in order.

    A path is dotted; list items go by their id (``workloads.chat.slo.ttft``) or position.
    The value is read as YAML. A key that is not there yet is added.

    Raises:
        InputError: A setting has no ``=``, or its path leads nowhere.
    """
    data = copy.deepcopy(source.data)
    places: dict[Loc, Where | str] = dict(source.places)
    for setting in settings:
        path, equals, text = setting.partition("=")
        origin = f"--set {path}"
        if not equals or not path:
            raise InputError(f"--set {setting}: write it as path=value")
        value = parse_yaml(text, origin).data
        loc = _set(data, path.split("."), value, origin)
        for old in [p for p in places if p[: len(loc)] == loc]:
            del places[old]
        places[loc] = origin
    return Source(source.name, data, places, source.problems)


def _set(data: object, steps: list[str], value: object, origin: str) -> Loc:
    here, loc = data, []
    for depth, step in enumerate(steps):
        last = depth == len(steps) - 1
        key = _key(here, step, origin)
        loc.append(key)
        if last:
            here[key] = value  # type: ignore[index]
        else:
            if isinstance(here, dict):
                here.setdefault(step, {})
            here = here[key]  # type: ignore[index]
    return tuple(loc)


def _key(here: object, step: str, origin: str) -> str | int:
    if isinstance(here, dict):
        return step
    if isinstance(here, list):
        ids = [item.get("id") if isinstance(item, dict) else None for item in here]
        if step in ids:
            return ids.index(step)
        if step.isdecimal() and int(step) < len(here):
            return int(step)
        known = [str(i) for i in ids if i is not None] or [str(i) for i in range(len(here))]
        raise InputError(f"{origin}: no item {step!r}; {nearest(step, known)}")
    raise InputError(f"{origin}: nothing is below {step!r} here; shorten the path")
