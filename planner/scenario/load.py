"""From a file and settings to a scenario that remembers where each value came from."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from planner.errors import InputError
from planner.scenario.overrides import apply_overrides
from planner.source import Source, read_source
from planner.spec import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.errors import Where
    from planner.scenario.scenario import Scenario
    from planner.scenario.table_scenario import TableScenario
    from planner.source import Loc
    from planner.spec import Spec

Origin = Literal["file", "set", "default"]
TABLES = "capacity_tables"
"""The section that makes a document a :class:`TableScenario`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid scenario, with its source for places and its folder for relative paths."""

    scenario: Spec
    source: Source
    folder: Path

    def at(self, *loc: str | int) -> Where | str:
        """Return where a value is written, for an error message."""
        return self.source.at(loc)

    def changed(self, settings: Sequence[str]) -> Self:
        """Return the scenario with ``path=value`` settings applied, validated anew.

        Raises:
            InputError: One line per mistake.
        """
        source = apply_overrides(self.source, settings)
        return replace(self, scenario=validate(source, type(self.scenario)), source=source)

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


@dataclass(frozen=True, slots=True)
class LoadedScenario(Loaded):
    """A question that simulation answers."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class LoadedTables(Loaded):
    """A question that measured capacities answer."""

    scenario: TableScenario


def load_question(path: Path, settings: Sequence[str] = ()) -> LoadedScenario | LoadedTables:
    """Read a scenario file of either form, apply ``path=value`` settings, validate the result.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    source = apply_overrides(read_source(path), settings)
    if isinstance(source.data, dict) and TABLES in source.data:
        return _tables(source, path.parent)
    from planner.scenario.scenario import Scenario  # one form is enough: they take time to load

    return LoadedScenario(validate(source, Scenario), source, path.parent)


def load_scenario(path: Path, settings: Sequence[str] = ()) -> LoadedScenario:
    """Read a scenario file that can be simulated, with ``path=value`` settings applied.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    return simulated(load_question(path, settings))


def simulated(loaded: LoadedScenario | LoadedTables) -> LoadedScenario:
    """Return a question that simulation can answer.

    Raises:
        InputError: The question is one of measured capacities.
    """
    if isinstance(loaded, LoadedScenario):
        return loaded
    raise InputError(
        f"{loaded.at(TABLES)}: {TABLES}: holds measured capacities, which are planned with and"
        " not simulated; use `planner plan`, or describe workloads instead"
    )


def question_of_table(path: Path, settings: Sequence[str] = ()) -> LoadedTables:
    """Ask for the cheapest fleet by a file of measured capacities alone.

    Args:
        path: JSON in the form of ``capacity_tables.file``.
        settings: Changes of the scenario that this makes, such as ``limits.budget=9 USD/h``.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    data: dict[str, Any] = {
        "format_version": "1.0",
        "name": path.stem[:100] or "capacity table",
        TABLES: {"file": str(path)},
        "objective": "min_cost",
    }
    places: dict[Loc, Where | str] = {(TABLES, "file"): f"--capacity-table {path}"}
    return _tables(apply_overrides(Source(str(path), data, places), settings), Path())


def _tables(source: Source, folder: Path) -> LoadedTables:
    from planner.scenario.table_scenario import TableScenario

    return LoadedTables(validate(source, TableScenario), source, folder)


def solver_settings(
    time_limit_s: float | None, gap: float | None, seed: int | None, solver: str | None = None
) -> list[str]:
    """Write what is given as ``path=value`` settings of the scenario's solver section."""
    limit = None if time_limit_s is None else f"{time_limit_s!r} s"
    name = None if solver is None else json.dumps(solver, ensure_ascii=False)
    given = {"time_limit": limit, "gap": gap, "seed": seed, "name": name}
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
