"""One replica of ``native/replica.hpp`` in plain Python: same algorithm, same numbers to the bit.

Why the aggregation and the skipping are exact is told there. What differs here is
bookkeeping: an insertion-ordered dict is the list of running requests, a heap of finish keys
the calendar, and what can be derived from a request's final length is not stored. Integers
have no last bit here, so time needs no shifting however long a stream lasts.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from planner.kernels.plain_blocks import held_after, steps_to_cover, steps_within
from planner.kernels.plain_gaps import GapLog

if TYPE_CHECKING:
    from collections.abc import Generator

    from planner.kernels.plain_gaps import GapColumns
    from planner.kernels.records import Law, Limits

    Member = Generator[tuple[int, int, int, int], int, "Totals"]

READ: Final = -1
"""Sent instead of a time: the replica tells its totals so far."""
COMPLETE: Final = -2
"""Sent instead of a time: the replica ends the step in progress and schedules no other yet."""
NEVER: Final = 1 << 200
"""Later than any time."""
_READ_AT_MOST: Final = 4096
"""Requests that an inbox keeps after their admission."""


class Totals(NamedTuple):
    """What a replica did."""

    steps: int
    events: int
    busy_ps: int
    peak_kv_blocks: int


class Columns(NamedTuple):
    """Lists by request: what its record is made of. Counts start at 0."""

    first_scheduled: list[int]
    first_token: list[int]
    finish: list[int]
    decode_stall: list[int]
    preempted: list[int]
    preemptions: list[int]
    block_wait: list[int]
    prefill_own: list[int]
    preempted_early: list[int]
    """The part of ``preempted`` before the first token."""
    solo_lost: list[int]
    """Solo time of the tokens that recomputation brought, not decoding."""


class Traffic(NamedTuple):
    """Lists by request, and how many tokens each has so far."""

    arrival: list[int]
    prompt: list[int]
    output: list[int]
    final: list[int]
    """Tokens in the KV cache at the last step: prompt + output - 1."""
    generated: list[int]


def drain(member: Member) -> Totals:
    """Run a replica to the end."""
    try:
        member.send(NEVER)
    except StopIteration as stop:
        totals: Totals = stop.value
        return totals
    raise AssertionError("a replica without work and without end")


def replica(
    law: Law,
    level: list[int],
    limits: Limits,
    traffic: Traffic,
    columns: Columns,
    inbox: list[int],
    done: list[int],
    late: set[int],
    last_ps: int,
    gaps: GapColumns | None = None,
) -> Member:
    """Run one replica as a coroutine.

    ``send(t)`` passes every step boundary before t and yields (next boundary, requests in the
    system, those of them that wait or are preempted, 0); ``send(READ)`` yields its totals;
    ``send(COMPLETE)``, at the time of the next boundary, completes the step that ends there.
    Requests come through ``inbox``: all at once if their times are known, or one by one, each
    after a ``send`` of its arrival time and followed by another. ``send(NEVER)`` runs to the
    end and returns the totals.

    Args:
        law: Time of a step.
        level: The law's table as a list.
        limits: Limits of the replica.
        traffic: Requests by index.
        columns: Where their records are written, by index.
        inbox: Requests in order of arrival; the replica removes what it has admitted, by and by.
        done: Requests are appended as they finish; whoever reads may clear it.
        late: Requests that come behind the boundary at their arrival, not before it.
        last_ps: Time may not reach this.
        gaps: Where the longest times between tokens are written, if they are wanted.

    Raises:
        OverflowError: Simulated time reached ``last_ps``.
    """
    arrival, prompt, output, final, generated = traffic
    first_scheduled, first_token, finish, decode_stall, preempted_ps, preemptions = columns[:6]
    block_wait, prefill_own, preempted_early, solo_lost = columns[6:]
    _, square, context_ps, sequence_ps, chunk_context_ps = law
    max_num_seqs, max_tokens, kv_blocks, size, reserve, watermark = limits

    running: dict[int, None] = {}  # in order of admission; popitem() takes the last
    preempted: list[int] = []  # a stack: its top heads the queue
    lost_at: dict[int, int] = {}  # when a preempted request lost its blocks
    prefilled: list[int] = []  # their prefill ends with this step
    head = 0  # inbox[head:] waits
    due: dict[int, list[int]] = {}  # decoding requests by counter at their last token
    keys: list[int] = []  # heap over due; may hold keys that are gone
    finish_key: dict[int, int] = {}  # of decoding requests
    by_residue = [0] * size  # decoding requests by (length - counter) modulo block size
    held = held_at = 0  # their blocks when the counter read held_at
    counter = decoding = context = stall_clock = 0
    partial, partial_computed, partial_chunk = -1, 0, 0
    prefill_blocks = prefill_time = 0
    first_step = budget = 0
    start, boundary, steps = 0, NEVER, 0
    all_steps = events = busy = peak = 0
    until = 0
    upcoming = NEVER  # arrival of inbox[head]
    looked_at = False  # it was there when the step in progress was scheduled
    log = None if gaps is None else GapLog(gaps)
    head_block_wait, blocked_since = 0, NEVER  # of inbox[head], refused for lack of blocks

    while True:
        # --- wait for leave to pass the boundary; wake up, or cut the window, for an arrival
        while True:
            if steps > 1:
                if (
                    upcoming < boundary
                    and not looked_at
                    and not preempted
                    and len(running) < max_num_seqs
                ):
                    tokens = prompt[inbox[head]]
                    need = tokens if reserve or tokens < budget else budget
                    slope = context_ps * decoding
                    span = upcoming - start + (inbox[head] in late)
                    cut = steps_to_cover(span, first_step, slope, steps)
                    look = start + cut * first_step + slope * (cut * (cut - 1) // 2)
                    if context <= size * (kv_blocks - watermark + -need // size):
                        steps, boundary = cut, look
                    else:
                        blocked_since = look
            elif boundary == NEVER:
                start = boundary = upcoming
                if until == NEVER == boundary:
                    return Totals(all_steps, events, busy, peak)
            if boundary < until:
                break
            if head > _READ_AT_MOST:
                del inbox[:head]
                head = 0
            queued = len(preempted) + len(inbox) - head
            until = yield boundary, len(running) + queued, queued, 0
            while until == READ:
                until = yield all_steps, events, busy, peak
            upcoming = arrival[inbox[head]] if head < len(inbox) else NEVER
            if until == COMPLETE:
                break

        # --- the end of a step, or of a window of decode steps
        if steps:
            all_steps += steps
            events += 1
            busy += boundary - start
            counter += steps
            context += steps * decoding
            stall_clock += prefill_time
            if blocked_since != NEVER:
                head_block_wait += boundary - blocked_since
                blocked_since = NEVER
            if context + (size - 1) * decoding > size * (peak - prefill_blocks):
                held = held_after(by_residue, decoding, held, counter - held_at, counter)
                held_at = counter
                if held + prefill_blocks > peak:
                    peak = held + prefill_blocks
            if log is not None and decoding:
                longest = first_step + context_ps * decoding * (steps - 1)
                log.step(counter, longest + prefill_time, prefill_time)
            if counter in due:
                finished = due.pop(counter)
                decoding -= len(finished)
                for request in finished:
                    length = final[request]
                    by_residue[(length - counter) % size] -= 1
                    held += (counter - length - held_at) // size
                    context -= length
                    decode_stall[request] += stall_clock
                    finish[request] = boundary
                    del running[request], finish_key[request]
                    if log is not None:
                        log.leave(request, counter, level[1] + sequence_ps + context_ps * length)
                if log is not None and not decoding:
                    log.clear()
                done += finished
            if partial_chunk:
                partial_computed += partial_chunk
                partial_chunk = 0
            if prefilled:
                for request in prefilled:
                    tokens = generated[request] + 1
                    if tokens == 1:
                        first_token[request] = boundary
                    if request in lost_at:
                        since = lost_at.pop(request)
                        preempted_ps[request] += boundary - since
                        if tokens == 1:
                            preempted_early[request] = preempted_ps[request]
                        else:
                            if log is not None:
                                log.waited(request, boundary - since)
                            context_alone = context_ps * (prompt[request] + tokens - 1)
                            solo_lost[request] += level[1] + sequence_ps + context_alone
                    missing = output[request] - tokens
                    if not missing:
                        finish[request] = boundary
                        del running[request]
                        done.append(request)
                        continue
                    key = finish_key[request] = counter + missing
                    offset = final[request] - key
                    by_residue[offset % size] += 1
                    held -= -(offset + held_at) // size
                    decoding += 1
                    context += offset + counter
                    decode_stall[request] -= stall_clock
                    generated[request] = tokens
                    if log is not None:
                        log.join(request, counter)
                    if key in due:
                        due[key].append(request)
                    else:
                        due[key] = [request]
                        heappush(keys, key)
                prefilled.clear()

        if until == COMPLETE:
            steps = 0
            continue

        # --- the start of a step: decodes first, preempting from the end while blocks lack
        start = boundary
        closed = False
        prefill_blocks = -(-partial_computed // size)  # 0 without a partial prefill
        sure = kv_blocks - decoding + -context // size  # blocks free beyond doubt
        exact = False
        while prefill_blocks > sure:
            held = held_after(by_residue, decoding, held, counter + 1 - held_at, counter + 1)
            held_at = counter + 1
            sure = kv_blocks - held
            exact = True
            if prefill_blocks <= sure:
                break
            closed = True
            request = running.popitem()[0]
            preempted.append(request)
            preemptions[request] += 1
            lost_at.setdefault(request, start)
            if request == partial:
                partial, partial_computed, prefill_blocks = -1, 0, 0
            else:
                key = finish_key.pop(request)
                bucket = due[key]
                bucket.remove(request)
                if not bucket:
                    del due[key]
                generated[request] = output[request] - (key - counter)
                offset = final[request] - key
                by_residue[offset % size] -= 1
                held += -(offset + held_at) // size
                sure = kv_blocks - held
                decoding -= 1
                context -= offset + counter
                decode_stall[request] += stall_clock
                if log is not None:
                    length = offset + counter
                    log.leave(request, counter, level[1] + sequence_ps + context_ps * length)

        # --- then the one unfinished prefill, which is the last of the running
        budget = max_tokens - decoding
        computed = squares = chunk_context = chunks = 0
        if partial >= 0:  # fewer than max_num_seqs <= max_tokens decode: some budget is left
            target = prompt[partial] + generated[partial]
            chunk = target - partial_computed
            if chunk > budget:
                chunk = budget
            blocks = -(-(partial_computed + chunk) // size)
            if blocks > sure and not exact:
                held = held_after(by_residue, decoding, held, counter + 1 - held_at, counter + 1)
                held_at = counter + 1
                sure = kv_blocks - held
                exact = True
            if blocks > sure:
                closed = True
                request = running.popitem()[0]
                preempted.append(request)
                preemptions[request] += 1
                lost_at.setdefault(request, start)
                partial, partial_computed, prefill_blocks = -1, 0, 0
            else:
                prefill_blocks = blocks
                computed = chunk
                squares = chunk * (2 * partial_computed + chunk)
                chunk_context = partial_computed + chunk
                chunks = 1
                budget -= chunk
                if partial not in lost_at:
                    prefill_own[partial] += (
                        level[chunk]
                        + (square * squares >> 16)
                        + sequence_ps
                        + chunk_context_ps * chunk_context
                    )
                if chunk_context == target:
                    prefilled.append(partial)
                    partial, partial_computed = -1, 0
                else:
                    partial_chunk = chunk

        # --- then admission, strictly from the head of the queue
        if not closed:
            while budget and len(running) < max_num_seqs:
                if preempted:
                    request = preempted[-1]
                    target = prompt[request] + generated[request]
                elif upcoming <= start:
                    request = inbox[head]
                    target = prompt[request]
                else:
                    break
                chunk = target if target < budget else budget
                blocks = need = -(-chunk // size)
                if reserve and chunk < target:
                    need = -(-target // size)
                need += prefill_blocks
                if watermark and running:
                    need += watermark
                if need > sure:
                    if not exact:
                        held = held_after(
                            by_residue, decoding, held, counter + 1 - held_at, counter + 1
                        )
                        held_at = counter + 1
                        sure = kv_blocks - held
                        exact = True
                    if need > sure:
                        if not preempted:
                            blocked_since = start
                        break
                if preempted:
                    preempted.pop()
                else:
                    head += 1
                    upcoming = arrival[inbox[head]] if head < len(inbox) else NEVER
                    first_scheduled[request] = start
                    prefill_own[request] = (
                        level[chunk]
                        + (square * chunk * chunk >> 16)
                        + sequence_ps
                        + chunk_context_ps * chunk
                    )
                    if head_block_wait:
                        block_wait[request] = head_block_wait
                        head_block_wait = 0
                running[request] = None
                prefill_blocks += blocks
                computed += chunk
                squares += chunk * chunk
                chunk_context += chunk
                chunks += 1
                budget -= chunk
                if chunk < target:
                    partial, partial_chunk = request, chunk
                else:
                    prefilled.append(request)

        # --- how long it takes, or how many decode steps go by until something happens
        steps = 1
        looked_at = upcoming <= start
        if chunks:
            alone = level[decoding]
            prefill_time = (
                level[computed + decoding]
                - alone
                + (square * squares >> 16)
                + sequence_ps * chunks
                + chunk_context_ps * chunk_context
            )
            first_step = alone + sequence_ps * decoding + context_ps * (context + decoding)
            boundary = start + first_step + prefill_time
        elif decoding:
            prefill_time = 0
            slope = context_ps * decoding
            first_step = duration = (
                level[decoding] + sequence_ps * decoding + context_ps * context + slope
            )
            if not closed:
                while (key := keys[0]) not in due:
                    heappop(keys)
                steps = key - counter
                if steps > 1:
                    if context + (steps + size - 1) * decoding > size * kv_blocks:
                        now = counter + 1
                        held = held_after(by_residue, decoding, held, now - held_at, now)
                        held_at = now
                        room = kv_blocks - held
                        steps = 1 + steps_within(by_residue, decoding, room, now, steps - 1)
                    duration = steps * first_step + slope * (steps * (steps - 1) // 2)
            boundary = start + duration
        else:
            steps, boundary, prefill_time = 0, NEVER, 0
            continue
        if boundary >= last_ps:
            raise OverflowError("simulated time passed 2**62 ps (53 days)")
