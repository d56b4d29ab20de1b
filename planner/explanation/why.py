"""What a plan says about itself: its decisions, its tight limits, and the roads not taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError, nearest
from planner.fleet import Decision, Infeasibility, LimitUse, OneLess, Rejected, Relaxation
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


def explain_plan(plan: FleetPlan, why_not: str | None = None) -> Why:
    """Gather the reasons of a plan, or those that concern the templates named ``why_not``.

    Args:
        plan: The plan.
        why_not: Part of a template's name, in any case; all templates where left out.

    Raises:
        InputError: No pool and no rejected template of the plan bears such a name.
    """
    if why_not is None:
        return _why(plan, None, (), plan.rejected)
    word = why_not.casefold().strip()
    rejected = tuple(x for x in plan.rejected if word in x.template.casefold())
    there = [(p.id, p.accelerator) for p in plan.pools]
    if plan.capacity_table is not None:
        there += [(u.template, u.accelerator) for u in plan.capacity_table.units]
    chosen = tuple(name for name, kind in there if word in f"{name} {kind}".casefold())
    if not word or not (rejected or chosen):
        known = [x.template for x in plan.rejected] + [name for name, _ in there]
        raise InputError(f"--why-not {why_not}: no template has it; {nearest(why_not, known)}")
    return _why(plan, why_not, chosen, rejected)


def _why(
    plan: FleetPlan, question: str | None, chosen: tuple[str, ...], rejected: tuple[Rejected, ...]
) -> Why:
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
    )


def _is_tight(limit: LimitUse) -> bool:
    used_up = limit.limit is not None and limit.used >= limit.limit * (1 - 1e-9)
    return used_up or bool(limit.shadow_price_usd_per_hour)
