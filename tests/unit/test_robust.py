"""Plans for most cases: the pair to plan for in closed form, and one small fleet by all routes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import ndtri

from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.fleet import FleetPlan
from planner.planning import plan_scenario, simulate_plan
from planner.planning.answer import searched
from planner.planning.chances import kept_shares
from planner.planning.clock import Clock
from planner.planning.margins import SPREAD, Margin
from planner.planning.robust import first_pair
from planner.planning.teller import Teller
from planner.scenario.load import load_scenario
from planner.scenario.uncertainty import Robust
from planner.simulation.effort import Effort, RunSize
from planner.spec import dump_json
from tests.robustness import kept_in_cases

if TYPE_CHECKING:
    from pathlib import Path

EFFORT = Effort(4_000, RunSize(8_000, 3, 2_000), RunSize(10_000, 6, 2_500), 80_000, 24_000, 8)
ROBUST = "uncertainty:\n  robust: {keep_in: 90 %, demand_cv: 15 %, curve_error: 5 %}\n"
SCENARIO = """\
format_version: "1.0"
name: Most cases
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 100 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 500 ms, tpot: 40 ms, attainment: 95 %}
accelerators:
  - {id: h100-sxm, price: 2.99 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [2048], max_num_seqs: [256]}
objective: min_cost
"""
ZS = (-SPREAD, 0.0, SPREAD)


def loaded(text: str, folder: Path):
    file = folder / "scenario.yaml"
    file.write_text(text)
    return load_scenario(file)


def log_linear(at_zero: float, slope: float) -> Margin:
    return Margin("w", ZS, tuple(at_zero * math.exp(-slope * z) for z in ZS))


@pytest.mark.parametrize(("cv", "slope"), [(0.15, 0.06), (0.3, 0.05), (0.1, 0.2)])
@pytest.mark.parametrize("keep_in", [0.8, 0.9, 0.95])
def test_the_first_pair_is_the_likeliest_case_on_the_edge(cv, slope, keep_in):
    """Of two normal variables: each moves by its share of the variance of their sum."""
    log_m, z = first_pair([log_linear(1.07, slope)], Robust(keep_in=keep_in, demand_cv=cv))
    sigma = math.sqrt(math.log1p(cv * cv))
    both = math.hypot(sigma, slope)
    beyond = ndtri(keep_in) / both
    assert log_m == pytest.approx(beyond * sigma**2 - sigma**2 / 2, abs=0.02)
    assert z == pytest.approx(beyond * slope, abs=0.15)


def test_a_fleet_that_bears_the_first_pair_keeps_its_promises_as_often_as_was_asked():
    aim = Robust(keep_in=0.9, demand_cv=0.2)
    log_m, z = first_pair([log_linear(1.0, 0.08)], aim)
    bears = log_linear(math.exp(log_m + 0.08 * z), 0.08)
    assert kept_shares([bears], aim.demand_cv)[1] == pytest.approx(0.9, abs=0.005)


def test_where_only_step_times_are_unknown_the_pair_is_their_quantile():
    log_m, z = first_pair([log_linear(1.0, 0.1)], Robust(keep_in=0.9, demand_cv=0))
    assert log_m == 0
    assert z == pytest.approx(ndtri(0.9), abs=0.05)


def test_a_fleet_that_bears_nothing_at_longer_steps_still_has_a_pair():
    never = Margin("w", ZS, (1.2, 1.1, 0.0))
    log_m, z = first_pair([never], Robust(keep_in=0.9, demand_cv=0.1))
    assert np.isfinite(log_m)
    assert z == pytest.approx(ndtri(0.9), abs=0.05)


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> tuple[FleetPlan, FleetPlan]:
    folder = tmp_path_factory.mktemp("robust")
    one, other = (
        plan_scenario(loaded(SCENARIO + more, folder), effort=EFFORT) for more in ("", ROBUST)
    )
    return one, other


@pytest.mark.minutes_in_plain
def test_most_cases_are_kept_when_each_is_simulated_and_the_plain_fleet_loses_many(plans):
    plain, robust = plans
    result = robust.evidence.robust
    assert robust.status == "optimal"
    assert min(result.kept_in, result.kept_in_fresh) >= 0.9
    assert min(result.too_few.kept_in, result.too_few.kept_in_fresh) < 0.9
    assert result.plain.usd_per_hour <= result.too_few.usd_per_hour
    assert result.too_few.usd_per_hour < robust.totals.cost_usd_per_hour
    size = RunSize(10_000, 2, 2_500)
    kept, kept_plain = (kept_in_cases(p, 0.15, 0.05, 60, size, 7) for p in (robust, plain))
    assert kept >= 0.85
    assert kept == pytest.approx(result.kept_in_fresh, abs=0.12)
    assert kept_plain == pytest.approx(result.plain.kept_in_fresh, abs=0.2)
    assert kept_plain < kept


@pytest.mark.minutes_in_plain
def test_the_price_is_the_difference_to_the_plan_for_what_is_stated(plans):
    plain, robust = plans
    result = robust.evidence.robust
    assert result.plain.usd_per_hour == plain.totals.cost_usd_per_hour
    assert result.plain.pools == tuple(f"{p.replicas} x {p.id}" for p in plain.pools)
    difference = robust.totals.cost_usd_per_hour - plain.totals.cost_usd_per_hour
    assert result.price_usd_per_hour == pytest.approx(difference)
    assert difference > 0
    (made,) = [d for d in robust.decisions if "90% of the cases" in d.question]
    assert made.numbers["price_usd_per_hour"] == result.price_usd_per_hour


@pytest.mark.minutes_in_plain
def test_the_plan_is_read_back_and_simulated_at_what_it_was_planned_for(plans):
    _, robust = plans
    again = FleetPlan.model_validate_json(dump_json(robust))
    assert again == robust
    (served,) = simulate_plan(again, effort=EFFORT)
    (said,) = robust.workloads
    assert served.offered_rps == pytest.approx(said.offered_rps)
    assert served.attainment.value == pytest.approx(said.attainment.value, abs=0.02)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (
            "objective: min_cost\n",
            "objective: max_goodput\nlimits: {budget: 30 USD/h}\n",
            ":12:1: objective: max_goodput spends what there is; with uncertainty.robust, ask for"
            " min_cost",
        ),
        (
            "attainment: 95 %}",
            "attainment: 95 %, attainment_over: period}",
            ":8:56: workloads.0.slo.attainment_over: does not go with uncertainty.robust yet;"
            " leave one of them out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_place(old, new, wanted, tmp_path):
    text = SCENARIO.replace(old, new) + ROBUST
    with pytest.raises(InputError) as caught:
        plan_scenario(loaded(text, tmp_path), effort=EFFORT)
    assert wanted in str(caught.value)


def test_other_questions_than_the_plan_refuse_it(tmp_path):
    with pytest.raises(InputError, match=r":14:3: uncertainty.robust: is asked of `planner plan`"):
        searched(loaded(SCENARIO + ROBUST, tmp_path), Catalogue(), EFFORT, Clock(9), Teller())


@pytest.mark.minutes_in_plain
def test_the_plain_fleet_is_not_lost_where_the_time_ends_before_its_cases_are_known(
    tmp_path, monkeypatch
):
    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.planning.robust.margins_of", interrupted)
    plan = plan_scenario(loaded(SCENARIO + ROBUST, tmp_path), effort=EFFORT)
    assert plan.status == "feasible"
    assert plan.pools
    assert plan.evidence.robust is None
    assert plan.evidence.unproven


@pytest.mark.minutes_in_plain
def test_the_plain_fleet_is_told_where_no_fleet_keeps_enough(tmp_path):
    """Of one replica that carries the stated demand, and no more may be had."""
    text = SCENARIO.replace("100 req/s", "30 req/s").replace("2.99 USD/h}", "2.99 USD/h, stock: 1}")
    plan = plan_scenario(loaded(text + ROBUST.replace("15 %", "60 %"), tmp_path), effort=EFFORT)
    assert plan.status == "feasible"
    assert plan.evidence.verified
    result = plan.evidence.robust
    assert result.kept_in_fresh < 0.9
    assert result.price_usd_per_hour == 0
    assert "no fleet was found by" in plan.evidence.unproven
