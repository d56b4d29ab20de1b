"""What a promise may say, from scenario to plan: gaps, values, priorities, hours; and arrivals."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from planner.data import shipped
from planner.kernels import COMPILED
from planner.planning import plan_scenario, simulate_plan
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

if TYPE_CHECKING:
    from pathlib import Path

    from planner.fleet import FleetPlan

SHORT = Effort(6_000, RunSize(24_000, 4, 2_500), RunSize(24_000, 6, 4_000), 192_000, 24_000, 8)
EFFORT = SHORT if COMPILED else None
"""Shorter runs than a user gets; without the compiled kernel the default is shorter still."""

LENGTHS = """
    lengths:
      prompt: {lognormal: {mean: 1200 tokens, cv: 1}}
      output: {lognormal: {mean: 250 tokens, cv: 0.8}}"""

TWO = f"""
format_version: "1.0"
name: Two classes, five accelerators
workloads:
  - id: paid
    model: llama-3.1-8b
    arrivals: {{poisson: 30 req/s}}{LENGTHS}
    slo: {{ttft: 300 ms, tpot: 20 ms, attainment: 0.8}}
  - id: free
    model: llama-3.1-8b
    arrivals: {{poisson: 30 req/s}}{LENGTHS}
    slo: {{ttft: 300 ms, tpot: 20 ms, attainment: 0.8}}
accelerators:
  - {{id: h100-sxm, price: 2.99 USD/h, stock: 5}}
policies:
  {{sharing: segregated, tp_degrees: [1], max_num_seqs: [256], max_num_batched_tokens: [2048]}}
objective: max_goodput
"""

LONG = """
format_version: "1.0"
name: Long prompts among short answers
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 12 req/s}
    lengths:
      prompt: {lognormal: {mean: 3000 tokens, cv: 1}}
      output: {lognormal: {mean: 300 tokens, cv: 0.8}}
    slo: {ttft: 2 s, tpot: 50 ms, attainment: 0.95}
accelerators:
  - {id: h100-sxm, price: 2.99 USD/h}
policies: {tp_degrees: [1], max_num_seqs: [256], max_num_batched_tokens: [512, 8192]}
objective: min_cost
"""

HOURS = f"""
format_version: "1.0"
name: One hour of 24 is twice as busy
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {{poisson: 40 req/s}}{LENGTHS}
    slo: {{ttft: 500 ms, tpot: 30 ms, attainment: 0.9}}
traffic:
  profiles:
    - weekday: [{"1, " * 23}2]
accelerators:
  - {{id: h100-sxm, price: 2.99 USD/h}}
policies: {{tp_degrees: [1], max_num_seqs: [256], max_num_batched_tokens: [2048]}}
objective: min_cost
"""


CHAT = """
format_version: "1.0"
name: Chat as a trace has it
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: ARRIVALS
    lengths: {histogram: azure-conversation-2023}
    slo: {ttft: 500 ms, tpot: 30 ms, attainment: 95 %}
accelerators:
  - {id: h100-sxm, price: 2.99 USD/h}
policies: {tp_degrees: [1], max_num_seqs: [256]}
objective: min_cost
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("promises")

    @cache
    def plan(text: str, *settings: str) -> FleetPlan:
        file = folder / "scenario.yaml"
        file.write_text(text)
        return plan_scenario(load_scenario(file, settings), effort=EFFORT)

    return plan


def replicas(plan: FleetPlan) -> dict[str, int]:
    return {pool.id.partition("@")[2]: pool.replicas for pool in plan.pools}


@pytest.mark.parametrize(("worth", "chosen"), [("paid", "paid"), ("free", "free")])
def test_the_last_unit_goes_to_the_requests_that_are_worth_more(planned, worth, chosen):
    """Two units keep either promise and the fifth lifts only one of two equal workloads."""
    place = ("paid", "free").index(worth)
    plan = planned(TWO, f"workloads.{place}.value=5")
    units = replicas(plan)
    assert units.pop(chosen) == 3
    assert list(units.values()) == [2]
    assert all(w.verdict == "kept" for w in plan.workloads)
    goodput = {w.id: w.goodput_rps for w in plan.workloads}
    weighted = sum(rate * (5 if name == worth else 1) for name, rate in goodput.items())
    assert plan.totals.goodput_rps == pytest.approx(sum(goodput.values()))
    assert plan.totals.weighted_goodput_rps == pytest.approx(weighted)
    assert plan.objective.value == pytest.approx(weighted)


def test_values_do_not_change_what_costs_least(planned):
    one, other = (
        planned(TWO, "objective=min_cost", *more) for more in ((), ("workloads.0.value=9",))
    )
    assert replicas(one) == replicas(other)
    assert one.totals.cost_usd_per_hour == other.totals.cost_usd_per_hour


