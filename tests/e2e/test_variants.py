"""Formats, drafts and adapters from the scenario to the plan, its table and its questions."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from planner.cli.app import app
from planner.data import shipped
from planner.fleet import read_plan
from planner.planning import plan_scenario
from planner.planning.replay import simulate_plan
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.spec import dump_json

SHORT = Effort(2_000, RunSize(6_000, 3, 1_500), RunSize(6_000, 4, 2_000), 48_000, 6_000, 4)
SCENARIO = """\
format_version: "1.0"
name: Adapters and drafts
workloads:
  - id: chat
    model: llama-3.1-70b
    precisions: [fp8]
    kv_dtypes: [fp8]
    adapters: {{count: 10, rank: 16, targets: all, overhead: 5 %}}
    arrivals: {{poisson: {rate} req/s}}
    lengths: {{prompt: {{fixed: 800}}, output: {{fixed: 200}}}}
    slo: {{ttft: 2 s, tpot: {tpot} ms, attainment: 90 %}}
accelerators:
  - {{id: h100-sxm, price: 3 USD/h}}
policies:
  tp_degrees: [4]
  max_num_batched_tokens: [2048]
  max_num_seqs: [256]
  speculative_decoding:
    - {{method: eagle, draft_tokens: 3, acceptance: 0.6, draft_cost: 5 %, draft_memory: 2 GB,
       draft_kv: 1.25 %}}
objective: min_cost
"""
SHORT_PROMPTS = (
    "workloads.0.lengths={prompt: {lognormal: {mean: 500, cv: 0.5}}, output: {fixed: 100}}",
    "workloads.0.arrivals.poisson=96 req/s",
)
PAYS = "does speculative decoding pay"


@pytest.mark.parametrize(("tpot", "drafts"), [(14, True), (150, False)])
def test_drafts_are_bought_where_deadlines_are_tight_and_not_where_batches_are_large(
    tmp_path, tpot, drafts
):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(rate=40, tpot=tpot))
    plan = plan_scenario(load_scenario(path), effort=SHORT)
    assert plan.evidence.verified
    (pool,) = plan.pools
    assert (pool.speculative_decoding is not None) == drafts
    assert ("eagle3" in pool.id) == drafts
    assert pool.kv_dtype == "fp8"
    assert "kvfp8.lora10x16" in pool.id
    assert pool.adapters is not None
    assert pool.adapters.count == 10
    assert pool.adapters.overhead == 0.05
    (decision,) = (d for d in plan.decisions if d.question == PAYS)
    assert decision.answer == ("eagle3" if drafts else "no speculative decoding")
    other = "usd_per_hour_with_" + ("no_speculative_decoding" if drafts else "eagle3")
    assert decision.numbers[other] >= decision.numbers["usd_per_hour"]
    assert any(("eagle3" in r.template) != drafts for r in plan.rejected)
    words = "speculative decoding: none" if not drafts else "eagle3 takes 2.18 tokens"
    assert any(words in note for note in plan.evidence.notes)
    if drafts:
        assert pool.speculative_decoding is not None
        ratios = [*pool.speculative_decoding.token_time_ratio.values()]
        assert ratios == sorted(ratios)  # the more sequences, the less drafts bring
    written = tmp_path / "plan.json"
    written.write_text(dump_json(plan))
    assert read_plan(written) == plan
    told = CliRunner().invoke(app, ["explain", str(written)])
    assert told.exit_code == 0
    assert PAYS in " ".join(told.output.split())
    assert simulate_plan(plan, effort=SHORT)[0].attainment.high >= 0.9


def test_an_eight_bit_cache_pays_at_long_contexts_and_not_at_short_ones():
    """Reports of 12,000 tokens, and as many prompt tokens a second in prompts of 500."""
    path = shipped("scenarios") / "precisions.yaml"
    costs = []
    for change in ((), SHORT_PROMPTS):
        plan = plan_scenario(load_scenario(path, change), effort=SHORT)
        assert plan.evidence.verified
        (told,) = (d for d in plan.decisions if d.question.startswith("which number formats"))
        cost = told.numbers["usd_per_hour"]
        costs.append(told.numbers.get("usd_per_hour_with_fp8_weights_and_bf16_KV_cache", cost))
        costs.append(told.numbers.get("usd_per_hour_with_fp8_weights_and_fp8_KV_cache", cost))
        if not change:
            (pool,) = plan.pools
            assert (pool.precision, pool.kv_dtype) == ("fp8", "fp8")
            assert pool.speculative_decoding is None
            assert pool.adapters is None
            assert pool.curve.extrapolated  # Llama-3.1-8B was measured in 16 bits only
            assert "roofline" in pool.curve.source
            none = "factors on step times: speculative decoding: none; adapters: none"
            assert none in plan.evidence.notes
            why = {r.template: r.reason for r in plan.rejected}
            assert "no units for fp8" in why["a100-80g-sxm.tp1.bf16.kvfp8"]
    wide, narrow, wide_short, narrow_short = costs
    assert wide >= 1.4 * narrow
    assert wide_short == narrow_short
