"""Prefill and decode on different engines: hand-over, transfer, and who holds which blocks.

``nixl_pull``: the prefill side computes the prompt and drops the token it samples. Its blocks
stay held until the decode side has read them. After ``hop`` ticks the decode side queues the
request, allocates the prompt's blocks when its scheduler comes to it, and reads. The first
decode schedule at or after the end of the read recomputes the last prompt token, and the end
of that step is the first token at the client.

``distserve_push``: the first token leaves the prefill side; its KV is sent at once; ``hop``
ticks after it has come, the decode side queues the request and goes on with the second token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.stepwise.cluster import Cluster
from planner.kernels.stepwise.engine import Engine
from planner.kernels.stepwise.link import Transfer, make_link
from planner.kernels.stepwise.request import Request
from planner.kernels.stepwise.router import GroupRouters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.kernels.stepwise.options import Disaggregated
    from planner.kernels.stepwise.records import Record
    from planner.kernels.stepwise.request import Job


class SplitCluster(Cluster):
    """Prefill engines (first), decode engines (after them), and the link they share."""

    def __init__(self, setup: Disaggregated, records: list[Record]) -> None:
        groups, p, d = setup.groups, setup.n_prefill, setup.n_decode
        prefill = [Engine(setup.prefill, setup.prefill_law) for _ in range(groups * p)]
        decode = [Engine(setup.decode, setup.decode_law) for _ in range(groups * d)]
        entries = GroupRouters(setup.prefill_router, prefill, groups)
        super().__init__([*prefill, *decode], entries, records)
        self.pull = setup.mode == "nixl_pull"
        self.hop = setup.hop
        self.n_prefill = len(prefill)
        self.link = make_link(setup.link)
        self.per_token, self.latency = setup.link.ticks_per_token, setup.link.latency
        self.decode_router = GroupRouters(setup.decode_router, decode, groups)
        self.decode_requests: dict[int, Request] = {}
        self.hand_offs: list[tuple[int, int]] = []  # (tick, rank), in the order sent

    def arrive(self, rank: int, job: Job, now: int) -> None:
        """Route an arrival to a prefill engine, or refuse it if either side could never."""
        index = self.entry.choose(job)
        record = self.records[rank]
        record.replica = index
        prefill, decode = self.engines[index], self.engines[self.n_prefill]  # decode: all alike
        fits = prefill.can_hold(job, 1) and decode.can_hold(job, job.limit)
        if not (fits and prefill.can_prefill(job)):
            record.fate = "rejected"
            return
        request = Request(rank, job, now, target=1, limit=1)
        self.requests[rank] = request
        prefill.state.waiting.add(request)
        self.touched.add(index)
        if self.ledger:
            self.ledger.arrived(rank, index, now)

    def sampled(self, request: Request, index: int, now: int) -> None:
        """Pass a token on to the client, unless it is one that the prefill side drops."""
        if index >= self.n_prefill or not self.pull:
            super().sampled(request, index, now)

    def ended(self, request: Request, index: int, now: int) -> None:
        """Send a prefilled request on its way, or note the end of a decoded one."""
        record = self.records[request.rank]
        if index >= self.n_prefill:
            super().ended(request, index, now)
            return
        record.prefill_done = now
        if self.pull:
            self.hand_offs.append((now + self.hop, request.rank))
        elif request.job.output == 1:
            super().ended(request, index, now)
        else:
            self._send(request.rank, request.job.prompt, now)

    def started_loads(self, index: int, loads: Sequence[tuple[Request, int]], now: int) -> None:
        """Begin to read for the requests that a decode scheduler parked."""
        del index
        for request, tokens in loads:
            self._send(request.rank, tokens, now)

    def next_event(self) -> int | None:
        """Return when the next transfer or hand-off is due."""
        due = [tick for tick in (self.link.next_event(),) if tick is not None]
        due += [tick for tick, _ in self.hand_offs]
        return min(due) if due else None

    def advance(self, now: int) -> None:
        """Complete transfers: the prefill side frees its blocks, the decode side may go on."""
        for transfer in self.link.advance(now):
            rank = transfer.rank
            record = self.records[rank]
            record.kv_end = now
            self.engines[record.replica].release(self.requests[rank])
            self.touched.add(record.replica)
            if self.ledger:
                alone = transfer.tokens * self.per_token + self.latency
                self.ledger.transferred(rank, alone, now)
            if self.pull:
                self.decode_requests[rank].loaded = True
                self.touched.add(self.n_prefill + record.decode_replica)
            else:
                self.hand_offs.append((now + self.hop, rank))

    def hand_off(self, now: int) -> None:
        """Queue on the decode side what is due."""
        due = [rank for tick, rank in self.hand_offs if tick <= now]
        self.hand_offs = [(tick, rank) for tick, rank in self.hand_offs if tick > now]
        for rank in due:
            job, record = self.requests[rank].job, self.records[rank]
            index = self.decode_router.choose(job)
            record.decode_replica, record.decode_arrival = index, now
            request = Request(rank, job, now, target=job.output, limit=job.limit)
            if self.pull:
                request.remote = True
            else:
                request.outputs, request.computed, request.decoding = 1, job.prompt, True
            self.decode_requests[rank] = request
            self.engines[self.n_prefill + index].state.waiting.add(request)
            self.touched.add(self.n_prefill + index)
            if self.ledger:
                self.ledger.handed_off(rank, self.n_prefill + index, now)

    def close(self) -> None:
        """Copy what the engines of both sides know of each request into its record."""
        super().close()
        for rank, request in self.decode_requests.items():
            record = self.records[rank]
            record.decode_first_scheduled = request.first_scheduled
            record.preemptions += request.preemptions

    def _send(self, rank: int, tokens: int, now: int) -> None:
        transfer = Transfer(rank, tokens)
        self.link.begin(transfer, now)
        self.records[rank].kv_start = transfer.start
