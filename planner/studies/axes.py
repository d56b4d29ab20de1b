"""What a study varies: a path of the scenario, or a name for several paths that move together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from planner.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.scenario.lengths import LengthForms, Marginal
    from planner.scenario.load import LoadedScenario
    from planner.scenario.scenario import Scenario
    from planner.scenario.workload import Workload

LINK: Final = "policies.disaggregation.link"
LINKS: Final = {
    "nvlink": "bandwidth: 200 GB/s, latency: 1 ms, transport: nvlink",
    "rdma": "bandwidth: 50 GB/s, latency: 2 ms, transport: rdma",
    "tcp": "bandwidth: 10 Gb/s, latency: 2 ms, transport: tcp",
}
"""Within a node; one 400 Gb/s adapter between nodes; ten-gigabit Ethernet."""
USUAL: Final = {
    "prompt": ("0.5", "1", "2"),
    "output": ("0.5", "1", "2"),
    "ttft": ("0.5", "1", "2"),
    "tpot": ("1", "2", "4"),
    "link": tuple(LINKS),
    "scale": ("0.5", "1", "2"),
}
"""Named axes, and their values where none are given."""
MULTIPLES: Final = frozenset(USUAL) - {"link"}
LEAST, MOST = 1e-3, 1e3
"""Multiples that can be asked for."""
MOST_VALUES: Final = 50
"""Values of one axis."""
_QUANTITY: Final = re.compile(r"^\s*((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")


class Number(NamedTuple):
    """A number of the scenario: where it is, what it is in base units, and how it is written."""

    path: str
    value: float
    unit: str
    whole: bool = False

    def times(self, multiple: float) -> str:
        """Write the setting that makes it so many times what it is."""
        value = self.value * multiple
        text = str(max(round(value), 1)) if self.whole else f"{value:.10g}"
        return f"{self.path}={text} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that varies, and the values that it takes at first."""

    name: str
    """A named axis or a dotted path."""
    values: tuple[str, ...]
    numbers: tuple[Number, ...] = ()
    """What a multiple multiplies; empty where values are written into the path as they are."""

    def settings(self, value: str) -> tuple[str, ...]:
        """Return what ``--set`` takes for a value; nothing where the scenario stays as it is."""
        if self.numbers:
            multiple = float(value)
            return () if multiple == 1 else tuple(n.times(multiple) for n in self.numbers)
        if self.name == "link" and value in LINKS:
            return (f"{LINK}={{{LINKS[value]}}}",)
        return (f"{LINK if self.name == 'link' else self.name}={value}",)

    def between(self, low: str, high: str) -> str | None:
        """Return the value midway between two, by ratio; None where there is none to speak of."""
        one, other = _QUANTITY.match(low), _QUANTITY.match(high)
        if one is None or other is None or one[2] != other[2]:
            return None
        a, b = float(one[1]), float(other[1])
        if not 0 < a < b:
            return None
        middle = float(f"{math.sqrt(a * b):.3g}")
        if any(n.whole for n in self.numbers):
            count = max(n.value for n in self.numbers if n.whole)
            if round(middle * count) in (round(a * count), round(b * count)):
                return None
        return f"{middle:.10g} {one[2]}".rstrip() if a < middle < b else None

    def ratio(self, low: str, high: str) -> float:
        """Return how many times one value the other is; infinite where that says nothing."""
        one, other = _QUANTITY.match(low), _QUANTITY.match(high)
        if one is None or other is None or not float(one[1]):
            return math.inf
        return float(other[1]) / float(one[1])


def axes_of(loaded: LoadedScenario) -> tuple[Axis, ...]:
    """Return every named axis that a scenario has, with its usual values.

    Left out are lengths that a histogram or a trace gives: they have no mean to multiply.
    """
    found = []
    for name in USUAL:
        try:
            found.append(axis_of(loaded, name))
        except InputError:
            continue
    return tuple(found)


def axis_of(loaded: LoadedScenario, text: str) -> Axis:
    """Read an axis: ``ttft``, ``ttft=0.5,1,2``, ``link=rdma,tcp``, or a path with its values.

    Args:
        loaded: The scenario.
        text: A named axis, with or without values, or ``path=value,value``. Commas within
            brackets belong to a value.

    Raises:
        InputError: The name, a value or the scenario does not allow it.
    """
    name, equals, rest = (part.strip() for part in text.partition("="))
    where = f"--vary {name[:80]}"
    values = tuple(_split(rest)) if equals else USUAL.get(name, ())
    if not name or not values or not all(values):
        plain = name and "." not in name and name not in USUAL
        known = nearest(name, USUAL) if plain else f"write {name or 'PATH'}=VALUE,VALUE"
        raise InputError(f"{where}: no values; {known}")
    if len(values) > MOST_VALUES:
        raise InputError(f"{where}: {len(values)} values; give at most {MOST_VALUES}")
    if len(set(values)) < len(values):
        raise InputError(f"{where}: a value is given twice; give each once")
    if name not in USUAL:
        if "." not in name and equals and name not in type(loaded.scenario).model_fields:
            raise InputError(f"{where}: no such axis; {nearest(name, USUAL)}, or give a path")
        return Axis(name, values)
    if name == "link":
        for value in values:
            if value not in LINKS and not value.startswith("{"):
                raise InputError(
                    f"{where}: {value[:80]!r} is no link; {nearest(value, LINKS)}; or write it out,"
                    " such as {bandwidth: 5 GB/s, latency: 2 ms}"
                )
        return Axis(name, values)
    for value in values:
        _require_multiple(where, value)
    numbers = tuple(_numbers(loaded, name, where))
    return Axis(name, tuple(sorted(values, key=float)), numbers)


