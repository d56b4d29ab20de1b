"""Every shipped scenario is planned, and its plan keeps what a plan must keep."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path

import pytest

from planner.candidates.frontier import measure_frontier
from planner.data import shipped
from planner.errors import InputError, LimitReachedError
from planner.fleet import FleetPlan, Misses
from planner.kernels import COMPILED
from planner.planning import plan_scenario, prefixes, results, simulate_plan
from planner.planning.replay import fleet_in
from planner.planning.study import effort_for, study_of
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.simulation.fleet import sample_fleet
from planner.spec import dump_json

SHORT = Effort(6_000, RunSize(24_000, 4, 2_500), RunSize(24_000, 6, 4_000), 192_000, 24_000, 8)
EFFORT = SHORT if COMPILED else None
"""Shorter runs than a user gets; without the compiled kernel the default is shorter still."""

SCENARIOS = sorted(path.stem for path in shipped("scenarios").glob("*.yaml"))
TOO_SLOW = () if COMPILED else ("apart", "assistants", "side-by-side", "two-accelerators")
"""Engines that keep prefixes, and groups, serve a thousand requests a second in plain Python."""
OWN_TESTS = (
    *("apart-first-token", "apart-loose", "apart-tcp", "by-length"),
    *("capacity-table", "shared-links"),
)
FEASIBLE = [n for n in SCENARIOS if n not in ("infeasible", *OWN_TESTS, *TOO_SLOW)]
"""Those that simulation answers and that no other tests plan."""
compiled_only = pytest.mark.skipif(not COMPILED, reason="prefix caches in plain Python take hours")


HIT_RATE_0 = "policies.prefix_caching=false"


@cache
def plan_of(name: str, *settings: str) -> FleetPlan:
    return plan_and_charges(name, *settings)[0]


@cache
def plan_and_charges(name: str, *settings: str) -> tuple[FleetPlan, list[float]]:
    """The plan, and what was charged in the first draws before it stands for all misses."""
    loaded = load_scenario(shipped("scenarios") / f"{name}.yaml", settings)
    charged: list[float] = []

    def noted(misses: Misses, share: float) -> Misses:
        charged.append(sum(misses.model_dump().values()))
        return in_all(misses, share)

    in_all = results._in_all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "_in_all", noted)
        plan = plan_scenario(loaded, effort=EFFORT)
    return plan, charged[len(charged) - len(plan.workloads) :]


def test_the_four_scenarios_are_shipped():
    assert {"quickstart", "chat-70b", "two-classes", "infeasible"} <= set(SCENARIOS)


@pytest.mark.parametrize("name", FEASIBLE)
def test_every_promise_is_kept(name):
    plan = plan_of(name)
    assert plan.status == "optimal"
    assert plan.evidence.verified
    for workload in plan.workloads:
        assert workload.verdict == "kept"
        assert workload.attainment.low >= workload.promise


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_books_close(name):
    """Bill, supply, totals, routing and ratio are several routes to the same numbers."""
    plan = plan_of(name)
    totals = plan.totals
    assert totals is not None
    assert sum(line.usd_per_hour for line in plan.bill) == pytest.approx(totals.cost_usd_per_hour)
    assert sum(x.usd_per_hour for x in plan.supply) == pytest.approx(totals.cost_usd_per_hour)
    assert sum(line.count for line in plan.supply) == totals.accelerators
    assert sum(p.replicas * p.tp_degree for p in plan.pools) == totals.accelerators
    by_hour = [(p.share, w) for p in plan.periods if p.units for w in p.workloads]
    at_once = sum(w.goodput_rps for w in plan.workloads)
    over_time = sum(share * w.goodput_rps for share, w in by_hour)
    assert (over_time if by_hour else at_once) == pytest.approx(totals.goodput_rps)
    assert totals.usd_per_thousand_compliant == pytest.approx(
        totals.cost_usd_per_hour / 3600 / totals.goodput_rps * 1000
    )
    assert totals.compliant_requests_per_usd * totals.usd_per_thousand_compliant == pytest.approx(
        1000
    )
    for workload in plan.workloads:
        assert sum(r.share for r in workload.routing) == pytest.approx(1.0)
    load = {
        w.id: w.users.users * w.users.user_rps if w.users else w.offered_rps for w in plan.workloads
    }
    for pool in plan.pools:
        routed = sum(
            r.share * load[w.id]
            for w in plan.workloads
            for r in w.routing
            if r.pool in (pool.id, f"{pool.group}/prefill")
        )
        assert routed == pytest.approx(pool.offered_rps)


@pytest.mark.parametrize("name", FEASIBLE)
def test_misses_are_charged_in_full(name):
    """The charges of the first draws sum to the misses that all draws showed, within luck; the
    plan tells them as shares of the latter."""
    plan, charges = plan_and_charges(name)
    for workload, charged in zip(plan.workloads, charges, strict=True):
        luck = workload.attainment.high - workload.attainment.low + 1e-4
        missed = 1 - workload.attainment.value
        assert charged == pytest.approx(missed, abs=2 * luck)
        told = sum(workload.misses.model_dump().values())
        assert told == pytest.approx(missed if charged else 0.0, abs=1e-12)
        if all(p.role == "colocated" for p in plan.pools):
            assert workload.misses.kv_transfer == 0


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_bound_is_no_worse_than_the_value(name):
    objective = plan_of(name).objective
    if objective.name == "min_cost":
        assert objective.bound <= objective.value * (1 + 1e-9)
    else:
        assert objective.bound >= objective.value * (1 - 1e-9)
    assert objective.gap >= 0


@pytest.mark.parametrize("name", FEASIBLE)
def test_demand_is_swept_and_attainment_falls(name):
    sweep = plan_of(name).evidence.demand_sweep
    assert [point.multiple for point in sweep] == [0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5]
    for workload in plan_of(name).workloads:
        values = [point.attainment[workload.id] for point in sweep]
        for less, more in itertools.pairwise(values):
            assert less.high >= more.low


@pytest.mark.parametrize("name", ["quickstart", "chat-70b"])
def test_promises_break_where_the_plan_says_on_fresh_draws(name):
    """Two per cent below it they are kept, two per cent above it they are broken."""
    plan = plan_of(name)
    problem, fleet = fleet_in(plan, 99, Path())
    pools = fleet.for_simulation(problem.policies.router)
    verify = effort_for(problem).verify

    def attained(multiple: float) -> dict[str, float]:
        sample = sample_fleet(study_of(problem), pools, verify, stream=7, multiple=multiple)
        means = (estimate.value for estimate in sample.intervals())
        return dict(zip((demand.id for demand in problem.demands), means, strict=True))

    for point in plan.evidence.breaks_at:
        promise = next(w.promise for w in plan.workloads if w.id == point.workload)
        assert point.kept_at is not None
        assert point.broken_at is not None
        assert point.kept_at >= 1
        assert attained(0.98 * point.kept_at)[point.workload] >= promise
        assert attained(1.02 * point.broken_at)[point.workload] < promise
        assert point.cause in Misses.model_fields


@pytest.mark.parametrize("name", FEASIBLE)
def test_alternatives_are_answered(name):
    """Every accelerator that was offered is in the plan or has its reasons listed."""
    plan = plan_of(name)
    used = {pool.accelerator for pool in plan.pools}
    for offer in plan.scenario.document["accelerators"]:
        assert offer["id"] in used or any(
            r.template.startswith(f"{offer['id']}.") and r.reason for r in plan.rejected
        )


@pytest.mark.parametrize("name", ["quickstart", "chat-70b"])
def test_a_plan_survives_its_file_and_is_kept_on_fresh_draws(name):
    plan = plan_of(name)
    again = FleetPlan.model_validate(json.loads(dump_json(plan)))
    assert again == plan
    for result in simulate_plan(again, seed=77, effort=EFFORT):
        assert result.verdict == "kept"


@pytest.mark.parametrize("share", [0.0, -1.0, 1e308])
def test_a_plan_edited_to_no_load_or_an_endless_one_is_refused(share):
    document = plan_of("quickstart").model_dump()
    document["workloads"][0]["routing"][0]["share"] = share
    with pytest.raises(InputError, match="no positive load"):
        simulate_plan(FleetPlan.model_validate(document), effort=EFFORT)


def test_under_minimum_cost_one_unit_less_does_not_keep_the_promise():
    plan = plan_of("chat-70b")
    assert plan.objective.name == "min_cost"
    assert len(plan.evidence.one_less) == len(plan.pools)
    assert all(less.verdict != "kept" for less in plan.evidence.one_less)


def test_lengths_without_spread_never_cost_more_and_raise_the_capacity():
    """Only the coefficient of variation of both lengths goes from 1 to 0."""
    spread = plan_of("chat-70b")
    path = "workloads.chat.lengths.{}.lognormal.cv=0"
    equal = plan_of("chat-70b", path.format("prompt"), path.format("output"))
    assert equal.totals.cost_usd_per_hour <= spread.totals.cost_usd_per_hour
    (chosen,) = spread.pools
    pools = {p.id: p.capacity_rps.value for p in equal.pools}
    others = {r.template: r.numbers.get("capacity_rps") for r in equal.rejected}
    assert (pools | others)[chosen.id] > chosen.capacity_rps.value


def test_a_fleet_without_a_place_gives_way_to_one_that_has_one():
    """Four pairs are the cheapest fleet, and three nodes with three free devices hold three."""
    plan = plan_of("left-over")
    told = {d.question: d for d in plan.decisions}["what if replicas could stand anywhere?"]
    assert told.answer.startswith("4 x h100-sxm.tp2.")
    assert "have room for 3" in told.because
    assert told.numbers["usd_per_hour_without_nodes"] == pytest.approx(8 * 2.99)
    assert {p.accelerator: p.replicas for p in plan.pools} == {"h100-sxm": 3, "h200-sxm": 1}
    assert len(plan.placement) == 4
    assert told.numbers["difference_usd_per_hour"] == pytest.approx(2 * (4.49 - 2.99))


def test_where_no_fleet_has_a_place_the_room_is_named():
    plan = plan_of("left-over", "topology.nodes.1.free=1")
    assert plan.status == "infeasible"
    room = "room for 2 devices of h100-sxm in one scale-up domain"
    reason = next(r for r in plan.infeasibility if r.limit == room)
    assert reason.has.startswith("at most 3 ")
    assert "have room for 3" in reason.fastest_reachable


def test_tensor_parallel_over_a_slow_network_loses_in_dollars():
    plan = plan_of("across-nodes")
    told = {d.question: d for d in plan.decisions}[
        "a replica within one scale-up domain or over several"
    ]
    assert {p.tp_degree for p in plan.pools} == {4}
    assert told.answer == "within one"
    across = told.numbers["usd_per_hour_over_several_domains"]
    assert across >= 2 * told.numbers["usd_per_hour_within_one_domain"]
    assert "3.125 GB/s a device" in told.because
    for replica in plan.placement:
        assert len(replica.devices) == 4


def test_workloads_kept_in_a_region_are_served_there():
    plan = plan_of("two-regions")
    assert [w.network_s for w in plan.workloads] == [0.02, 0.03]
    regions = {d.id: d.region for d in plan.topology.domains}
    at = {pool.id: {regions[r.domain] for r in plan.placement if r.pool == pool.id}
          for pool in plan.pools}  # fmt: skip
    served = {w.id: set.union(*(at[r.pool] for r in w.routing)) for w in plan.workloads}
    assert served == {"chat-eu": {"eu"}, "chat-us": {"us"}}


def test_same_seed_same_bytes():
    name = "quickstart"
    loaded = load_scenario(shipped("scenarios") / f"{name}.yaml")
    assert dump_json(plan_scenario(loaded, effort=EFFORT)) == dump_json(plan_of(name))


def test_a_deadline_below_one_prefill_has_a_physical_reason_and_no_copies_as_remedy():
    plan = plan_of("infeasible")
    assert plan.status == "infeasible"
    (reason,) = plan.infeasibility
    assert reason.limit == "retrieval: ttft"
    assert "isolated prefill of 4,096 tokens takes" in reason.fastest_reachable
    assert "tp8" in reason.fastest_reachable
    needed_ms = float(reason.needs.removesuffix(" ms"))
    assert "more replicas" not in reason.remedy
    just_enough = f"workloads.retrieval.slo.ttft={needed_ms * 1.6} ms"
    assert plan_of("infeasible", just_enough).status == "optimal"
    too_little = f"workloads.retrieval.slo.ttft={needed_ms * 0.98} ms"
    assert plan_of("infeasible", too_little).status == "infeasible"


def test_too_little_stock_names_the_stock_and_how_much_would_do():
    settings = ("accelerators.b200-sxm.stock=1", "accelerators.h100-sxm.stock=2")
    plan = plan_of(
        "chat-70b", *settings, "accelerators.h200-sxm.stock=1", "accelerators.l40s.stock=1"
    )
    assert plan.status == "infeasible"
    stocks = {i.limit: i for i in plan.infeasibility if i.limit.startswith("stock of")}
    needed = int(stocks["stock of b200-sxm"].needs.split()[0])
    enough = (
        f"accelerators.b200-sxm.stock={needed}",
        *settings[1:],
        "accelerators.h200-sxm.stock=1",
    )
    assert plan_of("chat-70b", *enough, "accelerators.l40s.stock=1").status == "optimal"


def test_a_model_that_fits_nowhere_says_how_much_memory_is_missing():
    plan = plan_of(
        "chat-70b",
        "accelerators=[{id: l40s, price: 1 USD/h}]",
        "policies.tp_degrees=[1]",
        "workloads.chat.precisions=[bf16]",
    )
    assert plan.status == "infeasible"
    (reason,) = plan.infeasibility
    assert "does not fit: weights need" in reason.needs


def test_a_budget_bounds_the_most_goodput():
    plan = plan_of("quickstart", "objective=max_goodput", "limits.budget=12 USD/h")
    assert plan.status == "optimal"
    assert plan.totals.cost_usd_per_hour <= 12
    assert plan.totals.goodput_rps >= plan_of("quickstart").totals.goodput_rps * 0.9999
    (budget,) = [limit for limit in plan.limits if limit.name == "budget"]
    assert budget.used == pytest.approx(plan.totals.cost_usd_per_hour)


def test_deadlines_that_are_far_off_make_a_plan_cheaper_and_not_impossible():
    """104 days for the first token and 10 a token: the product passes what 64 bits hold in ps."""
    loose = plan_of("quickstart", "workloads.chat.slo.ttft=9e6 s", "workloads.chat.slo.tpot=9e5 s")
    assert loose.status == "optimal"
    assert loose.totals.cost_usd_per_hour <= plan_of("quickstart").totals.cost_usd_per_hour
    assert loose.workloads[0].attainment.value > 0.99


@pytest.mark.parametrize("dear", ["1e6 USD/h", "277 USD/s"])
def test_an_accelerator_that_nobody_can_pay_is_as_good_as_none(dear):
    kinds = ("a100-80g-sxm", "h100-sxm", "h200-sxm", "b200-sxm")
    beside = plan_of(
        "quickstart", "accelerators.b200-sxm.price=9.49 USD/h", f"accelerators.l40s.price={dear}"
    )
    offers = ", ".join(
        f"{{id: {kind}, price: {usd} USD/h}}"
        for kind, usd in zip(kinds, (1.79, 2.99, 3.79, 9.49), strict=True)
    )
    without = plan_of("quickstart", f"accelerators=[{offers}]")
    assert beside.status == "optimal"
    assert beside.totals.cost_usd_per_hour == pytest.approx(without.totals.cost_usd_per_hour)


def test_no_time_means_no_plan_and_says_so():
    plan = plan_of("quickstart", "solver.time_limit=1 ms")
    assert plan.status == "unknown"
    assert not plan.evidence.verified
    assert any("time limit" in note for note in plan.evidence.notes)


def test_prompts_beyond_the_context_are_told_by_the_context():
    lengths = "workloads.chat.lengths={prompt: {fixed: 200000}, output: {fixed: 10}}"
    plan = plan_of("quickstart", lengths, "workloads.chat.slo.ttft=1 h")
    assert plan.status == "infeasible"
    (reason,) = plan.infeasibility
    assert reason.limit == "chat: context"
    assert reason.has.startswith("131,072 tokens")
    assert plan.evidence.requests == 0  # physics needs no simulation


def test_a_plan_is_not_lost_when_its_sweep_is_interrupted(monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.planning.answer.sweep_demand", interrupted)
    loaded = load_scenario(shipped("scenarios") / "quickstart.yaml")
    plan = plan_scenario(loaded, effort=EFFORT)
    whole = plan_of("quickstart")
    assert plan.status == "feasible"
    assert plan.evidence.verified
    assert plan.evidence.demand_sweep == ()
    assert [(p.id, p.replicas) for p in plan.pools] == [(p.id, p.replicas) for p in whole.pools]


def test_a_plan_is_simulated_from_another_folder_whatever_its_name(tmp_path, monkeypatch):
    """The trace lies beside the scenario, not beside the plan; ``1e3`` is a number in YAML 1.2."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t.csv").write_text("prompt_tokens,output_tokens\n300,20\n500,30\n")
    text = (shipped("scenarios") / "quickstart.yaml").read_text()
    text = text.replace("histogram: azure-conversation-2023", "trace: t.csv")
    (tmp_path / "in" / "s.yaml").write_text(text.replace("name: Chat on", 'name: "1e3" #'))
    monkeypatch.chdir(tmp_path)
    plan = plan_scenario(load_scenario(Path("in/s.yaml")), effort=EFFORT)
    again = FleetPlan.model_validate_json(dump_json(plan))
    (result,) = simulate_plan(again, effort=EFFORT)
    assert result.verdict == "kept"


