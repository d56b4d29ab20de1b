"""A fleet by the hour: cheaper than the peak around the clock, and kept in every period."""

import pytest

from planner.catalogue import Catalogue
from planner.data import shipped
from planner.errors import InputError
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


def test_a_start_longer_than_a_window_is_refused_at_once():
    with pytest.raises(InputError, match=r"start_time: 7200 s is longer than .* \(3600 s\)"):
        resolve(load_scenario(HOURLY, ("accelerators.0.terms.start_time=2 h",)), Catalogue())
