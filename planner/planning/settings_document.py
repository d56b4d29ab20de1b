"""The plan's section on settings: knobs, the engine's defaults, and busy accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.fleet import Settings
from planner.planning.busy import busy_points
from planner.planning.settings import (
    MOST_POOLS,
    bench_of,
    defaults_of,
    knob_effects,
    tried_pools,
    with_needs,
)
from planner.problem.arrivals import UserArrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.fleet import SettingEffect
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet
    from planner.planning.settings import Bench

NO_DEFAULTS = "the defaults of this engine are not known"


def settings_section(answer: Answer, fleet: Fleet, over: Callable[[], bool]) -> Settings | None:
    """Say what the settings of a fleet are worth; None where no pool's can be varied.

    Args:
        answer: The question.
        fleet: The chosen fleet.
        over: Asked before each run; what is left is then not told.
    """
    if over() or not tried_pools(fleet):
        return None
    bench = bench_of(answer, fleet)
    plan = with_needs(bench, bench.effect("the plan", {}), {}, over)
    knobs = knob_effects(bench, over)
    defaults, source = _engine_defaults(bench, over)
    users = any(isinstance(d.arrivals, UserArrivals) for d in answer.problem.demands)
    grouped = any(pool.template.build.group is not None for pool in fleet.pools)
    busy = () if users or grouped else busy_points(bench, over)
    return Settings(
        plan=plan,
        knobs=knobs,
        engine_defaults=defaults,
        engine_defaults_source=source,
        busy=busy,
        notes=tuple(_notes(fleet, defaults, users=users, grouped=grouped)),
    )


def _engine_defaults(bench: Bench, over: Callable[[], bool]) -> tuple[SettingEffect | None, str]:
    changes, why, found = defaults_of(bench)
    if found is None or over():
        return None, "" if found else NO_DEFAULTS
    name = "the engine's defaults"
    if why:
        plan = bench.effect("the plan", {})
        return (
            plan.model_copy(
                update={
                    "change": name,
                    "impossible": why,
                    "attainment": {},
                    "goodput_rps": None,
                    "usd_per_thousand_compliant": None,
                }
            ),
            found.source,
        )
    return with_needs(bench, bench.effect(name, changes), changes, over), found.source


def _notes(
    fleet: Fleet, defaults: SettingEffect | None, *, users: bool, grouped: bool
) -> Iterator[str]:
    if defaults is None:
        yield NO_DEFAULTS
    if users:
        yield "users who wait ask less where answers are slow: no load keeps their replicas full"
    if grouped:
        yield "settings of prefill and decode replicas are chosen with their groups"
    if len(fleet.pools) > MOST_POOLS:
        yield f"settings of the {MOST_POOLS} dearest pools are tried"