def test_every_file_of_a_scenario_is_found_from_another_folder(tmp_path, monkeypatch):
    """In kinds of requests that are mixed, within mixtures of mixtures, and of rates over time."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t.csv").write_text("prompt_tokens,output_tokens\n300,20\n500,30\n")
    (tmp_path / "in" / "r.csv").write_text("window_start_s,requests_per_s\n0,1\n3600,2\n")
    text = (shipped("scenarios") / "quickstart.yaml").read_text()
    kinds = "[{trace: t.csv}, {prompt: {fixed: 9}, output: {fixed: 9}}]"
    mixed = f"mixture: [{{trace: t.csv}}, {{mixture: {kinds}}}]"
    text = text.replace("histogram: azure-conversation-2023", mixed)
    text += "traffic: {profiles: [{series: {file: r.csv}}]}\n"
    (tmp_path / "in" / "s.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    plan = plan_scenario(load_scenario(Path("in/s.yaml")), effort=EFFORT)
    again = FleetPlan.model_validate_json(dump_json(plan))
    (result,) = simulate_plan(again, effort=EFFORT)
    assert result.verdict == "kept"


def test_what_is_lent_was_not_found_in_time_but_the_fleet_was(monkeypatch):
    """The time ends before work that may wait has its units: the fleet for the rest is kept."""

    def over(*_args):
        raise LimitReachedError("over")

    whole = plan_of("overnight")
    monkeypatch.setattr("planner.planning.answer.place_deferred", over)
    plan = plan_scenario(load_scenario(shipped("scenarios") / "overnight.yaml"), effort=EFFORT)
    assert plan.status == "feasible"
    assert not plan.evidence.verified
    assert "work that waits" in plan.evidence.unproven
    assert plan.deferred == ()
    assert plan.totals is not None
    assert [(p.id, p.replicas) for p in plan.pools] == [(p.id, p.replicas) for p in whole.pools]


def test_time_that_ends_while_measuring_still_gives_a_plan_that_says_so(monkeypatch):
    """The clock runs out at the second template: the first makes a fleet, proven or not."""
    measured = []

    def measure(study, template, *args):
        if measured:
            raise LimitReachedError("over")
        measured.append(template.id)
        return measure_frontier(study, template, *args)

    monkeypatch.setattr("planner.planning.column_runs.measure_frontier", measure)
    loaded = load_scenario(shipped("scenarios") / "chat-70b.yaml")
    plan = plan_scenario(loaded, effort=EFFORT)
    assert plan.status == "feasible"
    assert {pool.id for pool in plan.pools} <= set(measured)
    assert plan.evidence.verified == all(w.verdict == "kept" for w in plan.workloads)
    assert any("a limit ended the search" in note for note in plan.evidence.notes)
    assert plan.evidence.unproven.startswith("a limit ended the search")


def test_burstier_arrivals_at_the_same_mean_rate_miss_more_and_cost_more():
    """CV 1 to 3: TTFT's 99 % quantile rises, attainment falls, and another plan needs more."""
    even = plan_of("quickstart")
    sweep = even.evidence.arrival_sweep
    assert [point.arrivals for point in sweep] == ["poisson", "gamma, CV 2", "gamma, CV 3"]
    assert sweep[0].ttft_p99_s["chat"] < sweep[1].ttft_p99_s["chat"] < sweep[2].ttft_p99_s["chat"]
    assert sweep[0].attainment["chat"].low > sweep[2].attainment["chat"].high
    bursty = plan_of("quickstart", "workloads.chat.arrivals={gamma: {rate: 60 req/s, cv: 3}}")
    assert bursty.totals.usd_per_thousand_compliant > even.totals.usd_per_thousand_compliant
    assert sweep[0].accelerators <= sweep[1].accelerators <= sweep[2].accelerators
    (made,) = [d for d in even.decisions if "CV of 3" in d.question]
    assert made.answer.startswith(f"{sweep[2].accelerators} accelerators")
    assert made.numbers["ttft_p99_s_of_chat_at_cv_3"] == sweep[2].ttft_p99_s["chat"]
    assert any("CV of 3" in note for note in bursty.evidence.notes)


