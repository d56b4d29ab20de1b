"""What a plan assumes of its traffic, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.problem.arrivals import BurstArrivals, RenewalArrivals, ReplayArrivals
from planner.problem.lengths import CutLengths, SessionLengths
from planner.problem.prefixes import ConstantHits
from planner.simulation.lengths import draw_lengths, draw_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.problem.resolve import Demand, Problem

DRAWN: Final = 100_000


def traffic_notes(problem: Problem) -> tuple[str, ...]:
    """Say how arrivals were made, what was cut, and what periods stand for."""
    notes = [
        note
        for demand in (whole.demand for whole in problem.asked)
        for note in (
            *demand.notes,
            *_arrivals(demand),
            *_beyond_context(demand),
            *_prefixes(demand, kept=problem.policies.prefix_caching),
        )
    ]
    if problem.calendar is not None:
        notes += problem.calendar.notes
    return tuple(notes)


def _arrivals(demand: Demand) -> Iterator[str]:
    law = demand.arrivals
    if isinstance(law, ReplayArrivals):
        copies = law.rate_rps / law.trace_rps
        if law.squeeze:
            how = f"its time is squeezed {copies:.3g}-fold, bursts included"
        elif copies < 1:
            how = f"thinned at random to {copies:.1%} of its requests"
        else:
            how = f"{copies:.3g} copies of it, shifted in time at random, the last one thinned"
        yield (
            f"{demand.id}: replays a trace of {law.time_s.size:,} requests in {law.span_s:,.0f} s"
            f" ({law.trace_rps:.4g} req/s) at {law.rate_rps:.4g} req/s: {how}; intervals tell"
            " nothing of times that the trace does not hold"
        )
    elif isinstance(law, RenewalArrivals):
        yield (
            f"{demand.id}: {law.family} gaps with a CV of {law.cv:g} at {law.rate_rps:.4g} req/s;"
            " a pool that gets a share s of them sees a CV^2 of 1 + s (CV^2 - 1)"
        )
    elif isinstance(law, BurstArrivals):
        yield (
            f"{demand.id}: bursts of {law.burst_s:g} s at {law.burst_level:.3g} times the mean"
            f" rate, {law.quiet_s:g} s apart, exponential both; {law.quiet_level:.3g} times the"
            " mean between them"
            + (f"; {law.sources} sources, each with its own bursts" if law.sources > 1 else "")
        )


def _prefixes(demand: Demand, *, kept: bool) -> Iterator[str]:
    law, arrivals = demand.prefix, demand.arrivals
    repeats = isinstance(demand.lengths, SessionLengths) or (
        isinstance(arrivals, ReplayArrivals) and arrivals.prefix is not None
    )
    if law is None and repeats:
        yield (
            f"{demand.id}: its prompts repeat what came before, but every prompt is computed whole:"
            " a hit rate of 0; add a prefix to the workload to have caches simulated"
        )
    elif law is not None and not kept:
        yield f"{demand.id}: policies.prefix_caching is off: every prompt is computed whole"
    elif isinstance(law, ConstantHits):
        yield (
            f"{demand.id}: a hit rate of {law.rate:.1%} of whole prompt blocks is ASSUMED, for any"
            " router and any cache; what is found holds blocks as if it had been computed"
        )
    elif law is not None:
        yield (
            f"{demand.id}: what is found of its prompts follows from router, cache size and"
            " traffic; runs begin with empty caches, and an answer is found from the turn after"
            " next on, as its own blocks are not kept"
        )


def _beyond_context(demand: Demand) -> Iterator[str]:
    law, context = demand.lengths, demand.llm.max_context
    if isinstance(law, SessionLengths):
        turns = draw_turns(law, DRAWN, np.random.default_rng(0))
        yield (
            f"{demand.id}: sessions of {law.mean_turns:g} turns in the mean; prompts hold their"
            f" history: {turns.prompt.mean():,.0f} tokens in the mean,"
            f" {np.quantile(turns.prompt, 0.99):,.0f} at the 99 % quantile;"
            f" {1 - turns.whole.mean():.2%} are cut to the context of {context:,} tokens"
        )
        return
    cut = isinstance(law, CutLengths)
    whole = law.law if isinstance(law, CutLengths) else law
    prompt, output = draw_lengths(whole, DRAWN, np.random.default_rng(0))
    beyond = float((prompt.astype(np.int64) + output > context).mean())
    if beyond > 0:
        yield (
            f"{demand.id}: {beyond:.2%} of its requests are longer than the context of"
            f" {demand.llm.id}, {context:,} tokens; "
            + ("they are cut to it" if cut else "they are refused, and count as missed")
        )
