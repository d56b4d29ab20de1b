"""Cost of a capacity to 0.5 %, and of the screening bound per template and load."""

from __future__ import annotations

import time

import numpy as np
import pytest

from planner import load
from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.candidates.meanfield import GRID, coarse_bounds, moments
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.data import shipped
from planner.kernels import COMPILED
from planner.planning import study_of
from planner.problem.resolve import resolve
from planner.simulation.capacity import precise_capacity
from planner.simulation.effort import default_effort
from tests.templates import POLICIES, build_of, random_law

pytestmark = pytest.mark.benchmark


@pytest.mark.parametrize("promise", ["95 %", "99 %"])
def test_capacity_of_one_template(promise: str) -> None:
    settings = [f"workloads.chat.slo.attainment={promise}"]
    catalogue = Catalogue()
    problem = resolve(load(shipped("scenarios") / "quickstart.yaml", settings), catalogue)
    study = study_of(problem)
    builds, _ = enumerate_builds(problem, catalogue)
    templates = templates_of(problem, study, builds)[0][(0,)]
    template = next(t for t in templates if t.id.startswith("h100-sxm.tp1.bf16.b2048.s256"))
    setup = setup_of(template.build, 1, "least_outstanding")
    start = time.process_time()
    found = precise_capacity(
        study,
        setup,
        template.mix_rps,
        15.0,
        requests=default_effort().capacity_requests,
        precision=0.005,
        most=default_effort().capacity_replications,
    )
    cpu_s = time.process_time() - start
    half = found.capacity_rps.half_width / found.capacity_rps.value
    print(
        f"\ncapacity at {promise}: {found.capacity_rps.value:.2f} req/s to {half:.2%}"
        f" ({found.replications} replications, {study.meter.requests:,} requests):"
        f" {cpu_s:.2f} CPU-seconds of 0.5"
    )
    if COMPILED:
        assert found.precise


def test_screening_bound_of_a_million_template_loads_per_second() -> None:
    rng = np.random.default_rng(1)
    laws = [random_law(rng) for _ in range(50)]
    builds = [
        build_of(law, f"a{i}", policy, 20_000, 1.0)
        for i, law in enumerate(laws)
        for policy in POLICIES
    ]
    lengths = rng.integers(10, 2_000, 4_000).astype(np.int32)
    means = {b: moments(lengths, lengths, b) for b in {b for b, _ in POLICIES}}
    columns = [means[build.max_num_batched_tokens] for build in builds]
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        coarse_bounds(builds, columns, [0.05] * len(builds))
        best = min(best, time.process_time() - start)
    rate = len(builds) * GRID / best
    print(f"\n{len(builds)} templates at {GRID} loads each: {rate:,.0f} template-loads per second")
    assert rate >= 1e6