def test_a_week_is_planned_for_its_peak_and_shown_in_every_period():
    plan = plan_of("week")
    assert sum(period.share for period in plan.periods) == pytest.approx(1.0)
    rates = [period.workloads[0].offered_rps for period in plan.periods]
    assert rates == sorted(rates, reverse=True)
    mean = sum(p.share * p.workloads[0].offered_rps for p in plan.periods)
    assert mean == pytest.approx(150_000 * 0.1 * 8 / 3600 * 1.1**2)
    assert plan.workloads[0].offered_rps == pytest.approx(1.1 * rates[0])  # the peak factor
    assert all(w.verdict == "kept" for period in plan.periods for w in period.workloads)
    assert any("planned for peak" in note for note in plan.evidence.notes)


def test_a_fleet_for_the_mean_of_a_week_is_smaller_and_breaks_its_promise_at_the_peak():
    mean, peak = plan_of("week", "traffic.plan_for=mean"), plan_of("week")
    assert mean.totals.cost_usd_per_hour < peak.totals.cost_usd_per_hour
    assert mean.periods[0].workloads[0].verdict == "broken"
    assert mean.periods[-1].workloads[0].verdict == "kept"
    assert any("its promise is broken in" in note for note in mean.evidence.notes)


def test_without_the_course_of_a_week_there_are_no_periods():
    assert plan_of("quickstart").periods == ()


