"""Curves of the user's own: read from the files that a scenario names, and held against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalogue.measured import read_measured_laws
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.catalogue import Catalogue, StepLawRow
    from planner.errors import Where
    from planner.scenario.load import LoadedScenario
    from planner.scenario.policies import Policies


def own_laws(
    loaded: LoadedScenario, catalogue: Catalogue, mistakes: list[tuple[Where | str, str]]
) -> tuple[tuple[StepLawRow, ...], ...]:
    """Return the laws of each file under ``curves``; mistakes are added to the list."""
    found: list[tuple[StepLawRow, ...]] = []
    seen: dict[tuple[str | int, ...], int] = {}
    for i, name in enumerate(loaded.scenario.curves):
        rows: tuple[StepLawRow, ...] = ()
        try:
            rows = read_measured_laws(loaded.folder / name, catalogue)
        except InputError as error:
            place = loaded.at("curves", i)
            mistakes += [(place, f"curves.{i}: {line}") for line in str(error).splitlines()]
        for row in rows:
            first = seen.setdefault(row.configuration, i)
            if first != i:
                what = f"curves.{i}: {row.id} is in {loaded.scenario.curves[first]} too; keep one"
                mistakes.append((loaded.at("curves", i), what))
        found.append(rows)
    return tuple(found)


def why_unused(
    row: StepLawRow,
    wanted: Sequence[tuple[str, tuple[str, ...]]],
    accelerators: Sequence[str],
    policies: Policies,
) -> str | None:
    """Say why no replica of a scenario can have a law's configuration; None if one can.

    Args:
        row: The law.
        wanted: Model and acceptable precisions of each workload.
        accelerators: Ids of those on offer.
        policies: Engine and degrees that are searched.
    """
    precisions = [p for model, accepted in wanted if model == row.model for p in accepted]
    if not precisions:
        return f"no workload wants {row.model}"
    if row.precision not in precisions:
        return f"no workload of {row.model} accepts {row.precision}"
    if row.accelerator not in accelerators:
        return f"{row.accelerator} is not among the accelerators"
    if row.engine != policies.engine:
        return f"it is of {row.engine}, and policies.engine is {policies.engine}"
    if row.dp_degree > 1 and policies.attention_dp == "never":
        return "policies.attention_dp is never"
    if row.tp_degree not in policies.tp_degrees:
        return f"degree {row.tp_degree} is not among policies.tp_degrees"
    return None
