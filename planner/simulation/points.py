"""Measured operating points: simulated on demand, and remembered on disk where that is wanted."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.simulation.crew import crew_at_hand
from planner.simulation.draw import NamedDraw
from planner.simulation.group import GroupShares
from planner.simulation.point_key import meaning_of_numbers, point_key
from planner.simulation.pool import PoolRun, run_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.problem.deadlines import Deadlines
    from planner.simulation.draw import Draw, Draws
    from planner.simulation.point_store import PointStore
    from planner.simulation.pool import PoolSetup

COUNTS: Final = ("offered", "compliant", "prompt_tokens", "cached_tokens")

MOST_DRAWS: Final = 2
"""Questions whose draws a process keeps for the next run."""

_store: PointStore | None = None


@contextmanager
def remembering(store: PointStore | None) -> Iterator[None]:
    """Let studies that begin inside look points up in a store, and keep there what they measure.

    Results do not depend on it: a point is read back as it was measured, or measured again.
    """
    global _store  # studies are made far below those who know the folder
    before, _store = _store, store
    try:
        yield
    finally:
        _store = before


def store_at_hand() -> PointStore | None:
    """Return the store that studies begin with; None: nothing is remembered."""
    return _store


def measured(
    store: PointStore | None,
    setup: PoolSetup,
    requests: Draw | NamedDraw,
    rate_rps: float,
    deadlines: Deadlines,
) -> PoolRun:
    """Return a run of a pool without its latencies: from the store, or simulated.

    Arguments as :func:`planner.simulation.pool.run_pool`. Requests without a name are simulated.
    """
    if store is None or requests.name is None:
        return simulated(setup, requests, rate_rps, deadlines)
    key = point_key(meaning_of_numbers(), setup, requests.name, rate_rps, deadlines)
    kept = store.find(key)
    run = read_run(kept) if kept is not None else None
    if run is None:
        run = simulated(setup, requests, rate_rps, deadlines)
        store.keep(key, write_run(run))
    return run


def simulated(
    setup: PoolSetup,
    requests: Draw | NamedDraw,
    rate_rps: float,
    deadlines: Deadlines,
    *,
    keep: bool = False,
    parts: bool = True,
) -> PoolRun:
    """Simulate a pool, in a process of its own where there is one for it.

    Arguments as :func:`planner.simulation.pool.run_pool`.
    """
    crew = crew_at_hand()
    if crew is None:
        return run_pool(setup, requests.drawn(), rate_rps, deadlines, keep=keep, parts=parts)
    return crew.call(_run_elsewhere, setup, requests, rate_rps, deadlines, keep, parts)


def _run_elsewhere(
    setup: PoolSetup,
    requests: Draw | NamedDraw,
    rate_rps: float,
    deadlines: Deadlines,
    keep: bool,
    parts: bool,
) -> PoolRun:
    if isinstance(requests, NamedDraw):
        requests = replace(requests, draws=_draws_like(requests.draws))
    return run_pool(setup, requests.drawn(), rate_rps, deadlines, keep=keep, parts=parts)


_draws: dict[tuple[bytes, int], Draws] = {}


def _draws_like(draws: Draws) -> Draws:
    """Return draws that may have been made here for an earlier run."""
    name = draws.recipe, draws.seed
    while name not in _draws and len(_draws) >= MOST_DRAWS:
        _draws.pop(next(iter(_draws)))
    return _draws.setdefault(name, draws)


def write_run(run: PoolRun) -> bytes:
    """Write down a run without latencies; JSON, in which Python's floats are exact.

    Raises:
        ValueError: It has latencies, which are not for keeping.
    """
    if run.latencies is not None:
        raise ValueError("latencies are not kept")
    row: dict[str, Any] = {name: getattr(run, name).tolist() for name in COUNTS}
    row |= {
        "backlog_growth": float(run.backlog_growth),
        "completed_rps": float(run.completed_rps),
        "busy_share": float(run.busy_share),
        "simulated": int(run.simulated),
        "response_s": None if run.response_s is None else run.response_s.tolist(),
        "group": None if run.group is None else [float(share) for share in _shares(run.group)],
    }
    return json.dumps(row, separators=(",", ":")).encode()


def read_run(text: bytes) -> PoolRun | None:
    """Return the run that was written down; None if that is not what the text is."""
    try:
        row: dict[str, Any] = json.loads(text)
        response, group = row.pop("response_s"), row.pop("group")
        row |= {name: np.array(row[name], np.int64) for name in COUNTS}
        return PoolRun(
            **row,
            response_s=None if response is None else np.array(response, np.float64),
            latencies=None,
            group=None if group is None else _read_shares(*group),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read_shares(prefill: float, decode: float, link: float, *tokens_per_s: float) -> GroupShares:
    return GroupShares(prefill, decode, link, tokens_per_s)


def _shares(group: GroupShares) -> tuple[float, ...]:
    return group.prefill_busy, group.decode_busy, group.link_busy, *group.tokens_per_s
