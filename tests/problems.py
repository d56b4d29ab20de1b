"""Small problems with answers that can be worked out by hand."""

from __future__ import annotations

import numpy as np

from planner.kernels import Law, Limits
from planner.problem.deadlines import Deadlines
from planner.problem.lengths import IndependentLengths, JointLengths, LengthLaw, LengthMarginal
from planner.simulation.draw import Draws
from planner.simulation.fleet import Study
from planner.simulation.meter import Meter
from planner.simulation.pool import PoolSetup

MS = 10**9
"""One millisecond, in ps."""


def fixed(prompt: float, output: float) -> IndependentLengths:
    return IndependentLengths(LengthMarginal(prompt, 0.0), LengthMarginal(output, 0.0))


def spread(prompt: float, output: float, cv: float) -> IndependentLengths:
    return IndependentLengths(LengthMarginal(prompt, cv), LengthMarginal(output, cv))


def trace(*requests: tuple[int, int]) -> JointLengths:
    prompt, output = np.array(requests, np.int64).T
    return JointLengths(prompt, prompt, output, output, np.ones(prompt.size))


def affine_law(base_ms: float, per_token_us: float, budget: int, context_ps: int = 0) -> Law:
    n = np.arange(budget + 1)
    tokens = np.rint(base_ms * 1e9 + n * per_token_us * 1e6).astype(np.int64)
    return Law(tokens, 0, context_ps, 0, 0)


def setup(
    law: Law, seqs: int, *, blocks: int = 10**6, replicas: int = 1, router: str = "round_robin"
) -> PoolSetup:
    limits = Limits(seqs, law.tokens_ps.size - 1, blocks)
    return PoolSetup(law, limits, replicas, router)  # type: ignore[arg-type]


def study(
    *laws: LengthLaw,
    ttft_ms: tuple[float, ...],
    tpot_ms: tuple[float, ...],
    promise: tuple[float, ...],
    seed: int = 1,
) -> Study:
    deadlines = Deadlines(
        np.array([round(x * MS) for x in ttft_ms], np.int64),
        np.array([round(x * MS) for x in tpot_ms], np.int64),
        np.full(len(laws), 10**6, np.int64),
    )
    return Study(Draws(laws, seed), deadlines, promise, Meter())