def test_a_share_of_requests_beyond_the_context_is_told():
    lengths = "{prompt: {fixed: 200000}, output: {fixed: 10}, weight: 1}"
    mixed = (
        "workloads.chat.lengths={mixture: [{histogram: azure-conversation-2023, weight: 99}, "
        f"{lengths}]}}"
    )
    plan = plan_of("quickstart", mixed)
    (note,) = [n for n in plan.evidence.notes if "longer than the context" in n]
    assert "1.00% of its requests" in note
    assert "they are refused, and count as missed" in note
    assert plan.workloads[0].attainment.high < 0.9901


def test_long_prompts_get_a_pool_of_their_own_and_the_plan_says_what_sharing_costs():
    """In shared replicas short requests miss by the prefill of long ones: most wait behind it."""
    plan = plan_of("long-prompts")
    (decision,) = [d for d in plan.decisions if d.question == "do workloads share replicas"]
    assert decision.answer == "segregated"
    shared = plan_of("long-prompts", "policies.sharing=shared")
    assert shared.totals.cost_usd_per_hour > plan.totals.cost_usd_per_hour
    assert decision.numbers["usd_per_hour_shared"] == pytest.approx(
        shared.totals.cost_usd_per_hour, rel=0.2
    )
    (chat,) = [w for w in shared.workloads if w.id == "chat"]
    waiting = chat.misses.queue + chat.misses.prefill_interference
    assert waiting > 0.6 * (1 - chat.attainment.value) > 0
    by_prefills = waiting + chat.misses.decode_interference
    assert by_prefills > 0.95 * (1 - chat.attainment.value)


