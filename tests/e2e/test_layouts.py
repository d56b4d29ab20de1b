"""Replicas of ranks and of stages, from the scenario to the plan and to its simulation."""

from __future__ import annotations

import pytest

from planner.kernels import COMPILED
from planner.planning import plan_scenario
from planner.planning.replay import simulate_plan
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

SHORT = Effort(
    2_000, RunSize(6_000, 3, 1_500), RunSize(6_000, 4, 2_000), 48_000, 6_000, 4
)  # fewer requests, wider intervals
SCENARIO = """\
format_version: "1.0"
name: Large mixtures of experts
workloads:
  - id: chat
    model: {model}
    precisions: [{precision}]
    arrivals: {{poisson: 3 req/s}}
    lengths: {{prompt: {{fixed: 800}}, output: {{fixed: 60}}}}
    slo: {{ttft: 5 s, tpot: 200 ms, attainment: 90 %}}
accelerators:
  - {{id: {device}, price: 3 USD/h}}
policies: {{max_num_batched_tokens: [1024], max_num_seqs: [64], attention_dp: {ranks}}}
"""


@pytest.mark.skipif(not COMPILED, reason="step by step in plain Python takes minutes")
@pytest.mark.parametrize(
    ("model", "precision", "device", "ranks", "degrees"),
    [
        ("deepseek-v3.1", "nvfp4", "b200-sxm", "always", {(1, 1, 4, 4), (1, 1, 8, 8)}),
        ("deepseek-r1", "fp8", "h100-sxm", "search", {(8, 2, 1, 1), (4, 4, 1, 1)}),
    ],
    ids=["ranks", "stages"],
)
def test_a_plan_of_ranks_or_stages_is_paid_verified_and_simulated_again(
    tmp_path, model, precision, device, ranks, degrees
):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(model=model, precision=precision, device=device, ranks=ranks))
    plan = plan_scenario(load_scenario(path), effort=SHORT)
    assert plan.evidence.verified
    assert plan.totals is not None
    held = 0
    for pool in plan.pools:
        assert (pool.tp_degree, pool.pp_degree, pool.dp_degree, pool.ep_degree) in degrees
        assert pool.curve.extrapolated == (pool.pp_degree > 1)
        held += pool.replicas * pool.tp_degree * pool.pp_degree * pool.dp_degree
    assert plan.totals.accelerators == held
    assert plan.totals.cost_usd_per_hour == pytest.approx(3 * held)
    again = simulate_plan(plan, effort=SHORT)
    assert again[0].attainment.high >= 0.9
