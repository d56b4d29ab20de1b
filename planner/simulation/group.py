"""A pool of prefill/decode groups under one draw of requests.

Groups are dealt requests in turn; those that share a link are simulated together. Inside a group
the prefill side computes the prompt, the KV goes over the link, and the decode side brings the
answer; the simulation of the engine does all of it jointly, with the blocks that each side holds
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from planner.kernels.engine import FleetGaps, FleetStages, simulate_fleet
from planner.kernels.engine import Traffic as EngineTraffic
from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
)
from planner.simulation.cached_pool import NO_LIMIT, step_law_of, time_with_someone
from planner.simulation.shared_links import Cell, LinkCluster, cells_of, dealt
from planner.simulation.stages import GapParts, Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import Law, Limits, Router
    from planner.simulation.draw import Traffic

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupSetup:
    """The prefill side and the link of a group; its decode side is the pool's law and limits."""

    prefill_law: Law
    prefill_limits: Limits
    n_prefill: int
    n_decode: int
    link_ps_per_token: int
    """Time that the KV of a token occupies the link."""
    link_latency_ps: int
    hop_ps: int
    sharing: Literal["fifo", "fair"] = "fifo"
    on_a_link: int = 1
    """Groups that share a link, where nothing else is known of the pool."""
    clusters: tuple[LinkCluster, ...] = ()
    """How the groups of a fleet's pool share their links, where that is known."""

    def cells(self, units: int) -> tuple[Cell, ...]:
        """Return what is simulated of a pool of so many groups."""
        alike = LinkCluster(units, 1.0, min(units, self.on_a_link))
        return cells_of(self.clusters or (alike,))

    def shares(self, served: GroupServed, span_ps: int, units: int) -> GroupShares:
        """Return how busy the parts were.

        Args:
            served: A run of the pool.
            span_ps: Its length.
            units: Groups of the pool.
        """
        cells = self.cells(units)
        groups = sum(cell.groups for cell in cells)
        busy = sum(
            tokens * self.link_ps_per_token / (cell.pace * cell.channels)
            for cell, tokens in zip(cells, served.moved_tokens, strict=True)
        )
        clusters = self.clusters or (LinkCluster(units, 1.0),)
        carried = [0.0] * len(clusters)
        standing = [0] * len(clusters)
        for cell, rate in zip(cells, served.tokens_per_s, strict=True):
            carried[cell.cluster] += rate
            standing[cell.cluster] += cell.groups
        return GroupShares(
            served.prefill_busy_ps / span_ps / groups / self.n_prefill,
            served.decode_busy_ps / span_ps / groups / self.n_decode,
            busy / span_ps / len(cells),
            tuple(
                rate * one.units / n
                for rate, one, n in zip(carried, clusters, standing, strict=True)
            ),
        )


@dataclass(frozen=True, slots=True)
class GroupShares:
    """How busy the parts of a group were, and what went over the links."""

    prefill_busy: float
    decode_busy: float
    link_busy: float
    """Share of time in which KV was on its way, by the tokens that were carried."""
    tokens_per_s: tuple[float, ...] = ()
    """Tokens whose KV came over the links of each cluster of the whole pool, per second."""


class GroupServed(NamedTuple):
    """Arrays of shape ``(n,)``; ps, -1 where rejected."""

    started_ps: Ints
    """First scheduled on the decode side."""
    first_token_ps: Ints
    finish_ps: Ints
    longest_gap_ps: Ints
    prefill_busy_ps: int
    decode_busy_ps: int
    moved_tokens: tuple[int, ...]
    """Prompt tokens whose KV was carried, by cell."""
    tokens_per_s: tuple[float, ...]
    """The same per second, by cell, while requests came: the first tenth of them left out."""
    stages: FleetStages | None
    gaps: FleetGaps | None


def _engine(limits: Limits) -> EngineOptions:
    return EngineOptions(
        limits.max_num_seqs,
        limits.max_num_batched_tokens,
        block_size=limits.block_size,
        usable_blocks=limits.kv_blocks,
        reserve_full_isl=limits.reserve_full_prompt,
        watermark_blocks=limits.watermark_blocks,
    )