def test_a_deadline_on_gaps_asks_for_smaller_chunks(planned):
    """8,192 prompt tokens in one step tear a gap far beyond 250 ms, which no mean shows."""
    loose, tight = planned(LONG), planned(LONG, "workloads.0.slo.max_itl=250 ms")
    assert [p.max_num_batched_tokens for p in loose.pools] == [8192]
    assert [p.max_num_batched_tokens for p in tight.pools] == [512]
    assert loose.workloads[0].max_itl_s is None
    assert tight.workloads[0].max_itl_s.p95 <= 0.25
    assert [w.verdict for w in simulate_plan(tight, effort=EFFORT)] == ["kept"]


def test_misses_by_gaps_are_charged_to_the_chunks_of_others(planned):
    plan = planned(LONG, "workloads.0.slo.max_itl=400 ms", "policies.max_num_batched_tokens=[8192]")
    (result,) = plan.workloads
    causes = result.misses.model_dump()
    assert max(causes, key=causes.get) == "decode_interference"
    assert sum(causes.values()) == pytest.approx(1 - result.attainment.value, abs=0.005)
    assert result.attainment.value < planned(LONG).workloads[0].attainment.value


def test_a_mean_over_the_day_may_pass_where_the_worst_hour_fails(planned):
    """The busy hour holds 2 of 25 requests: losing them all leaves 92 % of a promise of 90 %."""
    mean = planned(HOURS, "workloads.0.slo.attainment_over=period")
    hour = planned(HOURS, "workloads.0.slo.attainment_over=worst_hour")
    assert mean.totals.accelerators < hour.totals.accelerators
    for plan in (mean, hour):
        assert plan.workloads[0].verdict == "kept"
        assert [w.verdict for w in simulate_plan(plan, effort=EFFORT)] == ["kept"]
    busiest = mean.periods[0].workloads[0]
    assert busiest.verdict == "broken"
    over = mean.workloads[0].attainment_over_time
    assert 0.9 <= over.low <= over.value < 0.93
    assert all(w.verdict == "kept" for p in hour.periods for w in p.workloads)
    assert hour.workloads[0].attainment_over_time.low >= 0.9


def test_a_mean_over_the_day_that_fails_buys_more(planned):
    """At 95 % the busy hour's 8 % cannot be lost: 3 of 8 of them at least must be compliant."""
    plan = planned(
        HOURS, "workloads.0.slo.attainment_over=period", "workloads.0.slo.attainment=0.95"
    )
    mean = planned(HOURS, "workloads.0.slo.attainment_over=period")
    assert plan.totals.accelerators > mean.totals.accelerators
    assert plan.workloads[0].attainment_over_time.low >= 0.95
    assert plan.periods[0].workloads[0].attainment.value >= 0.375


@pytest.mark.parametrize(("rate", "more"), [(15, True), (60, True), (50, False)])
def test_the_accelerators_that_bursts_would_need_are_those_that_their_plan_has(planned, rate, more):
    """At equal mean rate, gaps of CV 3 raise p99 of TTFT by more the fewer replicas share them."""
    text = CHAT.replace("ARRIVALS", f"{{poisson: {rate} req/s}}")
    even = planned(text)
    first, *_, last = even.evidence.arrival_sweep
    bursty = planned(CHAT.replace("ARRIVALS", f"{{gamma: {{rate: {rate} req/s, cv: 3}}}}"))
    assert last.accelerators == bursty.totals.accelerators
    assert first.accelerators == even.totals.accelerators
    assert (last.accelerators > first.accelerators) is more
    times = last.ttft_p99_s["chat"] / first.ttft_p99_s["chat"]
    assert times > (3 if even.totals.accelerators == 1 else 2)


def test_priority_spares_an_accelerator_and_the_plan_says_so():
    """Replicas that serve chat first need not keep the whole queue short."""
    file = shipped("scenarios") / "priorities.yaml"
    both, fcfs = (
        plan_scenario(load_scenario(file, settings), effort=EFFORT)
        for settings in ((), ("policies.scheduling_policy=[fcfs]",))
    )
    assert {w.verdict for plan in (both, fcfs) for w in plan.workloads} == {"kept"}
    assert {pool.scheduling_policy for pool in fcfs.pools} == {"fcfs"}
    if not COMPILED:
        assert any("priority scheduling" in note for note in both.evidence.notes)
        return
    assert {pool.scheduling_policy for pool in both.pools} == {"priority"}
    assert both.totals.accelerators < fcfs.totals.accelerators
    (made,) = [d for d in both.decisions if "first" in d.question]
    assert made.answer == "priority"
    assert made.numbers["capacity_rps_priority"] > made.numbers["capacity_rps_fcfs"]
    assert made.numbers["usd_per_hour_priority"] < made.numbers["usd_per_hour_fcfs"]
    assert {w.verdict for w in simulate_plan(both, effort=EFFORT)} == {"kept"}
