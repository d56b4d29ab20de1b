"""What a plan assumes of its traffic, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.problem.arrivals import BurstArrivals, RenewalArrivals, ReplayArrivals
from planner.problem.lengths import CutLengths, SessionLengths
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
        for note in (*demand.notes, *_arrivals(demand), *_beyond_context(demand))
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
        if law.prefix is not None:
            yield (
                f"{demand.id}: its prompts share blocks, but no prefix cache is simulated: this is"
                " the plan at a hit rate of 0"
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


def _beyond_context(demand: Demand) -> Iterator[str]:
    law, context = demand.lengths, demand.llm.max_context
    if isinstance(law, SessionLengths):
        turns = draw_turns(law, DRAWN, np.random.default_rng(0))
        yield (
            f"{demand.id}: sessions of {law.mean_turns:g} turns in the mean; prompts hold their"
            f" history: {turns.prompt.mean():,.0f} tokens in the mean,"
            f" {np.quantile(turns.prompt, 0.99):,.0f} at the 99 % quantile;"
            f" {1 - turns.whole.mean():.2%} are cut to the context of {context:,} tokens; no"
            " prefix cache is simulated, so every prompt is computed whole"
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