def serve_groups(
    group: GroupSetup,
    decode: tuple[Law, Limits],
    traffic: Traffic,
    groups: int,
    router: Router,
    *,
    stages: bool = False,
) -> GroupServed:
    """Serve requests on groups that take turns.

    Args:
        group: Prefill side and link of each.
        decode: Step law and limits of a decode replica.
        traffic: Without prefixes: every prompt is computed whole. At the load of those groups that
            are simulated.
        groups: How many the pool has.
        router: Among the replicas of each side.
        stages: Keep accounts of where the time of each request goes; several times slower.
    """
    n = traffic.arrival_ps.size
    whole = {name: np.full(n, -1, np.int64) for name in ("start", "first", "finish")}
    whole["gap"] = np.zeros(n, np.int64)
    told = {name: np.zeros(n, np.int64) for name in FleetStages._fields} if stages else {}
    torn = {name: np.zeros(n, np.int64) for name in FleetGaps._fields} if stages else {}
    busy, moved, rates = [0, 0], list[int](), list[float]()
    cells = group.cells(groups)
    dealing, first = dealt(cells, n), 0
    for cell in cells:
        chosen = (dealing >= first) & (dealing < first + cell.groups)
        own = np.flatnonzero(chosen)
        arrival = np.ascontiguousarray(traffic.arrival_ps[own])
        prompt = np.ascontiguousarray(traffic.prompt[own])
        records = simulate_fleet(
            EngineTraffic(
                arrival,
                prompt,
                np.ascontiguousarray(traffic.output[own]),
                group=(dealing[own] - first).astype(np.int32),
            ),
            _fleet(group, decode, cell, router),
            stages=stages,
            max_steps=NO_LIMIT,
        )
        first += cell.groups
        done = records.finish >= 0
        begun, came = records.decode_first_scheduled, records.kv_end
        over = records.prefill_done
        second = records.decode_replica
        assert begun is not None  # groups tell all four
        assert came is not None
        assert over is not None
        assert second is not None
        whole["start"][own] = np.where(begun >= 0, begun, records.first_token)
        whole["first"][own], whole["finish"][own] = records.first_token, records.finish
        whole["gap"][own] = records.max_token_gap
        moved.append(int(prompt[came >= 0].sum()))
        rates.append(_tokens_per_s(arrival, came, prompt))
        for k in range(cell.groups * group.n_prefill):
            mine = done & (records.replica == k)
            busy[0] += time_with_someone(arrival[mine], over[mine])
        for k in range(cell.groups * group.n_decode):
            mine = np.flatnonzero((begun >= 0) & (second == k))
            mine = mine[np.argsort(begun[mine], kind="stable")]
            busy[1] += time_with_someone(begun[mine], records.finish[mine])
        for kept, found in ((told, records.stages), (torn, records.gaps)):
            for name, column in kept.items():
                column[own] = getattr(found, name)
    return GroupServed(
        whole["start"],
        whole["first"],
        whole["finish"],
        whole["gap"],
        busy[0],
        busy[1],
        tuple(moved),
        tuple(rates),
        FleetStages(**told) if stages else None,
        FleetGaps(**torn) if stages else None,
    )


class CellQuestion(NamedTuple):
    """What the engine is asked: of the groups on one link, or of replicas that do both."""

    traffic: EngineTraffic
    setup: Colocated | Disaggregated
    own: Ints
    """Which of the pool's requests these are."""


def first_cell(
    group: GroupSetup,
    decode: tuple[Law, Limits],
    traffic: Traffic,
    groups: int,
    router: Router,
) -> CellQuestion:
    """Return the first groups that share a link, with the requests that they are dealt.

    Arguments as :func:`serve_groups`, which serves them so.
    """
    cells = group.cells(groups)
    dealing = dealt(cells, traffic.arrival_ps.size)
    own = np.flatnonzero(dealing < cells[0].groups)
    asked = EngineTraffic(
        np.ascontiguousarray(traffic.arrival_ps[own]),
        np.ascontiguousarray(traffic.prompt[own]),
        np.ascontiguousarray(traffic.output[own]),
        group=dealing[own].astype(np.int32),
    )
    return CellQuestion(asked, _fleet(group, decode, cells[0], router), own)


