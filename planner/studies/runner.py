"""The runs of a study, side by side in processes, each kept as soon as it is done."""

from __future__ import annotations

import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from planner.errors import PlannerError
from planner.fleet import FleetPlan
from planner.spec import Spec, dump_json
from planner.studies.store import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.sharedctypes import Synchronized

    from planner.scenario.load import LoadedScenario, LoadedTables
    from planner.studies.grid import Run
    from planner.studies.store import RunStore

TRIES: Final = 3
"""How often a run is begun whose process dies; it then counts as failed."""


class StudyRow(Spec):
    """One run: what was asked, and the answer."""

    run: int
    alternative: str | None
    values: dict[str, str]
    """By path."""
    seed: int
    status: str
    """Of the plan; ``failed`` where planning broke off, with the reason."""
    usd_per_hour: float | None = None
    usd_per_thousand_compliant: float | None = None
    goodput_rps: float | None = None
    attainment: float | None = None
    accelerators: int | None = None
    fleet: tuple[str, ...] = ()
    """Such as ``3 x h100-sxm.tp1``."""
    kept_at: float | None = None
    """Least multiple of the demand up to which every promise is kept."""
    gap: float | None = None
    reason: str = ""
    """Why there is no fleet, or no proof."""


class StudyResult(Spec):
    """All rows of a study that are done, in order."""

    name: str
    asked: int
    """Runs of the whole study."""
    rows: tuple[StudyRow, ...]
    ended: str = ""
    """What ended the work before all were done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A study with its runs and its scenario."""

    name: str
    runs: Sequence[Run]
    loaded: LoadedScenario | LoadedTables
    scenario: Path
    """The file that was loaded."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is told: all of it plain data."""

    scenario: str
    settings: tuple[str, ...]
    cache: str | None


def study_rows(
    asked: Asked,
    store: RunStore | None,
    *,
    jobs: int,
    cache: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    kept: Callable[[StudyRow, str], None] = lambda _row, _plan: None,
) -> StudyResult:
    """Plan every run that is not kept yet, and return all rows.

    Args:
        asked: The study.
        store: Where plans are kept; None keeps none.
        jobs: Processes.
        cache: Folder of the simulations that plans share; None for none.
        progress: Told what is being done and which share of the whole is done.
        kept: Given each row with its plan as JSON, in the order in which they are done.

    Returns:
        Rows in order; fewer than asked where an interrupt ended the work.
    """
    runs = asked.runs
    keys = {run.number: key_of(asked.loaded.changed(run.settings)) for run in runs}
    rows: dict[int, StudyRow] = {}
    waiting: dict[str, list[Run]] = {}
    for run in runs:
        plan = store.get(keys[run.number]) if store else None
        if plan is None:
            waiting.setdefault(keys[run.number], []).append(run)
        else:
            rows[run.number] = _row(run, plan)
            kept(rows[run.number], plan)
    began, before = monotonic(), len(rows)

    def tell() -> None:
        done = len(rows)
        if progress is not None:
            left = ""
            if done > before:
                s = (monotonic() - began) / (done - before) * (len(runs) - done)
                left = f", about {s / 60:.0f} min left" if s >= 90 else f", about {s:.0f} s left"
            progress(f"{done} of {len(runs)} runs{left}", done / len(runs))

    tell()
    ended = ""
    try:
        for key, plan in _planned(waiting, asked.scenario, jobs, cache):
            if store is not None and not plan.startswith(FAILED):
                store.put(key, plan)
            for run in waiting[key]:
                rows[run.number] = _row(run, plan)
                kept(rows[run.number], plan)
            tell()
    except KeyboardInterrupt:
        ended = f"interrupted after {len(rows)} of {len(runs)} runs"
    return StudyResult(
        name=asked.name,
        asked=len(runs),
        rows=tuple(rows[n] for n in sorted(rows)),
        ended=ended,
    )


FAILED: Final = "failed: "


def _planned(
    waiting: dict[str, list[Run]], scenario: Path, jobs: int, cache: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield each question's plan as JSON, or ``failed: `` and why, as they are done."""
    left = dict.fromkeys(waiting, 0)
    while left:
        workers = min(jobs, len(left))
        context = get_context("spawn")
        started = context.Value("i", 0)
        pool = ProcessPoolExecutor(
            workers, context, initializer=_begin, initargs=(started, workers)
        )
        try:
            folder = None if cache is None else str(cache)
            tasks: dict[Future[str], str] = {}
            for key in left:
                task = Task(str(scenario), waiting[key][0].settings, folder)
                tasks[pool.submit(_plan, task)] = key
            open_ = set(tasks)
            while open_:
                done, open_ = wait(open_, return_when=FIRST_COMPLETED)
                for one in done:
                    key = tasks[one]
                    text = one.result()
                    del left[key]
                    yield key, text
        except BrokenProcessPool:
            yield from _given_up(left)
        finally:
            _stop(pool)


def _given_up(left: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Count one try more for all that are open; yield those that had enough."""
    for key in list(left):
        left[key] += 1
        if left[key] >= TRIES:
            del left[key]
            yield key, f"{FAILED}its process died {TRIES} times; is there enough memory?"


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes without waiting for what they do: nothing of it is kept in them."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with suppress(OSError, ValueError):
            process.terminate()
    for process in processes:
        process.join(5)


def _begin(started: Synchronized[int], workers: int) -> None:
    """Leave interrupts to the parent, and keep to one processor where others have the rest.

    With as many runs as processors, the threads of a run would only wait for each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with started.get_lock():
        mine = started.value
        started.value += 1
    if workers > 1 and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            there = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, set(there[mine % len(there) :: workers]))


def _plan(task: Task) -> str:
    """Plan one run in a process of its own."""
    from planner.planning import plan_question
    from planner.scenario.load import load_question
    from planner.simulation.point_folder import points_kept_in

    try:
        with points_kept_in(None if task.cache is None else Path(task.cache)):
            answer = plan_question(load_question(Path(task.scenario), task.settings))
    except PlannerError as error:
        return f"{FAILED}{error}"
    return dump_json(answer)


def _row(run: Run, text: str) -> StudyRow:
    """Make the row of a plan."""
    told = {
        "run": run.number,
        "alternative": run.alternative,
        "values": run.values,
        "seed": run.seed,
    }
    if text.startswith(FAILED):
        return StudyRow.model_validate({**told, "status": "failed", "reason": text[len(FAILED) :]})
    plan = FleetPlan.model_validate_json(text)
    totals, reasons = plan.totals, [f"{x.limit}: {x.needs}" for x in plan.infeasibility]
    breaks = [b.kept_at for b in plan.evidence.breaks_at]
    least = None if not breaks or None in breaks else min(x for x in breaks if x is not None)
    answer = (
        {}
        if totals is None
        else {
            "usd_per_hour": totals.cost_usd_per_hour,
            "usd_per_thousand_compliant": totals.usd_per_thousand_compliant,
            "goodput_rps": totals.goodput_rps,
            "attainment": totals.attainment,
            "accelerators": totals.accelerators,
        }
    )
    return StudyRow.model_validate(
        {
            **told,
            **answer,
            "status": plan.status,
            "fleet": tuple(_fleet(plan)),
            "kept_at": least,
            "gap": plan.objective.gap,
            "reason": "; ".join(reasons) or plan.evidence.unproven,
        }
    )


def _fleet(plan: FleetPlan) -> Iterator[str]:
    for pool in plan.pools:
        yield f"{pool.replicas} x {pool.id}"
    for unit in plan.capacity_table.units if plan.capacity_table else ():
        yield f"{unit.units} x {unit.template}"