def _require_multiple(where: str, value: str) -> None:
    try:
        multiple = float(value)
    except ValueError:
        multiple = math.nan
    if not LEAST <= multiple <= MOST:
        raise InputError(
            f"{where}: {value[:40]!r} is no multiple; write numbers from {LEAST:g} to {MOST:g},"
            " such as 0.5,1,2"
        )


def _split(text: str) -> Iterator[str]:
    """Yield the values of a list with commas, those within brackets left alone."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text:
        yield text[start:].strip()


def _numbers(loaded: LoadedScenario, name: str, where: str) -> Iterator[Number]:
    scenario: Scenario = loaded.scenario
    for workload in scenario.workloads:
        path = f"workloads.{workload.id}"
        if name in ("ttft", "tpot"):
            yield from _deadlines(workload, name, f"{path}.slo")
        elif name == "scale":
            yield _rate(workload, f"{path}.arrivals", where)
        else:
            yield from _lengths(workload.lengths, name, f"{path}.lengths", where)


def _deadlines(workload: Workload, name: str, path: str) -> Iterator[Number]:
    """Yield the deadlines of one kind: with TPOT goes the one on the longest gap."""
    slo = workload.slo
    if name == "ttft":
        yield Number(f"{path}.ttft", slo.ttft, "s")
        for i, bucket in enumerate(slo.ttft_by_prompt):
            yield Number(f"{path}.ttft_by_prompt.{i}.ttft", bucket.ttft, "s")
        return
    yield Number(f"{path}.tpot", slo.tpot, "s")
    if slo.max_itl is not None:
        yield Number(f"{path}.max_itl", slo.max_itl, "s")


def _rate(workload: Workload, path: str, where: str) -> Number:
    for form, given in workload.arrivals:
        if given is None:
            continue
        if isinstance(given, float | int):
            return Number(f"{path}.{form}", float(given), "req/s")
        if getattr(given, "rate", None) is not None:
            return Number(f"{path}.{form}.rate", given.rate, "req/s")
        for key in ("count", "users"):
            if getattr(given, key, None) is not None:
                return Number(f"{path}.{form}.{key}", getattr(given, key), "", whole=True)
    raise InputError(
        f"{where}: {path} states no rate to multiply; give replay a rate, or vary a path"
    )


def _lengths(lengths: LengthForms, name: str, path: str, where: str) -> Iterator[Number]:
    if lengths.mixture is not None:
        for i, part in enumerate(lengths.mixture):
            yield from _lengths(part, name, f"{path}.mixture.{i}", where)
        return
    marginal = lengths.prompt if name == "prompt" else lengths.output
    if marginal is None:
        raise InputError(
            f"{where}: {path} comes from a histogram or a trace, which has no mean to multiply;"
            " state prompt and output instead, or vary a path"
        )
    yield from _marginal(marginal, f"{path}.{name}", where)


def _marginal(marginal: Marginal, path: str, where: str) -> Iterator[Number]:
    if marginal.mixture is not None:
        for i, part in enumerate(marginal.mixture):
            yield from _marginal(part, f"{path}.mixture.{i}", where)
    elif marginal.fixed is not None:
        yield Number(f"{path}.fixed", marginal.fixed, "tokens")
    elif marginal.pareto is not None:
        yield Number(f"{path}.pareto.minimum", marginal.pareto.minimum, "tokens")
        if marginal.pareto.maximum is not None:
            yield Number(f"{path}.pareto.maximum", marginal.pareto.maximum, "tokens")
    elif marginal.uniform is not None:
        yield Number(f"{path}.uniform.minimum", marginal.uniform.minimum, "", whole=True)
        yield Number(f"{path}.uniform.maximum", marginal.uniform.maximum, "", whole=True)
    elif marginal.zipf is not None:
        raise InputError(f"{where}: {path}.zipf has no mean to multiply; vary its exponent by path")
    else:
        form = "lognormal" if marginal.lognormal is not None else "gamma"
        yield Number(f"{path}.{form}.mean", getattr(marginal, form).mean, "tokens")


def require_paths(axes: Sequence[Axis]) -> None:
    """Refuse axes that change the same value.

    Raises:
        InputError: Two do, or one is given twice.
    """
    seen: dict[str, str] = {}
    for axis in axes:
        for setting in axis.settings(axis.values[0]) or tuple(n.path for n in axis.numbers):
            path = setting.partition("=")[0]
            other = seen.get(path)
            if other is not None:
                raise InputError(f"--vary {axis.name}: changes {path}, as {other} does; drop one")
            seen[path] = axis.name
