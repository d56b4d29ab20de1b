"""From a file and settings to a scenario that remembers where each value came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.scenario.overrides import apply_overrides
from planner.scenario.scenario import Scenario
from planner.source import read_source
from planner.spec import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from planner.errors import Where
    from planner.source import Loc, Source

Origin = Literal["file", "set", "default"]


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A valid scenario, with its source for places and its folder for relative paths."""

    scenario: Scenario
    source: Source
    folder: Path

    def at(self, *loc: str | int) -> Where | str:
        """Return where a value is written, for an error message."""
        return self.source.at(loc)

    def changed(self, settings: Sequence[str]) -> LoadedScenario:
        """Return the scenario with ``path=value`` settings applied, validated anew.

        Raises:
            InputError: One line per mistake.
        """
        source = apply_overrides(self.source, settings)
        return LoadedScenario(validate(source, Scenario), source, self.folder)

    def origins(self) -> dict[str, Origin]:
        """Return the origin of each value of the effective scenario, by dotted path."""
        return {
            ".".join(map(str, loc)): self._origin(loc)
            for loc in _leaves(self.scenario.model_dump(mode="json", exclude_none=True), ())
        }

    def _origin(self, loc: Loc) -> Origin:
        for end in range(len(loc), 0, -1):
            place = self.source.places.get(loc[:end])
            if place is not None:
                if isinstance(place, str):
                    return "set"
                return "file" if end == len(loc) else "default"
        return "default"


def load_scenario(path: Path, settings: Sequence[str] = ()) -> LoadedScenario:
    """Read a scenario file, apply ``path=value`` settings, and validate the result.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    source = apply_overrides(read_source(path), settings)
    return LoadedScenario(validate(source, Scenario), source, path.parent)


def solver_settings(time_limit_s: float | None, gap: float | None, seed: int | None) -> list[str]:
    """Write what is given as ``path=value`` settings of the scenario's solver section."""
    limit = None if time_limit_s is None else f"{time_limit_s!r} s"
    given = {"time_limit": limit, "gap": gap, "seed": seed}
    return [f"solver.{key}={value}" for key, value in given.items() if value is not None]


def _leaves(value: object, loc: Loc) -> Iterator[Loc]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*loc, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _leaves(item, (*loc, i))
    else:
        yield loc
