"""The verbs of the command line as functions: documents in, documents out."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from planner.explanation.compare import Row, compare_rows, row_of_plan
from planner.explanation.difference import difference
from planner.explanation.why import explain_plan
from planner.scenario.load import (
    load_question,
    question_of_table,
    simulated,
    solver_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.explanation.compare import Comparison
    from planner.explanation.difference import Difference
    from planner.explanation.why import Why
    from planner.fleet import FleetPlan, WorkloadResult
    from planner.planning.capacity import TemplateCapacity, Wanted
    from planner.scenario.load import LoadedScenario, LoadedTables


def load(path: str | Path, settings: Sequence[str] = ()) -> LoadedScenario | LoadedTables:
    """Read a scenario of either form, with ``path=value`` settings applied.

    Args:
        path: The YAML file.
        settings: Changes such as ``workloads.chat.slo.ttft=500 ms``.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    return load_question(Path(path), settings)


def load_table(path: str | Path, settings: Sequence[str] = ()) -> LoadedTables:
    """Ask for the cheapest fleet by a file of measured capacities alone.

    Args:
        path: JSON with ``gpu_info``, ``workload_distribution`` and ``total_request_rate``.
        settings: Changes such as ``limits.budget=9 USD/h``.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    return question_of_table(Path(path), settings)


def plan(
    scenario: LoadedScenario | LoadedTables,
    *,
    time_limit_s: float | None = None,
    gap: float | None = None,
    seed: int | None = None,
    solver: str | None = None,
    created: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> FleetPlan:
    """Find the fleet that keeps every promise at the best objective, and prove it.

    Args:
        scenario: What :func:`load` or :func:`load_table` returned.
        time_limit_s: When to stop with the best plan so far; the scenario's where left out.
        gap: Relative distance to the bound that counts as solved; the scenario's where left out.
        seed: Seed of every random draw; the scenario's where left out.
        solver: ``highs``, or another that PuLP finds; the scenario's where left out.
        created: Date to write into the plan.
        progress: Told what is being done and which share of the whole is done.

    Returns:
        The plan; its ``status`` says whether there is a fleet, and how good the proof is.
    """
    from planner.planning import plan_question

    changed = scenario.changed(solver_settings(time_limit_s, gap, seed, solver))
    return plan_question(changed, created=created, progress=progress)


def simulate(
    fleet: FleetPlan,
    *,
    seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[WorkloadResult, ...]:
    """Simulate a plan's fleet request by request; one result per workload.

    Args:
        fleet: The plan.
        seed: Seed of the draw; the plan's where left out.
        progress: Told what is being done and which share of the whole is done.
    """
    from planner.planning import simulate_plan

    return simulate_plan(fleet, seed=seed, progress=progress)


def capacity(
    scenario: LoadedScenario | LoadedTables,
    wanted: Wanted | None = None,
    *,
    replicas: int = 1,
    precision: float = 0.005,
    progress: Callable[[str, float], None] | None = None,
) -> TemplateCapacity:
    """Find the largest load at which a template keeps the promise, and its goodput curve.

    Args:
        scenario: What :func:`load` returned.
        wanted: Which template; among several that fit, the cheapest per request.
        replicas: Size of the pool.
        precision: Wanted half-width of the 95 % interval, as a share of the capacity.
        progress: Told what is being done and which share of the whole is done.

    Raises:
        InputError: No template fits what is wanted, or the scenario has measured capacities.
        InfeasibleError: The promise holds at no load.
    """
    from planner.planning.capacity import capacity_of

    return capacity_of(
        simulated(scenario), wanted, replicas=replicas, precision=precision, progress=progress
    )


def explain(fleet: FleetPlan, why_not: str | None = None) -> Why:
    """Gather the reasons of a plan, or those that concern the templates named ``why_not``.

    Raises:
        InputError: Nothing in the plan bears such a name.
    """
    return explain_plan(fleet, why_not)


def compare(one: FleetPlan | Row, two: FleetPlan | Row) -> Comparison:
    """Compare two fleets by what a compliant request costs.

    Raises:
        InputError: A plan holds no fleet, or a row says something impossible.
    """
    return compare_rows(_row(one, "one"), _row(two, "two"))


def _row(side: FleetPlan | Row, name: str) -> Row:
    return side if isinstance(side, Row) else row_of_plan(side, name)


def diff(old: FleetPlan, new: FleetPlan) -> Difference:
    """Say what a new plan does differently from an old one: cost, fleet, promises, question."""
    return difference(old, new)


def report(fleet: FleetPlan, form: str = "html") -> str:
    """Write a plan as one page, ``html``, or as Markdown, ``md``."""
    from planner.reporting.report import report_of_plan

    return report_of_plan(fleet, form)


@contextmanager
def remembering(folder: str | Path) -> Iterator[None]:
    """Read simulations that ran before from a folder, and keep new ones there.

    Results are the same with and without. A folder that cannot be used makes no difference but
    in time.

    Args:
        folder: Made where it is missing.
    """
    from planner.simulation.point_folder import points_kept_in

    with points_kept_in(Path(folder)):
        yield
