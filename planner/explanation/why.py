"""What a plan says about itself: its decisions, its tight limits, and the roads not taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError, nearest
from planner.explanation.pattern import matches, not_considered
from planner.fleet import (
    Alternatives,
    Decision,
    Infeasibility,
    LimitUse,
    OneLess,
    PriceRange,
    Rejected,
    Relaxation,
    RunnerUp,
    SearchStep,
    Settings,
)
from planner.spec import Spec

if TYPE_CHECKING:
    from planner.fleet import FleetPlan


class Why(Spec):
    """The reasons behind a plan, as far as they were asked for."""

    question: str | None
    """Part of a template's name, where one was asked about."""
    chosen: tuple[str, ...]
    """Pools of the plan, or templates of its table, that the question names; else empty."""
    decisions: tuple[Decision, ...]
    tight_limits: tuple[LimitUse, ...]
    """Limits that are used up, or whose next unit is worth money."""
    one_less: tuple[OneLess, ...]
    rejected: tuple[Rejected, ...]
    infeasibility: tuple[Infeasibility, ...]
    relaxations: tuple[Relaxation, ...] = ()
    """What would make a fleet possible, where there is none."""
    proof_covers: str
    verdict: str = ""
    """Why what was asked about is not in the plan, in a sentence; empty where nothing was asked."""
    steps: tuple[SearchStep, ...] = ()
    """How the best ratio was closed in on, where the objective is one."""
    runners_up: tuple[RunnerUp, ...] = ()
    price_ranges: tuple[PriceRange, ...] = ()
    settings: Settings | None = None
    """What scheduler settings are worth; where nothing was asked about."""


def explain_plan(plan: FleetPlan, why_not: str | None = None) -> Why:
    """Gather the reasons of a plan, or those that concern the templates named ``why_not``.

    Args:
        plan: The plan.
        why_not: Part of a template's name, or its parts such as ``h200.tp8``, in any case; all
            templates where left out.

    Raises:
        InputError: No pool and no rejected template of the plan bears such a name, or the plan's
            scenario is none.
    """
    if why_not is None:
        return _why(plan, None, (), plan.rejected)
    rejected = tuple(x for x in plan.rejected if matches(why_not, x.template))
    there = [(p.id, p.accelerator) for p in plan.pools]
    if plan.capacity_table is not None:
        there += [(u.template, u.accelerator) for u in plan.capacity_table.units]
    chosen = tuple(n for n, kind in there if matches(why_not, n) or matches(why_not, kind))
    if not (rejected or chosen):
        from planner.problem.answered import answered_scenario

        asked = answered_scenario(plan).scenario.model_dump(mode="json")
        barred = not_considered(why_not, asked)
        if barred is not None:
            return _why(plan, why_not, (), (), f"not considered: {barred}")
        known = [x.template for x in plan.rejected] + [name for name, _ in there]
        raise InputError(f"--why-not {why_not}: no template has it; {nearest(why_not, known)}")
    return _why(plan, why_not, chosen, rejected, _verdict(rejected))


def _verdict(rejected: tuple[Rejected, ...]) -> str:
    """Say of the nearest template what it is short of, and at which price it would enter."""
    lost = [x for x in rejected if "loses_with_one" in x.numbers]
    if not lost:
        alike = sum(x.reason == rejected[0].reason for x in rejected) if rejected else 0
        more = f" ({alike} of {len(rejected)} templates, in the same words)" if alike > 1 else ""
        return f"{rejected[0].template}: {rejected[0].reason}{more}" if rejected else ""
    near = min(lost, key=lambda x: x.numbers["loses_with_one"])
    numbers = near.numbers
    said = (
        f"nearest: {near.template}; the best fleet with one costs"
        f" {numbers['usd_per_hour_with_one']:.2f} USD/h and is"
        f" {max(numbers['loses_with_one'], 0.0):.2%} worse"
    )
    if "unit_usd_per_hour_to_enter" in numbers:
        return (
            f"{said}; a unit costs {numbers['unit_usd_per_hour']:.4g} USD/h, and would enter at"
            f" {numbers['unit_usd_per_hour_to_enter']:.4g} USD/h"
        )
    return said if "unit_usd_per_hour" not in numbers else f"{said}; it enters at no price"


def _why(
    plan: FleetPlan,
    question: str | None,
    chosen: tuple[str, ...],
    rejected: tuple[Rejected, ...],
    verdict: str = "",
) -> Why:
    alternatives = plan.alternatives or Alternatives()
    return Why(
        question=question,
        chosen=chosen,
        decisions=plan.decisions if question is None else (),
        tight_limits=tuple(x for x in plan.limits if _is_tight(x)) if question is None else (),
        one_less=tuple(x for x in plan.evidence.one_less if question is None or x.pool in chosen),
        rejected=rejected,
        infeasibility=plan.infeasibility if question is None else (),
        relaxations=plan.relaxations if question is None else (),
        proof_covers=plan.evidence.proof_covers,
        verdict=verdict,
        steps=plan.objective.steps
        if question is None and plan.objective.name == "max_goodput_per_usd"
        else (),
        runners_up=tuple(
            x
            for x in alternatives.runners_up
            if question is None or matches(question, x.without.partition(" ")[2])
        ),
        price_ranges=tuple(
            x
            for x in alternatives.price_ranges
            if question is None or any(matches(p, x.accelerator) for p in question.split("."))
        ),
        settings=plan.settings if question is None else None,
    )


def _is_tight(limit: LimitUse) -> bool:
    used_up = limit.limit is not None and limit.used >= limit.limit * (1 - 1e-9)
    return used_up or bool(limit.shadow_price_usd_per_hour)
