"""Why this fleet: decisions with their numbers, and every template that is not in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.fleet import Decision, Rejected
from planner.planning.failures import survives
from planner.planning.fitting import why_no_room
from planner.planning.moves import within_moves
from planner.planning.moving import the_last_unit_stays
from planner.planning.refine import Verified
from planner.planning.variants import cost_of_only, which_variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.screen import Screened
    from planner.candidates.template import Removed
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined
    from planner.planning.sweep import Arrived
    from planner.problem.resolve import Problem


def decisions(
    problem: Problem, refined: Refined, shown: Verified, left_out: Sequence[Removed]
) -> tuple[Decision, ...]:
    """Say what was decided between, and what each alternative would cost."""
    return (
        *_which_accelerator(problem, refined, shown, left_out),
        *which_variant(problem, refined, shown),
        *_shared_or_segregated(problem, refined, shown),
        *_which_scheduling(problem, refined, shown),
        *_does_the_last_unit_pay(problem, refined, shown),
    )


def _which_accelerator(
    problem: Problem, refined: Refined, shown: Verified, left_out: Sequence[Removed]
) -> tuple[Decision, ...]:
    if len(problem.supplies) < 2:
        return ()
    used = sorted({name for p in shown.fleet.pools for name in p.template.build.devices})
    cost = shown.fleet.usd_per_hour
    numbers = {"usd_per_hour": cost}
    words = []
    for supply in problem.supplies:
        name = supply.accelerator.id
        if used == [name]:
            continue
        only = {j: f for j, f in refined.frontiers.items() if {*f.template.build.devices} == {name}}
        alone = cost_of_only(problem, only)
        if alone is None:
            freely = replace(problem, moving=None)
            counted = problem.moving is not None and cost_of_only(freely, only) is not None
            within = " within limits.moves" if counted else ""
            why = "" if counted else why_no_room(problem, name) or _closest(name, left_out)
            words.append(f"{name} alone serves it in no number{within}{why}")
        else:
            numbers[f"usd_per_hour_on_{name}_alone"] = alone
            words.append(f"{name} alone costs {alone:.2f} USD/h ({alone / cost - 1:+.0%})")
    return (
        Decision(
            question="which accelerator",
            answer=" and ".join(used),
            because="; ".join(words) + "; by measured operating points",
            numbers=numbers,
        ),
    )


def _closest(accelerator: str, left_out: Sequence[Removed]) -> str:
    """Quote why the most capable build of an accelerator that no number helps was left out."""
    own = [r for r in left_out if r.name.startswith(f"{accelerator}.")]
    near = max(own, key=lambda r: r.numbers.get("attainment_when_empty", -1.0), default=None)
    return f" ({near.name}: {near.reason})" if near is not None else ""


def _shared_or_segregated(
    problem: Problem, refined: Refined, shown: Verified
) -> tuple[Decision, ...]:
    groups = {f.template.serves for f in refined.frontiers.values()}
    if not any(len(g) > 1 for g in groups) or all(len(g) > 1 for g in groups):
        return ()
    mixed = any(len(p.template.serves) > 1 for p in shown.fleet.pools)
    split = all(len(p.template.serves) == 1 for p in shown.fleet.pools)
    other = {j: f for j, f in refined.frontiers.items() if (len(f.template.serves) == 1) == mixed}
    cost, alternative = shown.fleet.usd_per_hour, cost_of_only(problem, other)
    word = "segregated" if mixed else "shared"
    if alternative is None:
        because = f"{word} pools alone cannot serve everything within the limits"
        numbers = {"usd_per_hour": cost}
    else:
        because = f"{word} pools alone cost {alternative:.2f} USD/h ({alternative / cost - 1:+.0%})"
        numbers = {"usd_per_hour": cost, f"usd_per_hour_{word}": alternative}
    answer = "segregated" if split else "shared" if mixed else "both"
    return (
        Decision(
            question="do workloads share replicas",
            answer=answer,
            because=because,
            numbers=numbers,
        ),
    )


def _which_scheduling(problem: Problem, refined: Refined, shown: Verified) -> tuple[Decision, ...]:
    """Say what priority scheduling does to replicas that serve several priorities."""
    shared = [
        f
        for f in refined.frontiers.values()
        if len({problem.priorities[w] for w in f.template.serves}) > 1
    ]
    if not shared:
        return ()
    cost, numbers, words = shown.fleet.usd_per_hour, {"usd_per_hour": shown.fleet.usd_per_hour}, []
    for policy in ("fcfs", "priority"):
        own = [f for f in shared if f.template.build.scheduling_policy == policy]
        if not own:
            continue
        best = min(own, key=lambda f: f.template.build.usd_per_hour / f.capacity_rps.value)
        numbers[f"capacity_rps_{policy}"] = best.capacity_rps.value
        said = f"{policy}: a shared replica carries {best.capacity_rps.value:.3g} req/s at best"
        only = {f.template.id: f for f in own}
        alone = cost_of_only(problem, only)
        if alone is not None:
            numbers[f"usd_per_hour_{policy}"] = alone
            said += f", {alone:.2f} USD/h for all ({alone / cost - 1:+.0%})"
        words.append(f"{said} ({best.template.id})")
    used = {
        p.template.build.scheduling_policy
        for p in shown.fleet.pools
        if len({problem.priorities[w] for w in p.template.serves}) > 1
    }
    order = ", ".join(f"{d.id} {d.priority}" for d in problem.demands)
    return (
        Decision(
            question="whom do shared replicas serve first",
            answer=" and ".join(sorted(used)) or "no replica is shared between priorities",
            because=f"priorities, lower first: {order}; " + "; ".join(words),
            numbers=numbers,
        ),
    )


def _does_the_last_unit_pay(
    problem: Problem, refined: Refined, shown: Verified
) -> tuple[Decision, ...]:
    """Explain a unit without which every promise would still be kept."""
    found = []
    for pool, less, judgement in shown.one_less:
        if less is None or judgement is None or judgement.verdict != "kept":
            continue
        if not survives(problem, refined.frontiers, less):
            found.append(_is_spare(pool))
            continue
        if not within_moves(problem, less):
            found.append(the_last_unit_stays(pool))
            continue
        smaller = Verified(less, judgement, problem.values).worth_per_usd
        larger = shown.worth_per_usd
        weighed = ", weighted by value" if len(set(problem.values)) > 1 else ""
        found.append(
            Decision(
                question=f"does the last unit of {pool} pay",
                answer="yes" if larger >= smaller else "no",
                because=(
                    f"without it every promise is kept too, at {smaller:,.0f} instead of"
                    f" {larger:,.0f} compliant requests per dollar{weighed}"
                    f" (objective: {problem.objective})"
                ),
                numbers={
                    "compliant_requests_per_usd": larger,
                    "compliant_requests_per_usd_without": smaller,
                },
            )
        )
    return tuple(found)


def _is_spare(pool: str) -> Decision:
    return Decision(
        question=f"does the last unit of {pool} pay",
        answer="it is spare",
        because=(
            "without it every promise is kept while nothing fails, but not every failure of"
            " limits.spare is survived"
        ),
        numbers={},
    )


def if_arrivals_were_burstier(problem: Problem, swept: Sequence[Arrived]) -> tuple[Decision, ...]:
    """Say what burstier arrivals at the same mean rate do to the fleet."""
    if len(swept) < 2:
        return ()
    even, bursty = swept[0], swept[-1]
    numbers: dict[str, float] = {}
    for one in (even, bursty):
        if one.accelerators is not None:
            numbers[f"accelerators_at_cv_{one.cv:g}"] = float(one.accelerators)
    words = []
    groups = [whole.parts for whole in problem.asked]
    attained = [[i.value for i in one.sample.intervals(groups)] for one in (even, bursty)]
    for w, demand in enumerate(whole.demand for whole in problem.asked):
        p99_s = even.ttft_p99_s[w], bursty.ttft_p99_s[w]
        for one, share, late in zip((even, bursty), attained, p99_s, strict=True):
            numbers[f"attainment_of_{demand.id}_at_cv_{one.cv:g}"] = share[w]
            numbers[f"ttft_p99_s_of_{demand.id}_at_cv_{one.cv:g}"] = late
        times = f", {p99_s[1] / p99_s[0]:.1f} times" if p99_s[0] > 0 else ""
        words.append(
            f"{demand.id}: attainment {attained[0][w]:.1%} and {attained[1][w]:.1%}, p99 of TTFT"
            f" {p99_s[0] * 1e3:.0f} ms and {p99_s[1] * 1e3:.0f} ms{times}"
        )
    needs = [
        "more than can be told" if one.accelerators is None else f"{one.accelerators}"
        for one in (even, bursty)
    ]
    return (
        Decision(
            question=f"what if gaps between arrivals had a CV of {bursty.cv:g} instead of"
            f" {even.cv:g}",
            answer=f"the same number of accelerators, {needs[0]}"
            if even.accelerators == bursty.accelerators is not None
            else f"{needs[1]} accelerators instead of {needs[0]}",
            because="at the same mean rate, with this fleet, " + "; ".join(words),
            numbers=numbers,
        ),
    )


def rejections(
    problem: Problem,
    refined: Refined,
    fleet: Fleet,
    screened: Sequence[Screened],
    left_out: Sequence[Removed],
) -> tuple[Rejected, ...]:
    """List every template that is not in the fleet, the nearest rivals first."""
    chosen = {p.template.id for p in fleet.pools}
    cost = fleet.usd_per_hour
    rivals = []
    for one in screened:
        j = one.template.id
        if j in chosen:
            continue
        frontier = refined.frontiers.get(j)
        if frontier is None:
            rivals.append(
                (
                    float("inf"),
                    Rejected(
                        template=j, reason="keeps the promise at no load in a pool", numbers={}
                    ),
                )
            )
            continue
        build, capacity = frontier.template.build, frontier.capacity_rps
        usd = build.usd_per_hour / 3.6 / capacity.value
        numbers = {
            "usd_per_thousand_at_capacity": usd,
            "capacity_rps": capacity.value,
            "capacity_rps_low": capacity.low,
            "capacity_rps_high": capacity.high,
            "pool_size": float(frontier.pool_size),
        }
        rivals.append(
            (usd, Rejected(template=j, reason=_why(problem, frontier, cost), numbers=numbers))
        )
    rivals.sort(key=lambda pair: pair[0])
    rest = [Rejected(template=r.name, reason=r.reason, numbers=r.numbers) for r in left_out]
    return (*(one for _, one in rivals), *rest)


def _why(problem: Problem, frontier: Frontier, cost: float) -> str:
    template = frontier.template
    served = sum(template.mix_rps)
    units = -(-served // frontier.capacity_rps.value)
    price = units * template.build.usd_per_hour
    needed = f"{units:.0f} unit" if units == 1 else f"{units:.0f} units"
    if len(template.serves) < len(problem.demands):
        return (
            f"serves {template.label} with {needed} for {price:.2f} USD/h; the program"
            " found a cheaper way"
        )
    if price > cost * 1.0005:
        return f"needs {needed}, {price:.2f} USD/h: {price / cost - 1:.0%} dearer"
    return f"needs {needed}, {price:.2f} USD/h: no better than the plan"
