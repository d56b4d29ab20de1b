"""Prefill and decode together or apart: the decision in dollars, line by line.

Of two fleets for the same demand D (req/s), the best whose replicas do both and the best of groups,
C_together and C_apart are what they cost. With kappa the measured capacity of a unit, a fleet of
units of price c costs D c / kappa if units could be cut (its *fluid* cost). Between the fluid costs
lie those of sides that are measured alone: kappa_P and kappa_D, the load per replica of a group
whose other side is four times as large and whose link takes no time.

    whole units (together)   D c / kappa - C_together                         (<= 0)
    interference removed     D (c_P / kappa_P + c_D / kappa_D') - D c / kappa
    weight replication       D c_D (1 / kappa_D - 1 / kappa_D')
    stranded prefill         D c_P (n_P / x - 1 / kappa_P)
    stranded decode          D c_D (n_D / x - 1 / kappa_D),     x = min(n_P kappa_P, n_D kappa_D)
    joint deadlines          D c_G (1 / kappa_free - 1 / x)
    exposed transfer         D c_G (1 / kappa_G - 1 / kappa_free)
    whole units (apart)      C_apart - D c_G / kappa_G                        (>= 0)

Fleets of several templates add up their pools' terms. The lines sum to C_apart - C_together
whatever the measurements say. kappa_D' is kappa_D if the weights lay once over both sides by their
memory, not twice; kappa_free is the group with a link and a hand-off that take no time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.frontier import setup_of
from planner.candidates.groups import Group, group_build
from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision
from planner.milp import choose
from planner.planning.program import fleet_of_choice, instance_of
from planner.simulation.capacity import coarse_capacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Build, Removed
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.planning.refine import Refined, Verified

ABUNDANCE: Final = 4
"""How many times the replicas of the side that is not to limit a group."""
LINES: Final = (
    "whole_units_together",
    "interference_removed",
    "weight_replication",
    "stranded_prefill",
    "stranded_decode",
    "joint_deadlines",
    "exposed_transfer",
    "whole_units_apart",
)
QUESTION: Final = "prefill and decode together or apart"


def together_or_apart(
    answer: Answer, refined: Refined, shown: Verified, left_out: Sequence[Removed]
) -> tuple[Decision, ...]:
    """Say what groups cost beside replicas that do both, where the scenario states a link."""
    policy = answer.problem.policies.disaggregation
    if policy is None:
        return ()
    grouped = {j: f for j, f in refined.frontiers.items() if f.template.build.group is not None}
    both = {j: f for j, f in refined.frontiers.items() if f.template.build.group is None}
    used = {p.template.build.group is not None for p in shown.fleet.pools}
    word = "apart" if used == {True} else "together" if used == {False} else "both ways"
    apart, joint = _best_of(answer, grouped, shown), _best_of(answer, both, shown)
    link = (
        f"{policy.link.transport} at {policy.link.bandwidth / 1e9:.3g} GB/s and"
        f" {policy.link.latency * 1e3:.3g} ms"
    )
    if apart is None:
        why = [r for r in left_out if r.name.startswith("p") and "transfer_s" in r.numbers]
        near = max(why, key=lambda r: r.numbers["attainment_when_empty"], default=None)
        said = f": {near.reason}" if near is not None else ""
        because = f"groups are not feasible over {link}{said}"
        return (Decision(question=QUESTION, answer=word, because=because, numbers=_near(near)),)
    cost = apart.usd_per_hour
    if joint is None:
        because = (
            f"no fleet of replicas that do both keeps every promise; groups over {link} cost"
            f" {cost:.2f} USD/h"
        )
        numbers = {"usd_per_hour_apart": cost}
        return (Decision(question=QUESTION, answer=word, because=because, numbers=numbers),)
    bill = dollar_lines(answer, refined.frontiers, joint, apart)
    numbers = {
        "usd_per_hour_together": joint.usd_per_hour,
        "usd_per_hour_apart": cost,
        **{f"usd_per_hour_{name}": usd for name, usd in bill.lines.items()},
        **bill.numbers,
    }
    said = ", ".join(
        f"{name.replace('_', ' ')} {usd:+.2f}" for name, usd in bill.lines.items() if usd
    )
    because = (
        f"groups over {link} cost {cost:.2f} USD/h, replicas that do both"
        f" {joint.usd_per_hour:.2f} ({cost / joint.usd_per_hour - 1:+.0%}); the difference in"
        f" USD/h: {said}; by measured operating points"
    )
    return (Decision(question=QUESTION, answer=word, because=because, numbers=numbers),)


def _near(near: Removed | None) -> dict[str, float]:
    return {} if near is None else dict(near.numbers)


def _best_of(answer: Answer, frontiers: dict[str, Frontier], shown: Verified) -> Fleet | None:
    """Return the cheapest fleet of some templates; the plan's own if it is of them alone."""
    if {p.template.id for p in shown.fleet.pools} <= set(frontiers):
        return shown.fleet
    if not frontiers:
        return None
    data = instance_of(answer.problem, frontiers)
    try:
        found = choose(data, "min_cost", time_limit_s=5.0, gap=1e-3)
    except (InfeasibleError, LimitReachedError):
        return None
    return fleet_of_choice(answer.problem, frontiers, found)


