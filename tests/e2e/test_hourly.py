"""A fleet by the hour: cheaper than the peak around the clock, and kept in every period."""

from pathlib import Path

import pytest

from planner.catalogue import Catalogue
from planner.data import shipped
from planner.errors import InputError
from planner.kernels import COMPILED
from planner.planning import plan_scenario
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from tests.e2e.test_shipped_scenarios import EFFORT, plan_of

HOURLY = shipped("scenarios") / "hourly.yaml"
RESERVED, HOUR, START_H = 1.99, 2.99, 1 / 6
SPANS = 168
"""Hours of the week that the day is repeated over."""


def test_the_bill_is_that_of_the_best_reserve_for_the_units_of_each_period():
    """The k-th accelerator is reserved where that costs less than the hours it is held, and what
    is hired is paid 10 minutes more at each start. The day has one valley, so starts are few."""
    plan = plan_of("hourly")
    need = [(p.share, sum(p.units.values())) for p in plan.periods]
    most = max(n for _, n in need)
    without_starts = sum(
        min(RESERVED, HOUR * sum(share for share, n in need if n >= k)) for k in range(1, most + 1)
    )
    starts = sum(x.usd_per_hour for x in plan.bill if "start" in x.item)
    assert plan.totals.cost_usd_per_hour - starts == pytest.approx(without_starts, rel=1e-3)
    # Each of the hired accelerators starts once or twice a day: 10 minutes of 24 hours.
    hired = sum(x.count for x in plan.supply if x.term == "on-demand")
    assert hired * START_H * HOUR / 24 <= starts + 1e-9 <= 2 * hired * START_H * HOUR / 24 + 1e-6


def test_every_period_keeps_its_promise_with_fewer_replicas_where_less_comes():
    plan = plan_of("hourly")
    assert plan.evidence.verified
    units = [sum(p.units.values()) for p in plan.periods]
    assert units == sorted(units, reverse=True)  # periods stand by descending load
    assert units[0] > units[-1] >= 1
    assert all(w.verdict == "kept" for p in plan.periods for w in p.workloads)


def test_the_decision_tells_the_difference_to_the_peak():
    plan = plan_of("hourly")
    (said,) = [d for d in plan.decisions if d.question.startswith("one fleet for the peak")]
    peak = sum(p.replicas * p.tp_degree for p in plan.pools)
    assert said.numbers["usd_per_hour_for_the_peak_on_demand"] == pytest.approx(peak * HOUR)
    assert said.numbers["usd_per_hour_for_the_peak_reserved"] == pytest.approx(peak * RESERVED)
    assert plan.totals.cost_usd_per_hour < peak * RESERVED


def test_dear_reservations_and_slow_starts_change_the_bill_as_they_must():
    """Reserved at the price of an hour, nothing is gained by it; starts of an hour cost more."""
    base = plan_of("hourly").totals.cost_usd_per_hour
    dear = plan_scenario(
        load_scenario(HOURLY, ("accelerators.0.terms.reserved.price=2.99 USD/h",)), effort=EFFORT
    )
    slow = plan_scenario(
        load_scenario(HOURLY, ("accelerators.0.terms.start_time=60 min",)), effort=EFFORT
    )
    assert dear.totals.cost_usd_per_hour > base
    assert slow.totals.cost_usd_per_hour > base


def test_a_ramp_of_one_is_kept_and_worth_what_a_ramp_of_two_saves():
    """The day falls and rises by two accelerators in an hour: a ramp of two changes nothing, and
    with one the fleet for the mornings starts early."""
    base = plan_of("hourly")
    slow = plan_scenario(load_scenario(HOURLY, ("accelerators.0.terms.ramp=1",)), effort=EFFORT)
    (limit,) = (x for x in slow.limits if x.name.startswith("ramp of h100-sxm"))
    assert (limit.used, limit.limit) == (1, 1)
    more = slow.totals.cost_usd_per_hour - base.totals.cost_usd_per_hour
    assert more > 0
    assert limit.shadow_price_usd_per_hour == pytest.approx(more, rel=0.02)
    for few, many in zip(base.periods, slow.periods, strict=True):
        assert sum(many.units.values()) >= sum(few.units.values())
        assert all(w.verdict == "kept" for w in many.workloads)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("traffic.adapt=never", "accelerators.0.terms: counts only with traffic.adapt: hourly"),
        ("workloads.0.slo.attainment_over=period", "slo.attainment_over: does not go with"),
    ],
)
def test_what_does_not_go_together_is_told_at_its_place(setting: str, message: str):
    with pytest.raises(InputError, match=r"hourly.yaml:\d+:\d+: |--set") as caught:
        resolve(load_scenario(HOURLY, (setting,)), Catalogue())
    assert message in str(caught.value)


