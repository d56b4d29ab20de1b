"""Why there is no plan: the physical reason first, then what would make one possible."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from planner.candidates.number_formats import accepts
from planner.candidates.screen import KEEPS_AT_NO_LOAD
from planner.data import version
from planner.fleet import TOGETHER, Evidence, FleetPlan, Infeasibility, ObjectiveValue, Rejected
from planner.milp import NoFleetError
from planner.milp.relax import DEMANDS
from planner.planning.document import effective_scenario
from planner.planning.fitting import no_room
from planner.planning.prefixes import why_slow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.candidates.serve import Barrier
    from planner.candidates.template import Build, Removed
    from planner.errors import InfeasibleError
    from planner.milp.relax import Shortfall
    from planner.planning.answered import Answer
    from planner.problem.resolve import Demand, Problem
    from planner.simulation.fleet import Study

PLACES: Final = (
    "nodes_are_held",
    "power_is_kept",
    "moves_are_limited",
    "losing_f_keeps_the_floor",
    "survivors_are_offered_the_rest",
)
"""Families of limits on nodes and failures."""
FEW: Final = 4
"""Reasons that are quoted; the rest are counted."""


def infeasible_plan(
    answer: Answer,
    status: Literal["infeasible", "unknown"],
    reasons: Sequence[Infeasibility],
    left_out: Sequence[Removed] = (),
    unknown: str = "the time limit passed, or the work was interrupted, before any fleet was found",
) -> FleetPlan:
    """Write the document of a question that has no plan, or none yet and then why."""
    return FleetPlan(
        planner_version=version(),
        seed=answer.problem.seed,
        created=answer.created,
        scenario=effective_scenario(answer),
        status=status,
        objective=ObjectiveValue(name=answer.problem.objective, value=None, bound=None, gap=None),
        totals=None,
        pools=(),
        workloads=(),
        supply=(),
        bill=(),
        decisions=(),
        rejected=tuple(
            Rejected(template=r.name, reason=r.reason, numbers=r.numbers) for r in left_out
        ),
        limits=(),
        evidence=Evidence(
            verified=False,
            seeds=(),
            requests=answer.study.meter.requests,
            one_less=(),
            demand_sweep=(),
            candidates=len(left_out),
            proof_covers="nothing: there is no plan",
            notes=(unknown, *why_slow(answer.problem)) if status == "unknown" else (),
        ),
        infeasibility=tuple(reasons),
    )


def no_time(problem: Problem, error: InfeasibleError) -> tuple[Infeasibility, ...]:
    """Say why work that may wait cannot be done, and which limits would have to give."""
    short = isinstance(error, NoFleetError)
    why = "the units that other workloads leave free are too few" if short else str(error)
    limits = explain_limits(problem, error) if isinstance(error, NoFleetError) else ()
    windows = tuple(
        Infeasibility(
            limit=f"completion_window of {one.demand.id}",
            has=f"{one.window_s / 3600:g} h",
            needs="units that are free in it",
            fastest_reachable=why,
            remedy="a longer completion_window, more stock or budget, or no window at all",
        )
        for one in problem.deferred
    )
    return (*windows, *limits)


def explain_barriers(
    problem: Problem,
    study: Study,
    unserved: Sequence[int],
    builds: Sequence[Build],
    barriers: Sequence[Barrier],
    left_out: Sequence[Removed],
) -> tuple[Infeasibility, ...]:
    """Say for each workload that nothing can serve what stands in its way."""
    reasons: list[Infeasibility] = []
    for w in unserved:
        demand = problem.demands[w]
        own = [b for b in barriers if b.workload == w]
        slow = [b for b in own if b.kind == "deadline"]
        beyond = [b for b in own if b.kind == "context"]
        if beyond:
            reasons.append(_beyond_context(demand, beyond[0]))
        elif slow:
            reasons += _too_slow(study, demand, w, slow)
        elif own:
            reasons.append(_too_long(demand, own))
        elif any(accepts(demand, b) for b in builds):
            reasons.append(_no_load(demand, left_out))
        else:
            reasons.append(_no_build(demand, left_out))
    return tuple(reasons)


def _too_slow(study: Study, demand: Demand, w: int, slow: Sequence[Barrier]) -> list[Infeasibility]:
    """Name the deadline that even an empty replica misses, with the best that is reachable."""
    reasons = []
    only = tuple(float(v == w) for v in range(len(study.promise)))
    prompts = study.draws.get(only, 4_000, 0, 0).prompt
    tokens = float(np.quantile(prompts, demand.slo.attainment))
    reached = [(b.build, b.reached) for b in slow if b.reached is not None]
    build, best = min(reached, key=lambda pair: pair[1].ttft_at_promise_s)
    if best.ttft_at_promise_s > demand.slo.ttft:
        way_s = demand.network_s
        alone, needs = _ms(best.ttft_at_promise_s), _ms(best.ttft_at_promise_s + way_s)
        way = f", and the way to its users {_ms(way_s)}" if way_s else ""
        where = f"{build.accelerator} tp{build.tp_degree}"
        reasons.append(
            Infeasibility(
                limit=f"{demand.id}: ttft",
                has=_ms(demand.slo.ttft + way_s),
                needs=needs,
                fastest_reachable=(
                    f"the fastest isolated prefill of {tokens:,.0f} tokens takes {alone} on {where}"
                    f"{way}"
                ),
                remedy=(
                    f"a ttft of at least {needs}, shorter prompts or a cached prefix, a higher"
                    " tensor-parallel degree or a faster accelerator; further copies of the same"
                    " cannot help"
                ),
            )
        )
    build, best = min(reached, key=lambda pair: pair[1].tpot_at_promise_s)
    if best.tpot_at_promise_s > demand.slo.tpot:
        needs = _ms(best.tpot_at_promise_s)
        where = f"{build.accelerator} tp{build.tp_degree}"
        reasons.append(
            Infeasibility(
                limit=f"{demand.id}: tpot",
                has=_ms(demand.slo.tpot),
                needs=needs,
                fastest_reachable=f"a lone request's output token takes {needs} on {where}",
                remedy=(
                    f"a tpot of at least {needs}, a higher tensor-parallel degree, a faster"
                    " accelerator or fewer bits; further copies of the same cannot help"
                ),
            )
        )
    build, best = min(reached, key=lambda pair: pair[1].max_itl_at_promise_s)
    if demand.slo.max_itl is not None and best.max_itl_at_promise_s > demand.slo.max_itl:
        needs = _ms(best.max_itl_at_promise_s)
        where = f"{build.accelerator} tp{build.tp_degree}"
        reasons.append(
            Infeasibility(
                limit=f"{demand.id}: max_itl",
                has=_ms(demand.slo.max_itl),
                needs=needs,
                fastest_reachable=f"a lone request's last output token takes {needs} on {where}",
                remedy=(
                    f"a max_itl of at least {needs}, a higher tensor-parallel degree, a faster"
                    " accelerator or fewer bits; further copies of the same cannot help"
                ),
            )
        )
    if not reasons:
        build, best = max(reached, key=lambda pair: pair[1].attainment)
        reasons.append(
            Infeasibility(
                limit=f"{demand.id}: all deadlines together",
                has=f"a promise of {_percent(demand.slo.attainment)}",
                needs=f"one of at most {_percent(best.attainment)}",
                fastest_reachable=(
                    f"an empty replica on {build.accelerator} tp{build.tp_degree} attains no more"
                ),
                remedy=(
                    f"an attainment of at most {_percent(best.attainment)}, or looser deadlines;"
                    " further copies of the same cannot help"
                ),
            )
        )
    return reasons


def _beyond_context(demand: Demand, barrier: Barrier) -> Infeasibility:
    within = barrier.removed.numbers["within_context"]
    return Infeasibility(
        limit=f"{demand.id}: context",
        has=f"{demand.llm.max_context:,} tokens of context in {demand.llm.id}",
        needs=f"room for {demand.slo.attainment:.1%} of the requests; {within:.1%} fit",
        fastest_reachable="",
        remedy="shorter prompts or outputs, a model with a longer context, or a lower attainment",
    )


def _too_long(demand: Demand, own: Sequence[Barrier]) -> Infeasibility:
    best = max(own, key=lambda b: b.build.kv_tokens)
    longest = best.removed.numbers["longest_request_tokens"]
    return Infeasibility(
        limit=f"{demand.id}: memory",
        has=f"{best.build.kv_tokens:,} tokens of KV cache at most, on {best.build.hardware}",
        needs=f"{longest:,.0f} tokens for the longest request",
        fastest_reachable="",
        remedy=(
            f"requests of at most {best.build.kv_tokens:,} tokens, a higher tensor-parallel degree,"
            " fewer max_num_batched_tokens or a higher memory_utilisation"
        ),
    )


def _no_load(demand: Demand, left_out: Sequence[Removed]) -> Infeasibility:
    return Infeasibility(
        limit=f"{demand.id}: deadlines",
        has="no template that keeps the promise at any load",
        needs="one that does",
        fastest_reachable=_each_once(
            r for r in left_out if r.name.endswith(f"@{demand.id}") and r.reason != KEEPS_AT_NO_LOAD
        ),
        remedy="looser deadlines, a lower attainment, larger max_num_seqs, or more memory",
    )


def _no_build(demand: Demand, left_out: Sequence[Removed]) -> Infeasibility:
    why = _each_once(r for r in left_out if "@" not in r.name)
    return Infeasibility(
        limit=f"{demand.id}: {demand.llm.id} in {'/'.join(demand.precisions)}",
        has="no way to build a replica",
        needs=f"one that can be built ({why or 'no accelerator has a curve for this model'})",
        fastest_reachable="",
        remedy=(
            "offer an accelerator with more memory, allow a higher tp_degree, pipeline_degrees or"
            " memory_utilisation, accept another precision, or see `planner catalogue curves`"
        ),
    )


def _each_once(left_out: Iterable[Removed]) -> str:
    """Quote the first that was left out for each reason, a few of them."""
    first: dict[str, str] = {}
    for removed in left_out:
        first.setdefault(removed.reason, removed.name)
    lines = [f"{name}: {reason}" for reason, name in first.items()]
    rest = len(lines) - FEW
    return "; ".join(lines[:FEW]) + (f"; and {rest} more reasons" if rest > 0 else "")


def explain_limits(problem: Problem, error: NoFleetError) -> tuple[Infeasibility, ...]:
    """Say which limits are in the way, and how far each alone would have to give."""
    alone = tuple(_limit_or_less(problem, s, "alone") for s in error.alone)
    return alone or tuple(_limit_or_less(problem, s, TOGETHER) for s in error.together)


def _limit_or_less(problem: Problem, short: Shortfall, how: str) -> Infeasibility:
    """Say that a limit is in the way; where the time ended, that a smaller change may do."""
    told = _limit(problem, short, how)
    if short.least:
        return told
    return told.model_copy(
        update={
            "needs": told.needs
            if short.number in DEMANDS
            else f"{told.needs}, or less of a change",
            "remedy": f"{told.remedy}; far less may do: the time ended before the least was known",
        }
    )


def _limit(problem: Problem, short: Shortfall, how: str) -> Infeasibility:
    if short.family == "fleets_have_room":
        return no_room(problem, short, how)
    what = ",".join(short.index)
    has, needs = (_quantity(x, short.unit) for x in (short.limit, short.needs))
    name, change = f"{short.family} {what}".strip(), needs
    if short.family == "accelerators_are_held":
        name, change = f"stock of {what}", f"a stock of {needs}"
    elif short.family == "sides_stand_where_there_is_room":
        name = f"{short.index[0]} free in {short.index[1]}"
        change = f"{needs} there"
    elif short.family == "links_carry_their_kv":
        has, needs = (f"{x / 1e9:.4g} GB/s" for x in (short.limit, short.needs))
        name = f"link {short.index[0]} for the KV of groups"
        change = f"a link of {needs}, less oversubscription, or groups that meet nearer"
    elif short.family == "budget_is_kept":
        name, change = "limits.budget", f"a budget of {needs}"
    elif short.family in PLACES:
        return _place(short, (has, needs), how)
    elif short.family == "the_promise_is_kept":
        name = f"{what}: slo.attainment"
        has = f"a promise of {_percent(short.limit)}"
        needs = f"one of at most {_percent(short.needs)}"
        change = f"an attainment of {short.needs:.4f}, if fewer may meet their deadlines"
    elif short.family == "every_request_is_offered":
        name = f"{what}: load"
        has = f"templates that carry at most {_percent(short.needs)} of it beside the others'"
        needs = "templates that carry all of it"
        change = "more kinds of accelerators or degrees, or replicas that are not shared"
    return Infeasibility(
        limit=name, has=has, needs=needs, fastest_reachable="", remedy=f"{change}, {how}"
    )


def _place(short: Shortfall, quantities: tuple[str, str], how: str) -> Infeasibility:
    """Say how far a limit on nodes, or what must be survived, would have to give."""
    has, needs = quantities
    what = short.index[0] if short.index else ""
    reached = ""
    if short.family == "nodes_are_held":
        name, change = f"stock of nodes {what}", f"a stock of {needs}"
    elif short.family == "power_is_kept":
        name, change = f"limits.power of {what}", f"a power of {needs}"
    elif short.family == "moves_are_limited":
        more = short.needs - short.limit
        name, change = "limits.moves", f"limits.moves of {short.needs:g}, {more:g} more"
    else:
        lost, workload, *_ = short.index
        floor = math.floor(short.needs * 1e4) / 1e4
        away = short.family == "survivors_are_offered_the_rest"
        name = f"limits.spare: {workload} after the loss of {lost.replace(':', ' and ')}"
        has = "all of its requests" if away else f"a floor of {_percent(short.limit)}"
        needs = f"one of at most {_percent(short.needs)}"
        if away:
            needs = f"what is left carries {_percent(short.needs)} of them"
            reached = "no limit is in the way: nothing that is left carries more"
        change = (
            f"limits.spare.attainment and shed that let {_percent(1 - short.needs)} go"
            if away
            else f"limits.spare with attainment: {floor:.4f} and shed: {1 - floor:.4f}"
        )
    return Infeasibility(
        limit=name, has=has, needs=needs, fastest_reachable=reached, remedy=f"{change}, {how}"
    )


def _percent(share: float) -> str:
    """Write a share in per cent, rounded down: ``99.95 %``."""
    return f"{math.floor(share * 1e4 + 1e-9) / 100:g} %"


def _quantity(value: float, unit: str) -> str:
    """Write a number with its unit: ``1 accelerator``, ``8.97 USD/h``."""
    return f"{value:,.6g} {unit.removesuffix('s') if value == 1 else unit}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"
