"""Prefill and decode together or apart: the decision, and its dollars line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.candidates.groups import mean_prompt
from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import BillLine, Decision
from planner.milp import choose
from planner.planning.apart_lines import dollar_lines
from planner.planning.apart_measured import measure_apart, measure_together
from planner.planning.program import fleet_of_choice, instance_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Removed
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined, Verified
    from planner.scenario.disaggregation import KvLink

QUESTION: Final = "prefill and decode together or apart"
PRICING_S: Final = 5.0
"""Time of the program that prices either way alone."""


def together_or_apart(
    answer: Answer, refined: Refined, shown: Verified, left_out: Sequence[Removed]
) -> tuple[Decision, ...]:
    """Say what groups cost beside replicas that do both, where the scenario states a link."""
    policy = answer.problem.policies.disaggregation
    if policy is None:
        return ()
    joint, apart = either_way(answer, refined, shown)
    used = {p.template.build.group is not None for p in shown.fleet.pools}
    word = "apart" if used == {True} else "together" if used == {False} else "both ways"
    link = _over(policy.link, apart)
    if apart is None:
        because, numbers = _no_groups(link, refined, left_out)
        return (Decision(question=QUESTION, answer=word, because=because, numbers=numbers),)
    cost = apart.usd_per_hour
    if joint is None:
        because = (
            f"no fleet of replicas that do both keeps every promise; groups over {link} cost"
            f" {cost:.2f} USD/h"
        )
        numbers = {"usd_per_hour_apart": cost}
        return (Decision(question=QUESTION, answer=word, because=because, numbers=numbers),)
    lines, measured = lines_between(answer, refined.frontiers, joint, apart)
    numbers = {
        "usd_per_hour_together": joint.usd_per_hour,
        "usd_per_hour_apart": cost,
        **{f"usd_per_hour_{name}": usd for name, usd in lines.items()},
        **measured,
    }
    alone = f"; the plan has both and costs {shown.fleet.usd_per_hour:.2f}"
    because = (
        f"groups over {link} cost {cost:.2f} USD/h, replicas that do both"
        f" {joint.usd_per_hour:.2f} ({cost / joint.usd_per_hour - 1:+.0%})"
        f"{alone if word == 'both ways' else ''}; by measured operating points"
    )
    bill = tuple(BillLine(item=name, usd_per_hour=usd) for name, usd in lines.items())
    return (Decision(question=QUESTION, answer=word, because=because, numbers=numbers, lines=bill),)


def _no_groups(
    link: str, refined: Refined, left_out: Sequence[Removed]
) -> tuple[str, dict[str, float]]:
    """Say why no fleet of groups alone serves everything."""
    if any(f.template.build.group is not None for f in refined.frontiers.values()):
        return f"groups alone over {link} cannot serve every workload within the limits", {}
    why = [r for r in left_out if r.name.startswith("p") and "transfer_s" in r.numbers]
    near = max(why, key=lambda r: r.numbers["attainment_when_empty"], default=None)
    if near is None:
        return f"groups are not feasible over {link}", {}
    return f"groups are not feasible over {link}: {near.reason}", dict(near.numbers)


def either_way(
    answer: Answer, refined: Refined, shown: Verified
) -> tuple[Fleet | None, Fleet | None]:
    """Return the cheapest fleet of replicas that do both, and the cheapest of groups.

    The plan's own where it is of one kind alone; else by measured operating points. None where
    there is no such fleet.
    """

    def best(*, grouped: bool) -> Fleet | None:
        own = {
            j: f
            for j, f in refined.frontiers.items()
            if (f.template.build.group is not None) == grouped
        }
        return _best_of(answer, own, shown)

    return best(grouped=False), best(grouped=True)


def _over(link: KvLink | None, apart: Fleet | None) -> str:
    """Say over what groups send their KV: the link of the scenario, or those of its topology."""
    links = [link] if link is not None else []
    if not links and apart is not None:
        groups = [p.template.build.group for p in apart.pools]
        links = [group.link for group in groups if group is not None]
    told = (
        f"{one.transport} at {one.bandwidth / 1e9:.3g} GB/s and {one.latency * 1e3:.3g} ms"
        for one in links
    )
    return " or ".join(dict.fromkeys(told)) or "any link of the topology"


def _best_of(answer: Answer, frontiers: dict[str, Frontier], shown: Verified) -> Fleet | None:
    """Return the cheapest fleet of some templates; the plan's own if it is of them alone."""
    if {p.template.id for p in shown.fleet.pools} <= set(frontiers):
        return shown.fleet
    if not frontiers:
        return None
    data = instance_of(answer.problem, frontiers)
    try:
        found = choose(data, "min_cost", time_limit_s=PRICING_S, gap=1e-3)
    except (InfeasibleError, LimitReachedError):
        return None
    return fleet_of_choice(answer.problem, frontiers, found)


def lines_between(
    answer: Answer, frontiers: Mapping[str, Frontier], joint: Fleet, apart: Fleet
) -> tuple[dict[str, float], dict[str, float]]:
    """Split the difference of two fleets' bills.

    Args:
        answer: The question.
        frontiers: Of all templates in the two fleets.
        joint: Replicas that do both.
        apart: Groups.

    Returns:
        USD/h by line of ``LINES``, and what the lines were reckoned from.
    """
    capacity = {j: f.capacity_rps.value for j, f in frontiers.items()}
    together = measure_together(answer, joint, capacity)
    groups = [measure_apart(answer, pool, capacity[pool.template.id]) for pool in apart.pools]
    lines = dollar_lines(together, groups, joint.usd_per_hour, apart.usd_per_hour)
    fluid = sum(t.load_rps * t.unit_usd_per_hour / t.capacity_rps for t in together)
    calm = sum(t.load_rps * t.unit_usd_per_hour / t.calm_rps for t in together)
    load = sum(t.load_rps for t in together)
    costs = [p.units * p.template.build.usd_per_hour for p in apart.pools]
    position = costs.index(max(costs))
    largest, rps = apart.pools[position], groups[position].rps
    group = largest.template.build.group
    assert group is not None  # the caller gives a fleet of groups
    prompt = mean_prompt(answer.study, largest.template.mix_rps)
    return lines, {
        "rps_per_usd_per_hour_together": load / fluid,
        "rps_per_usd_per_hour_together_without_interference": load / calm,
        "rps_per_prefill_replica": rps.prefill,
        "rps_per_decode_replica": rps.decode,
        "rps_per_group": rps.group,
        "rps_per_group_with_a_free_link": rps.free,
        "kv_bytes_per_request": group.kv_bytes_per_token * prompt,
    }
