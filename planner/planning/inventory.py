"""What is bought, what it can carry, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.serve import longest_requests
from planner.fleet import BillLine, Pool, PoolPlace, SupplyLine, Totals
from planner.planning.curve_notes import adapters_note, curve_note, speculation_note
from planner.planning.moving import bill_of_moves
from planner.planning.node_lines import node_bill, node_lines
from planner.planning.prefixes import hits_of, keeps_prefixes
from planner.planning.results import interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.planning.refine import Refined, Verified
    from planner.problem.resolve import Problem
    from planner.simulation.pool import PoolRun


def totals(answer: Answer, shown: Verified) -> Totals:
    """Add up the fleet."""
    fleet, problem = shown.fleet, answer.problem
    paces = shown.judgement.sample.paces().tolist()
    offered = sum(whole.demand.rate_rps * paces[whole.parts[0]] for whole in problem.asked)
    goodput, cost = shown.goodput_rps, fleet.usd_per_hour
    power = [_power_w(answer, pool) for pool in fleet.pools]
    return Totals(
        offered_rps=offered,
        goodput_rps=goodput,
        weighted_goodput_rps=shown.worth_rps,
        attainment=goodput / offered,
        cost_usd_per_hour=cost,
        usd_per_thousand_compliant=cost / 3.6 / goodput if goodput else None,
        compliant_requests_per_usd=goodput * 3600 / cost if cost else None,
        accelerators=sum(p.units * p.template.build.accelerators for p in fleet.pools),
        nodes=sum(held.nodes for held in fleet.held) if problem.sites.all else None,
        power_w=sum(p for p in power if p is not None) if None not in power else None,
        mfu=_fleet_mfu(answer, shown),
    )


def _power_w(answer: Answer, pool: PoolChoice) -> float | None:
    board = pool.template.build.curve.accelerator.board_power
    group = pool.template.build.group
    if group is not None:
        first = group.prefill.curve.accelerator.board_power
        if board is None or first is None:
            return None
        own = group.n_decode * group.decode.accelerators * board
        return pool.units * (own + group.n_prefill * group.prefill.accelerators * first)
    return None if board is None else board * pool.units * pool.template.build.accelerators


def flops_of(
    answer: Answer, pool: PoolChoice, asked_rps: Sequence[float]
) -> tuple[float, float] | None:
    """Return model FLOP/s that a pool achieves, and the dense peak of its accelerators.

    Two FLOP per active parameter and token, prompt and output; attention is not counted.
    """
    build = pool.template.build
    peak = build.curve.accelerator.peak(build.precision)
    active = build.curve.llm.params_active_b
    if peak is None or active is None:
        return None
    tokens = 0.0
    for w, load in enumerate(asked_rps):
        if load > 0:
            only = tuple(float(v == w) for v in range(len(asked_rps)))
            draw = answer.study.draws.get(only, 4_000, 0, 0)
            tokens += load * float(draw.prompt.mean() + draw.output.mean() - 1)
    whole = peak * pool.units * build.accelerators
    if build.group is not None:
        first = build.group.prefill
        ahead = first.curve.accelerator.peak(first.precision)
        if ahead is None:
            return None
        sides = build.group.n_prefill * first.accelerators * ahead, build.group.n_decode * peak
        whole = pool.units * (sides[0] + sides[1] * build.group.decode.accelerators)
    return tokens * 2 * active * 1e9, whole


def _fleet_mfu(answer: Answer, shown: Verified) -> float | None:
    asked = shown.judgement.sample.asked_rps().tolist()
    pairs = [flops_of(answer, *pair) for pair in zip(shown.fleet.pools, asked, strict=True)]
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    return sum(done for done, _ in known) / sum(peak for _, peak in known)


def pool_document(
    answer: Answer,
    refined: Refined,
    pool: PoolChoice,
    asked_rps: Sequence[float],
    runs: Sequence[PoolRun],
) -> Pool:
    """Describe a pool, with what became of it in the simulation of the fleet.

    Args:
        answer: The problem and what it was answered with.
        refined: Has the capacity that was measured.
        pool: Template and units.
        asked_rps: Requests per second of each workload that came to it.
        runs: Its replications.
    """
    build, policies = pool.template.build, answer.problem.policies
    curve = build.curve
    longest = max(longest_requests(answer.problem)[w] for w in pool.template.serves)
    flops = flops_of(answer, pool, asked_rps)
    cache = build.cache if keeps_prefixes(answer.problem, pool) else None
    return Pool(
        id=pool.template.id,
        model=build.model,
        role="colocated",
        group=None,
        accelerator=build.accelerator,
        tp_degree=build.tp_degree,
        pp_degree=curve.layout.pp_degree,
        ep_degree=curve.layout.ep_degree,
        dp_degree=curve.layout.dp_degree,
        replicas=pool.units,
        domain=pool.places[0][0] if len(pool.places) == 1 else None,
        link_class=None,
        precision=build.precision,
        kv_dtype=curve.kv_dtype,
        engine=f"{build.engine} {curve.engine_version}",
        max_model_len=longest,
        memory_utilisation=policies.memory_utilisation,
        block_size=policies.block_size,
        prefix_caching=cache is not None,
        chunked_prefill=True,
        max_num_seqs=build.max_num_seqs,
        max_num_batched_tokens=build.max_num_batched_tokens,
        scheduling_policy=build.scheduling_policy,
        admission_limit_rps=None,
        router=policies.router,
        kv_tokens=build.kv_tokens * curve.layout.dp_degree,
        offered_rps=sum(pool.load_rps),
        capacity_rps=interval(refined.frontiers[pool.template.id].capacity_rps),
        busy_share=sum(run.busy_share for run in runs) / len(runs),
        mfu=flops[0] / flops[1] if flops else None,
        curve=curve_note(build, longest),
        speculative_decoding=speculation_note(build),
        adapters=adapters_note(build),
        places=tuple(PoolPlace(domain=d, replicas=n) for d, n in pool.places),
        prefix_hits=hits_of(answer.problem, runs, pool.template.serves) if cache else (),
        prefix_block_tokens=cache.block_tokens if cache else None,
    )


def supply_lines(problem: Problem, fleet: Fleet) -> tuple[SupplyLine, ...]:
    """List the accelerators to rent, or the nodes to buy."""
    if problem.sites.all:
        return tuple(node_lines(problem.sites, fleet))
    lines = []
    for supply in problem.supplies:
        name = supply.accelerator.id
        count = sum(p.units * p.template.build.devices.get(name, 0) for p in fleet.pools)
        if count:
            lines.append(
                SupplyLine(
                    accelerator=name,
                    domain=None,
                    term=supply.term,
                    count=count,
                    usd_per_hour=count * supply.usd_per_hour,
                    price_source=supply.price_source,
                )
            )
    return tuple(lines)


def bill_lines(problem: Problem, fleet: Fleet) -> tuple[BillLine, ...]:
    """List what is paid; the lines sum to the fleet's price."""
    moves = tuple(bill_of_moves(problem, fleet))
    if problem.sites.all:
        return (*node_bill(problem.sites, fleet), *moves)
    units = tuple(
        BillLine(
            item=f"{p.units} x {p.template.id}: "
            + ", ".join(f"{p.units * k} {g}" for g, k in p.template.build.devices.items()),
            usd_per_hour=p.units * p.template.build.usd_per_hour,
        )
        for p in fleet.pools
    )
    return (*units, *moves)