def _fleet(
    group: GroupSetup, decode: tuple[Law, Limits], cell: Cell, router: Router
) -> Disaggregated:
    """Return the groups that are simulated on one link."""
    p, d = group.prefill_law, decode[0]
    return Disaggregated(
        _engine(group.prefill_limits),
        step_law_of(p.tokens_ps.tobytes(), p[1:]),
        _engine(decode[1]),
        step_law_of(d.tokens_ps.tobytes(), d[1:]),
        LinkOptions(
            round(group.link_ps_per_token / cell.pace),
            group.link_latency_ps,
            group.sharing,
            cell.channels,
        ),
        group.n_prefill,
        group.n_decode,
        "nixl_pull",
        group.hop_ps,
        RouterOptions(router),
        RouterOptions(router),
        cell.groups,
    )


def _tokens_per_s(arrival_ps: Ints, came_ps: Ints, prompt: NDArray[np.int32]) -> float:
    """Return the tokens whose KV came per second, from a tenth of the arrivals to the last."""
    if arrival_ps.size < 2:
        return 0.0
    start, end = int(arrival_ps[arrival_ps.size // 10]), int(arrival_ps[-1])
    inside = (came_ps > start) & (came_ps <= end)
    tokens = float(prompt[inside].sum(dtype=np.int64))
    return tokens / ((end - start) * 1e-12) if end > start else 0.0


def parts_of_groups(
    stages: FleetStages, ttft_ps: Ints, chosen: NDArray[np.int64], path_ps: int
) -> Parts:
    """Return the parts of chosen requests of groups; before and after the first token add up.

    What of the time to the first token is neither waiting, prefill nor transfer is the hand-off:
    from one side to the other, to the next step there, and that step, in which the last prompt
    token is computed again. The accounts of decode lose that step: what it shared with others
    first, then what it takes alone.

    Args:
        stages: Of disaggregated fleets, ps.
        ttft_ps: From the engine to the first token of each chosen request; shape ``(m,)``.
        chosen: Indices of finished requests, shape ``(m,)``.
        path_ps: The way to the engine and back, which counts as queueing.
    """
    of = FleetStages(*(column[chosen] for column in stages))
    transfer = of.transfer + of.transfer_wait
    handoff = ttft_ps - of.queue - of.kv_block_wait - of.prefill - of.prefill_sharing - transfer
    left = handoff - of.hand_off
    after = []
    for column in (of.decode_batch, of.decode_interference, of.preemption, of.decode_solo):
        taken = np.minimum(left, column)
        after.append(column - taken)
        left = left - taken
    return Parts(
        queue=of.queue + path_ps,
        kv_block_wait=of.kv_block_wait,
        prefill=of.prefill,
        prefill_interference=of.prefill_sharing,
        preemption_before=np.zeros_like(handoff),
        decode_solo=after[3],
        decode_batch=after[0],
        decode_interference=after[1],
        preemption_after=after[2],
        kv_transfer=transfer,
        handoff=handoff,
    )


def gaps_of_groups(gaps: FleetGaps, longest_ps: Ints, chosen: NDArray[np.int64]) -> GapParts:
    """Return what the longest times between tokens are made of.

    The token that the prefill side drops counts in the engine's accounts and never reached the
    client: no part is longer than the longest time between two tokens that did.

    Args:
        gaps: Of disaggregated fleets, ps.
        longest_ps: Longest time between two tokens at the client; shape ``(n,)``.
        chosen: Indices of finished requests, shape ``(m,)``.
    """
    of = FleetGaps(*(np.minimum(column, longest_ps)[chosen] for column in gaps))
    decode = np.where(of.preempted < longest_ps[chosen], longest_ps[chosen], of.decode)
    return GapParts(decode, of.unstalled, of.stall, of.solo, of.preempted)
