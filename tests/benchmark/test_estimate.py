"""How far the closed form is from the simulator, and what it costs beside it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from planner.candidates.estimate import LatencyEstimate, estimate, estimated_capacity
from planner.candidates.frontier import setup_of
from planner.candidates.screen import bounds_of
from planner.simulation.capacity import falling_root, margin_at
from planner.simulation.pool import PoolRun, run_pool
from tests.templates import random_question

pytestmark = pytest.mark.benchmark

PROBLEMS, REQUESTS = 60, 20_000


def table(name: str, errors: list[float]) -> None:
    x = np.abs(np.nan_to_num(np.array(errors), posinf=9.0))
    print(
        f"  {name:36}{x.size:4} cases: median {np.median(x):.3f}, p90 {np.quantile(x, 0.9):.3f},"
        f" max {x.max():.3f}; median error with sign {np.median(errors):+.3f}"
    )


def compare(rows: dict[str, list[float]], said: LatencyEstimate, run: PoolRun, where: str) -> None:
    """Add the errors at one load; an unstable run has no means."""
    if run.unstable or run.latencies is None:
        return
    ttft, tpot = run.latencies.ttft_s.mean(), run.latencies.tpot_s.mean()
    rows.setdefault(f"TTFT, {where}", []).append(said.ttft_s[0] / ttft - 1)
    rows.setdefault(f"TPOT, {where}", []).append(said.tpot_s[0] / tpot - 1)
    missed = said.attainment[0] - run.attainment[0]
    rows.setdefault(f"attainment, {where}", []).append(missed)


def test_error_and_cost_against_the_simulator() -> None:
    rows: dict[str, list[float]] = {}
    spent = {"closed form": 0.0, "simulation": 0.0}
    runs = {"from the bound": 0, "from the closed form": 0}
    searches = 0
    for number in range(PROBLEMS):
        rng = np.random.default_rng(number)
        study, templates, tpot_s = random_question(rng, 3, 2)
        draw, few = study.draws.get((1.0,), REQUESTS, 0, 1), study.draws.get((1.0,), 4_000, 0, 0)
        deadlines = (float(study.deadlines.ttft_ps[0]) * 1e-12, tpot_s[0])
        lengths, promise = (few.prompt, few.output), study.promise[0]
        for template, bound in zip(templates, bounds_of(study, templates, tpot_s), strict=True):
            if bound.load_rps <= 0:
                continue
            setup = setup_of(template.build, 1, "round_robin")
            share = rng.uniform(0.3, 0.9)
            load = share * bound.load_rps
            run = run_pool(setup, draw, load, study.deadlines, keep=True)
            said = estimate(template.build, *lengths, np.array([load]), deadlines)
            compare(rows, said, run, "below 0.6 of the bound" if share < 0.6 else "0.6 to 0.9")
            start = time.process_time()
            guess = estimated_capacity(template.build, lengths, bound.load_rps, deadlines, promise)
            spent["closed form"] += time.process_time() - start
            calls = [0]

            def margin(rate: float, calls=calls, study=study, setup=setup, draw=draw) -> float:
                calls[0] += 1
                return margin_at(study, setup, draw, rate)

            start = time.process_time()
            plain = 0.75 * bound.load_rps
            found = falling_root(margin, plain, step=0.15, tolerance=0.03)
            spent["simulation"] += time.process_time() - start
            runs["from the bound"] += calls[0]
            calls[0] = 0
            falling_root(margin, guess or plain, step=0.15, tolerance=0.03)
            runs["from the closed form"] += calls[0]
            searches += 1
            if found > 0:
                rows.setdefault(f"capacity at {promise:.0%}", []).append(guess / found - 1)
    print(f"\nclosed form against {REQUESTS:,} simulated requests, {PROBLEMS} random problems")
    for name in sorted(rows):
        table(name, rows[name])
    for name, cpu_s in spent.items():
        print(f"  a capacity by {name}: {cpu_s / searches * 1e3:.1f} ms")
    for name, number in runs.items():
        print(f"  runs of a search started {name}: {number / searches:.1f}")
    assert rows