@compiled_only
def test_what_assistants_save_by_kept_prefixes_is_told_beside_the_plan_without():
    """The hit rate follows from the simulation; at a rate of 0 the same fleet drowns."""
    plan = plan_of("assistants")
    assert all(pool.prefix_caching for pool in plan.pools)
    (workload,) = plan.workloads
    assert workload.prefix_hits.source == "simulated"
    assert 0.4 < workload.prefix_hits.hit_rate < 0.9
    for pool in plan.pools:
        assert [hits.workload for hits in pool.prefix_hits] == ["assistant"]
    cold = plan.evidence.without_prefix_cache
    assert cold.attainment["assistant"].high < workload.promise
    assert cold.usd_per_hour > plan.totals.cost_usd_per_hour
    (worth,) = [d for d in plan.decisions if d.question == "what is the prefix cache worth"]
    assert worth.numbers["usd_per_hour_saved"] == pytest.approx(
        cold.usd_per_hour - plan.totals.cost_usd_per_hour
    )
    assert worth.answer == f"{worth.numbers['usd_per_hour_saved']:.2f} USD/h"
    off = plan_of("assistants", HIT_RATE_0)
    assert off.totals.cost_usd_per_hour == pytest.approx(cold.usd_per_hour, rel=0.15)


def test_assistants_are_planned_at_a_hit_rate_of_0_with_any_simulator():
    off = plan_of("assistants", HIT_RATE_0)
    assert off.evidence.verified
    assert off.evidence.without_prefix_cache is None
    assert any("prefix_caching is off" in note for note in off.evidence.notes)