@pytest.mark.parametrize("clusters", [2, 3, 6])
def test_a_start_as_long_as_a_window_is_none_too_long(clusters: int):
    """However the day is cut into periods: shares of it are not whole numbers of hours."""
    changes = (f"traffic.clusters={clusters}", "accelerators.0.terms.start_time=1 h")
    (supply,) = resolve(load_scenario(HOURLY, changes), Catalogue()).supplies
    assert supply.terms is not None
    assert supply.terms.start_time == 3600


def test_a_start_longer_than_a_window_is_refused_at_once():
    with pytest.raises(InputError, match=r"start_time: 7200 s is longer than .* \(3600 s\)"):
        resolve(load_scenario(HOURLY, ("accelerators.0.terms.start_time=2 h",)), Catalogue())


APART = """
format_version: "1.0"
name: Steady answers by the hour
objective: min_cost
workloads:
  - id: assistant
    model: llama-3.1-70b
    precisions: [fp8]
    arrivals: {poisson: 6 req/s}
    lengths:
      prompt: {gamma: {mean: 2000 tokens, cv: 0.8}}
      output: {gamma: {mean: 800 tokens, cv: 0.5}}
    slo: {ttft: 2 s, tpot: 25 ms, max_itl: 30 ms, attainment: 95 %}
traffic:
  adapt: hourly
  clusters: 3
  profiles:
    - weekday: [1, 1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1]
accelerators:
  - id: h100-sxm
    price: 2.99 USD/h
    terms: {reserved: {price: 1.99 USD/h}, start_time: 10 min}
policies:
  tp_degrees: [2]
  max_num_batched_tokens: [8192]
  max_num_seqs: [128]
  disaggregation:
    choose: always
    max_replicas: 2
    link: {bandwidth: 200 GB/s, latency: 1 ms, transport: nvlink}
"""


@pytest.mark.skipif(not COMPILED, reason="groups are slow in plain Python")
def test_groups_of_prefill_and_decode_adapt_too(tmp_path: Path):
    """Whole groups come and go with the hours, and every promise is kept in each of them."""
    path = tmp_path / "apart.yaml"
    path.write_text(APART)
    plan = plan_scenario(load_scenario(path, ()), effort=EFFORT)
    assert plan.evidence.verified
    groups = {p.group: p.groups for p in plan.pools}
    assert all(p.role in ("prefill", "decode") for p in plan.pools)
    assert all(w.verdict == "kept" for p in plan.periods for w in p.workloads)
    for period in plan.periods:
        assert set(period.units) <= set(groups)
        assert all(n <= groups[j] for j, n in period.units.items())
    # What is held at most is what the groups of the busiest period hold, by the sides' sizes.
    each = {j: sum(p.replicas * p.tp_degree for p in plan.pools if p.group == j) for j in groups}
    each = {j: total / groups[j] for j, total in each.items()}
    most = max(sum(n * each[j] for j, n in p.units.items()) for p in plan.periods)
    assert plan.totals.accelerators == most
    least = min(sum(n * each[j] for j, n in p.units.items()) for p in plan.periods)
    assert 0 < least < most
    (said,) = [d for d in plan.decisions if d.question.startswith("one fleet for the peak")]
    assert said.numbers["usd_per_hour"] < said.numbers["usd_per_hour_for_the_peak_on_demand"]
