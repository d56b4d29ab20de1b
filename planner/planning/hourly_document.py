"""Totals and objective of fleets by the hour: means over all hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.fleet import ObjectiveValue, Totals
from planner.planning.inventory import totals

if TYPE_CHECKING:
    from planner.planning.answered import Answer
    from planner.planning.hourly import Adapted
    from planner.planning.refine import Verified
    from planner.problem.resolve import Problem


def totals_over(answer: Answer, shown: Verified, adapted: Adapted) -> Totals:
    """Add up: rates and costs in the mean over all hours, accelerators at most at once."""
    peak = totals(answer, shown)
    offered, goodput = adapted.rates()
    cost = adapted.usd_per_hour
    return peak.model_copy(
        update={
            "accelerators": most_at_once(adapted),
            "offered_rps": offered,
            "goodput_rps": goodput,
            "weighted_goodput_rps": _worth(answer.problem, adapted),
            "attainment": goodput / offered if offered else 1.0,
            "cost_usd_per_hour": cost,
            "usd_per_thousand_compliant": cost / 3.6 / goodput if goodput else None,
            "compliant_requests_per_usd": goodput * 3600 / cost if cost else None,
        }
    )


def objective_over(problem: Problem, adapted: Adapted) -> ObjectiveValue:
    """State what the simulated periods show, beside what the points say cannot be beaten."""
    cost, bound = adapted.usd_per_hour, adapted.choice.bound
    if problem.objective == "min_cost":
        value, bound = cost, min(bound, cost)
    else:
        # The program serves busiest windows; in the mean no more can comply than comes.
        worth, most = _worth(problem, adapted), _worth(problem, adapted, offered=True)
        value, bound = worth, min(bound, most)
        if problem.objective == "max_goodput_per_usd":
            least = adapted.least_usd_per_hour
            value = worth * 3600 / cost
            bound = adapted.choice.bound * 3600
            bound = min(bound, most * 3600 / least) if least > 0 else bound
        bound = max(bound, value)
    return ObjectiveValue(
        name=problem.objective, value=value, bound=bound, gap=abs(bound - value) / value
    )


def most_at_once(adapted: Adapted) -> int:
    """Return the most accelerators that are held in any period."""
    choice = adapted.choice
    by_period: dict[str, int] = {}
    for (_, _, _, t), count in choice.hired.items():
        by_period[t] = by_period.get(t, 0) + count
    return sum(choice.held.values()) + max(by_period.values(), default=0)


def _worth(problem: Problem, adapted: Adapted, *, offered: bool = False) -> float:
    """Return what is compliant, or all that comes, weighted by value, req/s over all hours."""
    value = {whole.demand.id: whole.demand.value for whole in problem.asked}
    return sum(
        p.share * value[w.id] * (w.offered_rps if offered else w.goodput_rps)
        for p in adapted.periods
        for w in p.workloads
    )
