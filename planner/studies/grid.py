"""A study: a scenario asked again for every combination of values, alternatives and seeds."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from planner.errors import InputError
from planner.ids import Slug
from planner.scenario.load import LoadedTables
from planner.spec import Spec, mistake
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.scenario.load import LoadedScenario

MOST_RUNS: Final = 10_000
"""Of one study."""
_NUMBER: Final = re.compile(r"^\s*([+-]?\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")
_RANGE: Final = re.compile(r"^(?P<low>.+?)\.\.(?P<high>.+?)(?:/(?P<steps>\d{1,5}))?$")

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Value = Annotated[str | int | float | bool, Field(union_mode="left_to_right")]


class Axis(Spec):
    """Values that one path of the scenario takes, one after another."""

    path: Text
    """As for ``--set``: ``workloads.chat.slo.ttft``."""
    values: tuple[Value, ...] = Field(default=(), max_length=MOST_RUNS)
    """Each as it would stand in the scenario."""
    low: str | float | None = None
    """Of a range, both ends included: ``2 USD/h``; in place of ``values``."""
    high: str | float | None = None
    """In the same unit as ``low``."""
    steps: Annotated[int, Field(ge=2, le=MOST_RUNS)] = 5
    """Values of the range."""
    spacing: Literal["even", "ratio"] = "even"
    """Whether neighbours differ by the same amount or by the same factor."""

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        ranged = self.low is not None or self.high is not None
        if bool(self.values) == ranged:
            raise mistake("give either values, or low and high")
        if ranged:
            if self.low is None or self.high is None:
                raise mistake("a range has two ends: give low and high")
            _ = self.texts  # its ends must be numbers of one unit
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the values as ``--set`` takes them."""
        if self.values:
            return tuple(_yaml(value) for value in self.values)
        return spread(str(self.low), str(self.high), self.steps, self.spacing)


class Alternative(Spec):
    """A named variant of the scenario."""

    id: Slug
    settings: tuple[Text, ...] = Field(default=(), max_length=1000)
    """``path=value`` as for ``--set``."""


class Study(Spec):
    """What is asked, and with which values."""

    format_version: Literal["1.0"]
    name: Annotated[str, Field(min_length=1, max_length=100)]
    scenario: Text
    """The file, seen from the folder of the study."""
    settings: tuple[Text, ...] = Field(default=(), max_length=1000)
    """Changes for every run, ``path=value``."""
    evidence: Literal["brief", "full"] = "brief"
    """As ``solver.evidence``: ``full`` also sweeps demand and settings in every run."""
    over: tuple[Axis, ...] = Field(default=(), max_length=20)
    """Axes; the first changes slowest."""
    combine: Literal["cross", "zip"] = "cross"
    """Every combination of the axes, or their first values together, their second, and so on."""
    alternatives: tuple[Alternative, ...] = Field(default=(), max_length=1000)
    """Each with all values of the axes."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each is planned, on draws of its own: with the scenario's seed and the next."""

    @model_validator(mode="after")
    def _is_one_study(self) -> Self:
        for what, names in (
            ("alternatives", [a.id for a in self.alternatives]),
            ("over", [axis.path for axis in self.over]),
        ):
            for i, name in enumerate(names):
                if name in names[:i]:
                    raise mistake(f"{name!r} is given twice; keep one", what, i)
        lengths = {len(axis.texts) for axis in self.over}
        if self.combine == "zip" and len(lengths) > 1:
            told = ", ".join(f"{axis.path} {len(axis.texts)}" for axis in self.over)
            raise mistake(f"zip takes axes of one length; here: {told}", "over")
        return self


@dataclass(frozen=True, slots=True)
class Run:
    """One plan of a study."""

    number: int
    """From 1."""
    alternative: str | None
    values: dict[str, str]
    """By path."""
    seed: int
    settings: tuple[str, ...]
    """What ``--set`` takes to plan it."""


