"""Latencies of a replica at many loads in closed form.

Steps are gated: what arrives during a step is prefilled in the next, so step lengths follow
``X' = tau(n) + work that arrived in X``. The number decoding, n, is that of processor sharing,
with a geometric tail of those that wait for a seat. A request's TPOT is its decode steps,
stretched by the prefill of those that arrive meanwhile. Gamma laws with the right two moments
(Wilson and Hilferty's cube root) give the shares that meet a deadline.

It knows no preemption and no wait for a step's token budget, so it is optimistic. It ranks and
explains; it never decides. Screening does without it: ``docs/decisions`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.candidates.template import Build

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]

STATES: Final = 16
"""Quantiles of the number decoding that an arrival may find."""
NODES: Final = 24
"""Requests of the draw, by length of prompt, that stand for all."""
FINE: Final = 200
"""The same for the moments of the prefill work."""
FULL: Final = 0.99
"""Share of time in prefill from which a load counts as not served."""


@dataclass(frozen=True, slots=True)
class LatencyEstimate:
    """By load; arrays of shape (loads,)."""

    ttft_s: Floats
    """Mean; infinite where the load cannot be served."""
    tpot_s: Floats
    """Mean over decode steps; infinite where the load cannot be served."""
    attainment: Floats
    """Joint, over both deadlines; 0 where the load cannot be served."""


class _Replica:
    """Times of one replica under a draw of lengths."""

    def __init__(self, build: Build, prompt: Ints, output: Ints) -> None:
        p, d = prompt.astype(float), output.astype(float) - 1
        self.law = build.curve.step_law
        self.path_s = build.curve.path_s
        self.budget = float(build.max_num_batched_tokens)
        self.decode = max(float(d.mean()), 1e-9)
        self.context = float((d * p + d * (d + 1) / 2).mean()) / self.decode
        self.seats = float(max(min(build.max_num_seqs, build.kv_tokens // (self.context + 8)), 1))
        order = np.lexsort((d, p))
        nodes = order[((np.arange(NODES) + 0.5) / NODES * p.size).astype(int)]
        self.prompts, self.decodes = p[nodes], d[nodes]
        self.every = p[order[((np.arange(FINE) + 0.5) / FINE * p.size).astype(int)]]

    def decode_step_s(self, running: Floats) -> Floats:
        """Return the length of steps that only decode."""
        each = self.law.c_k_s_per_token * self.context + self.law.c_n_s_per_request
        return self.law.tokens_s(np.maximum(running, 1.0)) + each * running

    def chunks(self, prompt: Floats, running: Floats) -> Floats:
        """Return the steps over which a prompt is prefilled."""
        return np.ceil(prompt / np.maximum(self.budget - running, 16.0))

    def prefill_s(self, prompt: Floats, running: Floats) -> Floats:
        """Return by how much prompts lengthen steps, summed over their chunks."""
        law, chunks = self.law, self.chunks(prompt, running)
        more = law.tokens_s(running + prompt / chunks) - law.tokens_s(np.maximum(running, 1.0))
        return (
            chunks * (more + law.c_n_s_per_request)
            + law.c_x_s_per_token2 * prompt * prompt / 2
            + law.c_c_s_per_token * prompt * (chunks + 1) / 2
        )


@dataclass(frozen=True, slots=True)
class _Flow:
    """Prefill and the number decoding at each load; arrays of shape (loads, 1) but for ``share``.

    ``work_s`` and ``work2_s2`` are moments of the prefill work of a request, ``busy`` its share of
    time, ``again_s`` what arrives during a request's own prefill and delays its first decode steps.
    """

    load: Floats
    running: Floats
    work_s: Floats
    work2_s2: Floats
    busy: Floats
    again_s: Floats
    share: Floats
    """P(n decode), shape (loads, seats + 1); what is missing to 1 is ``queued``."""
    queued: Floats
    spare_rps: Floats
    """Rate at which a queue for seats drains; not above 0 where it does not."""


def _flow(replica: _Replica, load: Floats) -> _Flow:
    seats, decode = replica.seats, replica.decode
    running = np.zeros_like(load)
    for _ in range(30):
        work = replica.prefill_s(replica.every, running)
        busy = np.minimum(load * work.mean(axis=1, keepdims=True), FULL)
        target = load * decode * replica.decode_step_s(running) / (1 - busy)
        running = running + 0.6 * (np.minimum(target, seats) - running)
    work = replica.prefill_s(replica.every, running)
    mean, square = work.mean(axis=1, keepdims=True), (work * work).mean(axis=1, keepdims=True)
    busy = np.minimum(load * mean, FULL)
    again = busy / (1 - busy) * (mean + busy * load * square / (1 - busy**2))
    n = np.arange(0.0, seats + 1)[None, :]
    step = replica.decode_step_s(n)
    rise = np.log(load) + np.log(decode / (1 - busy) * step[:, 1:] + again) - np.log(n[:, 1:])
    logs = np.concatenate([np.zeros_like(load), np.cumsum(rise, axis=1)], axis=1)
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    most = seats * (1 - busy) / (step[0, -1] * decode)
    rho = np.minimum(load / most, 1 - 1e-9)
    tail = rho / (1 - rho) * share[:, -1:]
    total = share.sum(axis=1, keepdims=True) + tail
    return _Flow(load, running, mean, square, busy, again, share / total, tail / total, most - load)


def estimate(
    build: Build, prompt: Ints, output: Ints, loads_rps: Floats, deadlines_s: tuple[float, float]
) -> LatencyEstimate:
    """Estimate mean TTFT, mean TPOT and joint attainment of one replica at many loads.

    Args:
        build: The replica.
        prompt: A draw of prompt lengths, tokens; shape (n,).
        output: Output lengths of the same requests.
        loads_rps: Requests per second, > 0; shape (loads,).
        deadlines_s: TTFT and TPOT.
    """
    replica = _Replica(build, prompt, output)
    flow = _flow(replica, np.asarray(loads_rps, float)[:, None])
    state = _states(flow)
    ttft, in_time = _first_token(replica, flow, state, deadlines_s[0])
    tpot, paced = _pace(replica, flow, state, deadlines_s[1])
    queued, spare = flow.queued[:, 0], np.maximum(flow.spare_rps[:, 0], 1e-9)
    late = np.exp(-spare * np.maximum(deadlines_s[0] - ttft[:, -1].mean(axis=1), 0))
    attained = (1 - queued) * (in_time * paced).mean(axis=(1, 2))
    attained += queued * (1 - late) * paced[:, -1].mean(axis=1)
    served = (flow.spare_rps[:, 0] > 0) & ((flow.load * flow.work_s)[:, 0] < FULL)
    return LatencyEstimate(
        np.where(served, ttft.mean(axis=(1, 2)) + queued / spare, np.inf),
        np.where(served, tpot, np.inf),
        np.where(served, attained, 0.0),
    )


def _states(flow: _Flow) -> Floats:
    """Return quantiles of the number decoding, shape (loads, STATES, 1)."""
    known = np.cumsum(flow.share, axis=1) / flow.share.sum(axis=1, keepdims=True)
    levels = (np.arange(STATES) + 0.5) / STATES
    found = np.stack([np.searchsorted(row, levels) for row in known])
    states: Floats = np.minimum(found, flow.share.shape[1] - 1).astype(float)[:, :, None]
    return states


def _first_token(
    replica: _Replica, flow: _Flow, state: Floats, deadline_s: float
) -> tuple[Floats, Floats]:
    """Return mean TTFT and P(in time); shape (loads, STATES, NODES)."""
    load, busy = flow.load[:, :, None], flow.busy[:, :, None]
    work, square = flow.work_s[:, :, None], flow.work2_s2[:, :, None]
    step_s = replica.decode_step_s(state)
    step = step_s / (1 - busy)
    variance = load * square * step / (1 - busy**2)
    met = step + variance / step  # length of the step in which one arrives
    idle = np.where(state == 0, np.maximum(1 - load * (step_s + work), 0.0), 0.0)
    wait = (1 - idle) * met * (0.5 + busy)
    third = step**3 * (1 + 3 * variance / step**2 + 2 * (variance / step**2) ** 2)
    second = third / step * (1 / 3 + busy + busy**2) + load * square * met
    spread = np.maximum((1 - idle) * second - wait**2, 1e-12)
    own = replica.prefill_s(replica.prompts, flow.running)[:, None, :]
    own = own + step_s * replica.chunks(replica.prompts, state) + replica.path_s
    return wait + own, _gamma_cdf(deadline_s - own, wait, spread)


def _pace(
    replica: _Replica, flow: _Flow, state: Floats, deadline_s: float
) -> tuple[Floats, Floats]:
    """Return mean TPOT, shape (loads,), and P(in time), shape (loads, STATES, NODES)."""
    load, busy, again = flow.load[:, :, None], flow.busy[:, :, None], flow.again_s[:, :, None]
    work, square = flow.work_s[:, :, None], flow.work2_s2[:, :, None]
    n = np.arange(0.0, replica.seats + 1)[None, :]
    step_n = replica.decode_step_s(n)
    full = np.zeros_like(flow.share)
    full[:, -1:] = flow.queued
    rate = (flow.share + full) * n / step_n
    token_step = (rate * step_n).sum(axis=1) / np.maximum(rate.sum(axis=1), 1e-300)
    base = np.maximum(token_step, step_n[0, 1])[:, None, None] / (1 - busy)
    mean = base + again / replica.decode
    running = ((flow.share + full) * n).sum(axis=1, keepdims=True)
    around = replica.decode_step_s(running)
    slope = (replica.decode_step_s(running * 1.1 + 1) - around) / (0.1 * running + 1)
    elastic = np.minimum(slope * running / around, 0.95)[:, :, None]
    decodes = np.maximum(replica.decodes, 1.0)
    x = np.maximum(decodes * (1 - elastic) / replica.decode, 1e-6)  # own length over memory
    fade = (1 - np.exp(-x)) / x
    kept = np.maximum(2 * (x - 1 + np.exp(-x)) / (x * x) - fade**2, 0.0)
    start = replica.decode_step_s(np.minimum(state + 1, replica.seats)) / (1 - busy)
    steady = base + (start - base) * fade
    each = steady + again / decodes
    variance_n = (flow.share * (n - running) ** 2).sum(axis=1)[:, None, None]
    variance = (slope[:, :, None] / (1 - busy)) ** 2 * variance_n * kept
    variance = variance + load * square / (1 - busy) ** 2 * (mean * decodes + work) / decodes**2
    alone = np.maximum(square - work * work, 0)
    variance = variance + (busy / (1 - busy)) ** 2 * alone / decodes**2
    floor = 0.75 * steady * (1 - busy)
    paced = _gamma_cdf(deadline_s - floor, each - floor, variance)
    return mean[:, 0, 0], np.where(replica.decodes > 0, paced, 1.0)


def _gamma_cdf(x: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return P(G <= x) of gamma variables by Wilson and Hilferty's cube root."""
    cv = np.clip(np.sqrt(np.maximum(variance, 1e-30)) / np.maximum(mean, 1e-15), 1e-4, 1.6)
    root = np.cbrt(np.maximum(x, 0) / np.maximum(mean, 1e-15))
    share: Floats = np.where(x <= 0, 0.0, ndtr((root - (1 - cv * cv / 9)) / (cv / 3)))
    return share


def estimated_capacity(
    build: Build,
    lengths: tuple[Ints, Ints],
    bound_rps: float,
    deadlines_s: tuple[float, float],
    promise: float,
) -> float:
    """Return the load up to which the estimated attainment reaches the promise; 0 if nowhere.

    Args:
        build: The replica.
        lengths: A draw of prompts and outputs, tokens.
        bound_rps: Load above which not to look.
        deadlines_s: TTFT and TPOT.
        promise: Attainment promised.
    """
    low, high = 0.02 * bound_rps, bound_rps
    for _ in range(3):
        loads = np.linspace(low, high, 9)
        kept = estimate(build, *lengths, loads, deadlines_s).attainment >= promise
        if not kept[0]:
            return 0.0
        last = int(np.flatnonzero(kept)[-1])
        if last + 1 >= loads.size:
            return float(loads[last])
        low, high = float(loads[last]), float(loads[last + 1])
    return low
