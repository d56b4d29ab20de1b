"""What each workload gets of a fleet that was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.attribution.charge import GapDeadline, charge_misses
from planner.fleet import (
    Interval,
    Misses,
    PrefixHits,
    Quantiles,
    RoutingShare,
    WaitingUsers,
    WorkloadResult,
)
from planner.planning.group_pools import front_pool
from planner.problem.arrivals import UserArrivals
from planner.problem.prefixes import ConstantHits
from planner.simulation.capacity import VERIFYING
from planner.simulation.fleet import sample_fleet, verdict_of
from planner.simulation.stages import GapParts, Parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.fleet import Verdict
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.resolve import Demand, Problem, Whole
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Judgement, Study
    from planner.simulation.interval import Estimate
    from planner.simulation.pool import Latencies


Kept = list[tuple[tuple[float, ...], "Latencies"]]
"""The load of the pool, and the latencies, of each pool and replication."""


def interval(estimate: Estimate) -> Interval:
    """Write an estimate as a document."""
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high)


def workload_results(
    problem: Problem,
    study: Study,
    effort: Effort,
    fleet: Fleet,
    judgement: Judgement,
    kept: Kept | None = None,
) -> tuple[WorkloadResult, ...]:
    """Return rates, attainment, verdict and latencies of every workload.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        effort: How much to simulate.
        fleet: Its pools.
        judgement: Its verdicts.
        kept: What :func:`latencies_of` returns; simulated if left out.
    """
    results = []
    paces = judgement.sample.paces().tolist()
    kept = latencies_of(problem, study, effort, fleet) if kept is None else kept
    hits = judgement.sample.hit_rates()
    groups = [whole.parts for whole in problem.asked]
    for whole, estimate in zip(problem.asked, judgement.sample.intervals(groups), strict=True):
        demand, parts = whole.demand, whole.parts
        rates = [problem.demands[w].rate_rps for w in parts]
        offered = demand.rate_rps * paces[parts[0]]
        over_time = judgement.over_time[parts[0]] if judgement.over_time else None
        gaps = [p.max_itl_s for _, p in kept if p.max_itl_s is not None]
        results.append(
            WorkloadResult(
                id=demand.id,
                offered_rps=offered,
                goodput_rps=offered * estimate.value,
                attainment=interval(estimate),
                promise=demand.slo.attainment,
                value=demand.value,
                verdict=whole_verdict(whole, judgement.verdicts, estimate),
                attainment_over=demand.slo.attainment_over if over_time else None,
                attainment_over_time=interval(over_time) if over_time else None,
                ttft_s=_quantiles([p.ttft_s + demand.network_s for _, p in kept], kept, parts),
                network_s=demand.network_s,
                tpot_s=_quantiles([p.tpot_s for _, p in kept], kept, parts),
                max_itl_s=_quantiles(gaps, kept, parts) if demand.slo.max_itl else None,
                kv_transfer_s=_transfers(fleet, kept, parts),
                misses=_in_all(misses_of(problem, study, kept, parts), 1 - estimate.value),
                prefix_hits=_hits(problem, judgement, hits, parts[0]),
                routing=tuple(
                    RoutingShare(
                        pool=front_pool(p.template.id, p.template.build),
                        share=p.load_rps[w] / sum(rates),
                    )
                    for p in fleet.pools
                    for w in parts
                    if p.load_rps[w] > 0
                ),
                users=_users(demand.arrivals, offered),
            )
        )
    return tuple(results)


def _transfers(
    fleet: Fleet, kept: list[tuple[tuple[float, ...], Latencies]], parts: tuple[int, ...]
) -> Quantiles | None:
    """Return what KV was on its way, of the requests of groups; None where there are none."""
    grouped = [p.template.build.group is not None for p in fleet.pools]
    if not any(grouped):
        return None
    runs = len(kept) // len(grouped)
    own = [one for i, one in enumerate(kept) if grouped[i // runs]]
    if not any(load[w] > 0 for load, _ in own for w in parts):
        return None
    found = [p.parts.kv_transfer.astype(np.float64) * 1e-12 for _, p in own if p.parts is not None]
    return _quantiles(found, own, parts)


def _users(law: ArrivalLaw, offered_rps: float) -> WaitingUsers | None:
    """Return what users who wait for their answers see; None of other workloads."""
    if not isinstance(law, UserArrivals):
        return None
    return WaitingUsers(
        users=round(law.users),
        think_s=law.think_s,
        response_s=law.users / offered_rps - law.think_s,
        user_rps=law.user_rps,
    )


def kept_of(kept: Kept, position: int, pools: int) -> list[Latencies]:
    """Return the latencies of one pool of so many."""
    each = len(kept) // pools
    return [latencies for _, latencies in kept[position * each : (position + 1) * each]]


def latencies_of(
    problem: Problem,
    study: Study,
    effort: Effort,
    fleet: Fleet,
    stream: int = VERIFYING,
    multiple: float = 1.0,
) -> Kept:
    """Simulate the fleet once more on the first draws of its verification, keeping latencies.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        effort: How much to simulate.
        fleet: Its pools.
        stream: Purpose of the random draws, where they are not those of the verification.
        multiple: All loads are multiplied by this.

    Returns:
        The load of the pool, and the latencies, of each pool and replication.
    """
    sample = sample_fleet(
        study,
        fleet.for_simulation(problem.policies.router),
        effort.verify,
        stream=stream,
        multiple=multiple,
        keep=True,
    )
    return [
        (pool.load_rps, run.latencies)
        for pool, runs in zip(sample.pools, sample.runs, strict=True)
        for run in runs
        if run.latencies is not None
    ]


def whole_verdict(whole: Whole, verdicts: Sequence[Verdict], estimate: Estimate) -> Verdict:
    """Return the verdict on a workload: kept if its parts' are, else by what all of it attained.

    Args:
        whole: The workload.
        verdicts: Of every demand.
        estimate: Its joint attainment.
    """
    mine = [verdicts[w] for w in whole.parts]
    if len(mine) == 1 or set(mine) == {"kept"}:
        return mine[0]
    found = verdict_of(estimate, whole.demand.slo.attainment)
    return "undecided" if found == "kept" else found


def misses_up_to(answer: Answer, fleet: Fleet, w: int, at_tokens: int) -> Misses:
    """Return the misses of the requests of a workload up to a prompt length, by cause.

    Args:
        answer: The question.
        fleet: Simulated once more.
        w: Index of the workload.
        at_tokens: Longest prompt that counts.
    """
    kept = latencies_of(answer.problem, answer.study, answer.effort, fleet)
    return _misses(answer.study, kept, w, at_tokens)


def misses_of(problem: Problem, study: Study, kept: Kept, parts: tuple[int, ...]) -> Misses:
    """Return the misses of a workload by cause, as shares of its offered requests.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        kept: What :func:`latencies_of` returns.
        parts: The workload's demands.
    """
    rates = [problem.demands[w].rate_rps for w in parts]
    shares = [rate / sum(rates) for rate in rates]
    return _added([_misses(study, kept, w) for w in parts], shares)


def _added(misses: Sequence[Misses], shares: Sequence[float]) -> Misses:
    """Add up the misses of parts of a workload by their shares of its requests."""
    if len(misses) == 1:
        return misses[0]
    return Misses(
        **{
            cause: sum(x * getattr(m, cause) for m, x in zip(misses, shares, strict=True))
            for cause in Misses.model_fields
        }
    )


def _in_all(misses: Misses, share: float) -> Misses:
    """Return the causes of all misses: as those that were looked into, one by one.

    Verdicts that stay open are simulated longer than the draws whose requests are charged.
    """
    charged = sum(getattr(misses, cause) for cause in Misses.model_fields)
    if charged <= 0:
        return misses
    return Misses(
        **{cause: getattr(misses, cause) * share / charged for cause in Misses.model_fields}
    )


def hits_document(demand: Demand, hit_rate: float) -> PrefixHits:
    """Write down a hit rate, and whether it resulted or was given."""
    given = isinstance(demand.prefix, ConstantHits)
    return PrefixHits(
        workload=demand.id,
        hit_rate=hit_rate,
        source="assumed constant" if given else "simulated",
    )


def _hits(
    problem: Problem, judgement: Judgement, hits: tuple[float, ...], w: int
) -> PrefixHits | None:
    demand = problem.demands[w]
    kept = any(
        p.setup.cache is not None
        and p.load_rps[w] > 0
        and not any(p.load_rps[u] > 0 for u, _ in judgement.sample.users)
        for p in judgement.sample.pools
    )
    return hits_document(demand, hits[w]) if kept and demand.prefix is not None else None


def _misses(
    study: Study,
    kept: list[tuple[tuple[float, ...], Latencies]],
    w: int,
    up_to: int | None = None,
) -> Misses:
    """Return the missed deadlines of a workload by cause, as shares of its offered requests.

    A request that no replica can hold, or longer than the model's context, has failed. With
    ``up_to``, only requests with prompts up to that length count that some replica can hold.
    """
    due = study.deadlines
    shares = dict.fromkeys(Misses.model_fields, 0.0)
    weight = sum(load[w] for load, _ in kept)
    for load, part in kept:
        served = part.workload == w
        refused = int(part.refused[w])
        if up_to is not None:
            served, refused = served & (part.prompt <= up_to), 0
        offered = int(served.sum()) + refused
        if load[w] == 0 or offered == 0:
            continue
        assert part.parts is not None  # asked for
        length = part.prompt.astype(np.int64) + part.output
        fits = np.flatnonzero(served & (length <= due.context_tokens[w]))
        charged = charge_misses(
            Parts(*(column[fits] for column in part.parts)),
            due.ttft_limit_ps(part.workload[fits], part.prompt[fits]),
            due.decode_limit_ps(part.workload[fits], part.output[fits]),
            None if due.e2e_ps is None else np.full(fits.size, due.e2e_ps[w]),
            _gap_deadline(study, part, fits, w),
        )
        scale = load[w] / weight / offered
        for cause, share in charged.items():
            shares[cause] += scale * float(share.sum())
        shares["failed"] += scale * (offered - fits.size)
    return Misses(**shares)


def _gap_deadline(
    study: Study, part: Latencies, chosen: NDArray[np.int64], w: int
) -> GapDeadline | None:
    due = study.deadlines.max_itl_ps
    if due is None or part.gaps is None:
        return None
    own = GapParts(*(column[chosen] for column in part.gaps))
    return GapDeadline(np.full(chosen.size, due[w]), own)


def _quantiles(
    values: list[NDArray[np.float64]],
    kept: list[tuple[tuple[float, ...], Latencies]],
    parts: tuple[int, ...],
) -> Quantiles:
    """Return quantiles of a workload's latencies; its parts weigh by their loads."""
    found = [[v[p.workload == w] for v, (_, p) in zip(values, kept, strict=True)] for w in parts]
    together = [np.concatenate(rows) for rows in found]
    if sum(row.size for row in together) == 0:
        return Quantiles(p50=0.0, p90=0.0, p95=0.0, p99=0.0)
    levels = (0.5, 0.9, 0.95, 0.99)
    if len(parts) == 1:
        p50, p90, p95, p99 = np.quantile(together[0], levels).tolist()
    else:
        load = [sum(loads[w] for loads, _ in kept) for w in parts]
        weight = [np.full(r.size, x / max(r.size, 1)) for r, x in zip(together, load, strict=True)]
        p50, p90, p95, p99 = weighted_quantiles(
            np.concatenate(together), np.concatenate(weight), levels
        )
    return Quantiles(p50=p50, p90=p90, p95=p95, p99=p99)


def weighted_quantiles(
    values: NDArray[np.float64], weight: NDArray[np.float64], levels: Sequence[float]
) -> list[float]:
    """Return the least values below which at least these shares of the weight lie."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    at = np.searchsorted(below, np.array(levels) * below[-1])
    found: list[float] = values[order][np.minimum(at, values.size - 1)].tolist()
    return found