def runs_of(study: Study, loaded: LoadedScenario | LoadedTables, most: int) -> tuple[Run, ...]:
    """List the runs of a study: by alternative, then along the axes, then by seed.

    Args:
        study: The study.
        loaded: Its scenario.
        most: Runs beyond this number are refused.

    Raises:
        InputError: There are too many, or a setting is refused; one line per mistake.
    """
    columns = [axis.texts for axis in study.over]
    each = math.prod(len(c) for c in columns)
    if study.combine == "zip":
        each = len(columns[0]) if columns else 1
    total = each * max(len(study.alternatives), 1) * study.seeds
    if total > most:
        raise InputError(
            f"{study.name}: {total:,} runs are more than {most:,}; take fewer values, or allow more"
            " with --most"
        )
    rows = zip(*columns, strict=True) if study.combine == "zip" else itertools.product(*columns)
    points: list[tuple[str, ...]] = list(rows) if columns else [()]
    first = loaded.changed(study.settings).scenario.solver.seed
    tables = isinstance(loaded, LoadedTables)
    found: list[Run] = []
    for other in study.alternatives or (None,):
        for point in points:
            values = {axis.path: text for axis, text in zip(study.over, point, strict=True)}
            for k in range(study.seeds):
                settings = (
                    *(() if tables else (f"solver.evidence={study.evidence}",)),
                    *study.settings,
                    *(other.settings if other else ()),
                    *(f"{path}={text}" for path, text in values.items()),
                    *((f"solver.seed={first + k}",) if study.seeds > 1 else ()),
                )
                name = other.id if other else None
                found.append(Run(len(found) + 1, name, values, first + k, settings))
    _require_all(found, loaded)
    return tuple(found)


def _require_all(runs: Sequence[Run], loaded: LoadedScenario | LoadedTables) -> None:
    """Refuse a study with a run that could not be asked; every mistake once."""
    mistakes: dict[str, None] = {}
    for run in runs:
        try:
            loaded.changed(run.settings)
        except InputError as error:
            mistakes.update(dict.fromkeys(str(error).splitlines()))
    if mistakes:
        raise InputError("\n".join(mistakes))


def axis_of_words(text: str) -> Axis:
    """Read ``path=a,b,c`` or ``path=2 USD/h..4 USD/h/5``.

    Raises:
        InputError: It is written otherwise.
    """
    path, equals, values = text.partition("=")
    if not equals or not path.strip() or not values.strip():
        raise InputError(
            f"--over {shown(text)}: write it as path=VALUE,VALUE,... or path=LOW..HIGH/STEPS"
        )
    found = _RANGE.match(values.strip())
    try:
        if found is not None:
            low, high = found["low"].strip(), found["high"].strip()
            return Axis(path=path.strip(), low=low, high=high, steps=int(found["steps"] or 5))
        return Axis(path=path.strip(), values=tuple(_split(values)))
    except ValueError as error:
        said = str(error.errors()[0]["msg"]) if hasattr(error, "errors") else str(error)
        raise InputError(f"--over {path.strip()}: {said}") from error


def _split(text: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotes."""
    part, depth, quote = "", 0, ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
        elif c == "," and depth == 0:
            yield part.strip()
            part = ""
            continue
        part += c
    yield part.strip()


def spread(low: str, high: str, steps: int, spacing: str = "even") -> tuple[str, ...]:
    """Return so many values from one to another, in their unit: ``2 USD/h``, ``2.5 USD/h``, ...

    Raises:
        ValueError: The ends are no numbers of one unit, or a ratio would pass through nothing.
    """
    ends = [_NUMBER.match(end) for end in (low, high)]
    if ends[0] is None or ends[1] is None or ends[0][2] != ends[1][2]:
        raise mistake(f"{low!r} and {high!r} are no numbers of one unit, such as 2 USD/h..4 USD/h")
    a, b = (float(end[1].replace("_", "")) for end in ends if end is not None)
    if spacing == "ratio":
        if a <= 0 or b <= 0:
            raise mistake(f"{low!r} to {high!r}: a ratio needs numbers above 0")
        found = [a * (b / a) ** (k / (steps - 1)) for k in range(steps)]
    else:
        found = [a + (b - a) * k / (steps - 1) for k in range(steps)]
    unit = f" {ends[0][2]}" if ends[0][2] else ""
    return tuple(f"{value:.6g}{unit}" for value in found)


def _yaml(value: str | float) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