def test_a_plan_with_caches_that_a_limit_ended_says_what_mends_it_without_a_compiler(monkeypatch):
    """The time is over at once, whichever simulator there is; the advice depends on it."""
    tiny = Effort(200, RunSize(200, 2, 200), RunSize(200, 2, 200), 200, 200, 2)
    limit = "solver.time_limit=1 ms"
    for compiled in (True, False):
        monkeypatch.setattr(prefixes, "COMPILED", compiled)
        for setting, kept in (("policies.prefix_caching=true", True), (HIT_RATE_0, False)):
            path = shipped("scenarios") / "assistants.yaml"
            plan = plan_scenario(load_scenario(path, (limit, setting)), effort=tiny)
            assert plan.status == "unknown"
            advice = [note for note in plan.evidence.notes if HIT_RATE_0 in note]
            assert len(advice) == (kept and not compiled)
            assert all("C++17 compiler" in note for note in advice)


def test_a_hit_rate_of_0_is_the_plan_without_a_cache_to_the_bit():
    nothing = plan_of("quickstart", "workloads.chat.prefix={hit_rate: 0}").model_dump()
    without = plan_of("quickstart").model_dump()
    for document in (nothing, without):
        document.pop("scenario")
        document["evidence"].pop("notes")
    assert nothing == without


@compiled_only
def test_an_assumed_hit_rate_is_marked_and_saves():
    plan = plan_of("chat-70b", "workloads.chat.prefix={hit_rate: 50 %}")
    (workload,) = plan.workloads
    assert workload.prefix_hits.source == "assumed constant"
    assert workload.prefix_hits.hit_rate == pytest.approx(0.5, abs=0.02)
    assert plan.totals.cost_usd_per_hour <= plan_of("chat-70b").totals.cost_usd_per_hour
    assert any("is ASSUMED" in note for note in plan.evidence.notes)
