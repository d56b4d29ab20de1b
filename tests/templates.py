"""Random problems of screening: laws, policies, lengths and deadlines of many kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from planner.candidates.template import Build, Template
from planner.curves.memory import ONE_DEVICE
from planner.curves.step_law import StepLaw, law_fields
from planner.kernels import Limits
from planner.problem.lengths import IndependentLengths, LengthMarginal
from tests.problems import study

if TYPE_CHECKING:
    from planner.curves.curve import Curve
    from planner.simulation.fleet import Study

KNOTS = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
POLICIES = tuple((b, s) for b in (512, 1024, 2048, 8192) for s in (16, 32, 64, 128, 256))
"""max_num_batched_tokens and max_num_seqs."""


class Question(NamedTuple):
    study: Study
    templates: list[Template]
    tpot_s: list[float]


def random_law(rng: np.random.Generator) -> StepLaw:
    """A floor for reading weights that gives way to compute, smooth or with a bend."""
    n = np.array(KNOTS, float)
    base, token = 10 ** rng.uniform(-2.6, -1.7), 10 ** rng.uniform(-5.0, -4.0)
    bend = rng.uniform(0, 1)
    floor = np.maximum(base, token * n) * bend + (base + token * n) * (1 - bend)
    jumps = np.cumsum(rng.choice([0, 0, 0, 1], n.size) * base * rng.uniform(0, 0.3, n.size))
    step_s = np.maximum.accumulate(floor + jumps)
    return StepLaw(
        KNOTS,
        tuple(step_s.tolist()),
        token,
        c_x_s_per_token2=10 ** rng.uniform(-10, -9),
        c_k_s_per_token=10 ** rng.uniform(-8.2, -7.2),
        c_n_s_per_request=float(rng.choice([0, 2e-5])),
    )


def build_of(law: StepLaw, name: str, policy: tuple[int, int], blocks: int, usd: float) -> Build:
    budget, seqs = policy
    return Build(
        model="m",
        precision="bf16",
        engine="vllm",
        accelerator=name,
        tp_degree=1,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        curve=cast("Curve", SimpleNamespace(step_law=law, path_s=0.0, layout=ONE_DEVICE, parts=())),
        law=law_fields(law, budget),
        limits=Limits(seqs, budget, blocks),
        kv_tokens=16 * blocks,
        usd_per_hour=usd,
    )


def random_question(rng: np.random.Generator, accelerators: int = 4, policies: int = 3) -> Question:
    """One workload, and templates on a few accelerators under a few policies each.

    Prices are near what speed is worth, so that the best is not plain to see.
    """
    prompt, output = 10 ** rng.uniform(1.8, 3.3), 10 ** rng.uniform(0.8, 2.4)
    lengths = IndependentLengths(
        LengthMarginal(prompt, rng.uniform(0.1, 1.2)), LengthMarginal(output, rng.uniform(0.1, 1.0))
    )
    laws = [random_law(rng) for _ in range(accelerators)]
    step_s = [
        float(law.tokens_s(np.array([64.0]))[0] + 20 * law.c_k_s_per_token * prompt) for law in laws
    ]
    prefill_s = [float(law.tokens_s(np.array([prompt]))[0]) for law in laws]
    problem = study(
        lengths,
        ttft_ms=(1e3 * np.median(prefill_s) * rng.uniform(3, 20),),
        tpot_ms=(1e3 * np.median(step_s) * rng.uniform(1.2, 5),),
        promise=(float(rng.choice([0.9, 0.95, 0.99])),),
        seed=int(rng.integers(1_000_000)),
    )
    templates = []
    for a, law in enumerate(laws):
        usd = 3.0 * (np.median(step_s) / step_s[a]) ** rng.uniform(0.5, 1.2)
        blocks = int(10 ** rng.uniform(3.2, 4.6))
        for p in rng.choice(len(POLICIES), policies, replace=False):
            build = build_of(law, f"a{a}", POLICIES[p], blocks, float(usd))
            templates.append(Template(build, (0,), (1.0,), "w"))
    return Question(problem, templates, [float(problem.deadlines.tpot_ps[0]) * 1e-12])