@dataclass(frozen=True, slots=True)
class Lines:
    """The difference of two bills, line by line, and what it was reckoned from."""

    lines: dict[str, float]
    """USD/h, more where apart is dearer; they sum to the difference."""
    numbers: dict[str, float]


def dollar_lines(
    answer: Answer, frontiers: dict[str, Frontier], joint: Fleet, apart: Fleet
) -> Lines:
    """Split the difference of two bills; see the head of this module."""

    def capacity(pool: PoolChoice) -> float:
        return frontiers[pool.template.id].capacity_rps.value

    fluid = sum(sum(p.load_rps) * p.template.build.usd_per_hour / capacity(p) for p in joint.pools)
    lines = dict.fromkeys(LINES, 0.0)
    lines["whole_units_together"] = fluid - joint.usd_per_hour
    lines["interference_removed"] = -fluid
    lines["whole_units_apart"] = apart.usd_per_hour
    numbers = {"rps_per_usd_per_hour_together": sum(map(_load, joint.pools)) / fluid}
    largest = max(apart.pools, key=lambda p: p.units * p.template.build.usd_per_hour)
    for pool in apart.pools:
        group = pool.template.build.group
        assert group is not None  # the caller gives a fleet of groups
        demand, kappa = _load(pool), capacity(pool)
        one = _measured(answer, group, pool.template.mix_rps, kappa)
        c_p, c_d = group.prefill.usd_per_hour, group.decode.usd_per_hour
        c_g, x = group.usd_per_hour, min(group.n_prefill * one.prefill, group.n_decode * one.decode)
        for name, usd_s in (
            ("interference_removed", c_p / one.prefill + c_d / one.shared),
            ("weight_replication", c_d * (1 / one.decode - 1 / one.shared)),
            ("stranded_prefill", c_p * (group.n_prefill / x - 1 / one.prefill)),
            ("stranded_decode", c_d * (group.n_decode / x - 1 / one.decode)),
            ("joint_deadlines", c_g * (1 / one.free - 1 / x)),
            ("exposed_transfer", c_g * (1 / kappa - 1 / one.free)),
            ("whole_units_apart", -c_g / kappa),
        ):
            lines[name] += demand * usd_s
        if pool is largest:
            numbers |= {
                "rps_per_prefill_replica": one.prefill,
                "rps_per_decode_replica": one.decode,
                "rps_per_group": kappa,
                "rps_per_group_with_a_free_link": one.free,
                "kv_bytes_per_request": group.kv_bytes_per_token * one.prompt_tokens,
            }
    return Lines(lines, numbers)


def _load(pool: PoolChoice) -> float:
    return sum(pool.load_rps)


@dataclass(frozen=True, slots=True)
class _Alone:
    """Capacities in requests per second: of a replica of each side, and of the free group."""

    prefill: float
    decode: float
    shared: float
    """Of a decode replica whose weights take their share of one copy's memory."""
    free: float
    prompt_tokens: float


def _measured(answer: Answer, group: Group, mix_rps: tuple[float, ...], guess: float) -> _Alone:
    """Measure what the lines need, by coarse searches under common draws.

    The group itself is searched as coarsely too, and all are scaled by what a full measurement
    says of it: errors of a coarse search that they share cancel.
    """
    coarse = {name: _coarse(answer, one, mix_rps, guess) for name, one in _variants(group)}
    scale = guess / coarse["as_it_is"] if coarse["as_it_is"] > 0 else 1.0
    draw = answer.study.draws.get(mix_rps, 4_000, 0, 0)
    return _Alone(
        coarse["prefill"] * scale / group.n_prefill,
        coarse["decode"] * scale / group.n_decode,
        coarse["shared"] * scale / group.n_decode,
        coarse["free"] * scale,
        float(draw.prompt.mean()),
    )


def _variants(group: Group) -> Iterator[tuple[str, Group]]:
    free = replace(
        group,
        link=group.link.model_copy(update={"bandwidth": 1e15, "latency": 0.0}),
        hand_off_s=0.0,
    )
    yield "as_it_is", group
    yield "free", free
    yield "prefill", replace(free, n_decode=ABUNDANCE * group.n_decode)
    decode = replace(free, n_prefill=ABUNDANCE * group.n_prefill)
    yield "decode", decode
    yield "shared", replace(decode, decode=_with_one_copy(group))


def _with_one_copy(group: Group) -> Build:
    """Return the decode build as if the two sides held the weights once, by their memory."""
    build = group.decode
    total = sum(
        n * side.accelerators * side.curve.accelerator.memory
        for side, n in ((group.prefill, group.n_prefill), (build, group.n_decode))
    )
    share = build.accelerators * build.curve.accelerator.memory / total
    weights = build.curve.room().reserve.weights_bytes * (1 - share)
    more = int(weights / build.curve.kv_bytes_per_token) // build.limits.block_size
    limits = build.limits._replace(kv_blocks=build.limits.kv_blocks + more)
    return replace(build, limits=limits)


def _coarse(answer: Answer, group: Group, mix_rps: tuple[float, ...], guess: float) -> float:
    setup = setup_of(group_build(group), 1, answer.problem.policies.router)
    return coarse_capacity(answer.study, setup, mix_rps, guess, answer.effort.screen_requests)
