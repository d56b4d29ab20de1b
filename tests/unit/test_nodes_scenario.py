"""Whole nodes in a scenario: mistakes with their place, what is bought, and what survives."""

from __future__ import annotations

from functools import cache

import pytest

from planner.cli import main
from planner.data import shipped
from planner.fleet import FleetPlan  # noqa: TC001 - cached at run time
from planner.planning import plan_scenario, simulate_plan
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

pytestmark = pytest.mark.minutes_in_plain

SHORT = Effort(6_000, RunSize(24_000, 4, 2_500), RunSize(24_000, 6, 4_000), 192_000, 24_000, 8)

GOOD = """\
format_version: "1.0"
name: Good
workloads:
  - id: chat
    model: llama-3.1-8b
    regions: [eu]
    arrivals: {poisson: 40 req/s}
    lengths: {prompt: {fixed: 500 tokens}, output: {fixed: 100 tokens}}
    slo: {ttft: 500 ms, tpot: 30 ms, attainment: 95 %}
nodes:
  - {id: n1, accelerator: h100-sxm, price: 20 USD/h, zone: a, region: eu}
  - {id: n2, accelerator: h100-sxm, price: 21 USD/h, zone: b, region: eu}
  - {id: n3, accelerator: h100-sxm, price: 10 USD/h, zone: c, region: us}
limits:
  power: [{id: a, limit: 30 kW}]
  spare: {lose: zone, attainment: 90 %}
objective: min_cost
"""

MISTAKES = {
    "both kinds of supply": (
        ("nodes:\n", "accelerators: [{id: h100-sxm, price: 2 USD/h}]\nnodes:\n"),
        "11:1: nodes: accelerators are given too; give one of the two",
    ),
    "a place that is not there": (
        ("{id: a, limit", "{id: d, limit"),
        "15:12: limits.power.0.id: no place 'd'; known: a, b, c, eu, n1, n2, n3, us",
    ),
    "nodes without a zone": (
        (", zone: c", ""),
        "13:5: nodes.2: a zone may be lost (limits.spare), and these nodes name none; add it",
    ),
    "a name of two places": (
        ("zone: b", "zone: n1"),
        "12:54: nodes.1.zone: 'n1' is the name of nodes too; rename one",
    ),
    "a region without nodes": (
        ("regions: [eu]", "regions: [asia]"),
        "6:15: workloads.0.regions.0: no nodes in region 'asia'; known: eu, us",
    ),
    "more than is left": (
        ("attainment: 90 %}", "attainment: 90 %, shed: 20 %}"),
        "16:41: limits.spare.shed: an attainment of 0.9 leaves at most 0.1 to turn away",
    ),
    "too many fail": (
        ("lose: zone", "lose: zone, count: 3"),
        "16:3: limits.spare: 3 of 3 zones may be lost, so nothing is left; offer nodes in another"
        " zone",
    ),
    "no price": (
        ("price: 10 USD/h, ", ""),
        "13:5: nodes.2: give either price or price_from; neither is given",
    ),
    "more free than there is": (
        ("zone: c", "free: [9], zone: c"),
        "13:61: nodes.2.free.0: a node has 8 devices; 9 cannot be free",
    ),
    "no power": (
        ("limit: 30 kW", "limit: 0 W"),
        "15:19: limits.power.0.limit: must be above 0 W",
    ),
    "groups over a link": (
        (
            "objective: min_cost",
            "policies: {disaggregation: {link: {bandwidth: 50 GB/s, latency: 1 ms}}}",
        ),
        "17:12: policies.disaggregation: groups over a link are planned with accelerators only;"
        " leave it out",
    ),
    "no stock": (
        ("price: 10 USD/h", "stock: 0, price: 10 USD/h"),
        "13:37: nodes.2.stock: a stock of 0 offers nothing; leave these nodes out",
    ),
}


@pytest.mark.parametrize(("change", "mistake"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_has_its_place_and_its_mend(change, mistake, tmp_path, capsys):
    path = tmp_path / "s.yaml"
    assert change[0] in GOOD
    path.write_text(GOOD.replace(*change))
    assert main(["check", str(path)]) == 2
    assert f"{path}:{mistake}" in capsys.readouterr().err


def test_the_good_scenario_is_good(tmp_path, capsys):
    path = tmp_path / "s.yaml"
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0
    assert "3 kinds of nodes" in capsys.readouterr().out


@cache
def plan_of(*settings: str, text: str = "") -> FleetPlan:
    if not text:
        loaded = load_scenario(shipped("scenarios") / "spare.yaml", settings)
        return plan_scenario(loaded, effort=SHORT)
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.yaml"
        path.write_text(text)
        return plan_scenario(load_scenario(path, settings), effort=SHORT)


def test_the_survivors_keep_the_floor_when_simulated_by_another_route():
    """Each zone is taken out of the document, and what is left is simulated as a plan."""
    plan = plan_of()
    zones = {d["id"]: d["zone"] for d in plan.scenario.document["nodes"]}
    for zone in sorted(set(zones.values())):
        left = {
            p.id: p.replicas - sum(x.replicas for x in p.places if zones[x.domain] == zone)
            for p in plan.pools
        }
        room = {p.id: left[p.id] * p.capacity_rps.value for p in plan.pools}
        share = {j: x / sum(room.values()) for j, x in room.items() if x}
        pools = tuple(
            p.model_copy(update={"replicas": left[p.id]}) for p in plan.pools if left[p.id]
        )
        (chat,) = plan.workloads
        routing = tuple(
            r.model_copy(update={"share": share[r.pool]}) for r in chat.routing if r.pool in share
        )
        after = plan.model_copy(
            update={"pools": pools, "workloads": (chat.model_copy(update={"routing": routing}),)}
        )
        (result,) = simulate_plan(after, effort=SHORT)
        assert result.attainment.high >= 0.90, zone


def test_what_is_bought_is_whole_and_holds_what_runs():
    plan = plan_of()
    devices = {d["id"]: d["devices"] for d in plan.scenario.document["nodes"]}
    for line in plan.supply:
        assert line.nodes * devices[line.domain] == line.count
        inside = sum(
            x.replicas * p.tp_degree
            for p in plan.pools
            for x in p.places
            if x.domain == line.domain
        )
        assert inside <= line.count
    for pool in plan.pools:
        assert sum(x.replicas for x in pool.places) == pool.replicas
    assert plan.totals.nodes == sum(line.nodes for line in plan.supply)


def test_a_fleet_that_survives_costs_more_and_says_how_much():
    plan = plan_of()
    (said,) = [d for d in plan.decisions if d.question.startswith("what does it cost to survive")]
    bare = plan_of("limits.spare=null")
    cost = plan.totals.cost_usd_per_hour
    assert bare.evidence.failures == ()
    assert said.numbers["usd_per_hour_of_spare"] == pytest.approx(
        cost - bare.totals.cost_usd_per_hour, abs=0.05 * cost
    )
    assert cost > bare.totals.cost_usd_per_hour
    assert {f.verdict for f in plan.evidence.failures} == {"kept"}


def test_regions_and_prices_decide_where_units_stand():
    """The cheapest nodes are in a region where the workload may not be served."""
    text = GOOD.replace("  spare: {lose: zone, attainment: 90 %}\n", "")
    (pool,) = plan_of(text=text).pools
    assert pool.domain == "n1"
    (pool,) = plan_of(text=text.replace("    regions: [eu]\n", "")).pools
    assert pool.domain == "n3"


def test_a_unit_more_than_a_node_is_a_whole_node_and_what_is_empty_is_a_line():
    text = GOOD.replace("  spare: {lose: zone, attainment: 90 %}\n", "")
    plan = plan_of(text=text)
    assert plan.totals.cost_usd_per_hour == 20.0
    (stranded,) = [line for line in plan.bill if line.item.startswith("stranded")]
    used = sum(p.replicas * p.tp_degree for p in plan.pools)
    assert stranded.usd_per_hour == pytest.approx(20.0 * (8 - used) / 8)


def test_too_little_power_names_the_limit_and_what_would_do():
    text = GOOD.replace("  spare: {lose: zone, attainment: 90 %}\n", "").replace(
        "[{id: a, limit: 30 kW}]", "[{limit: 3 kW}]"
    )
    plan = plan_of(text=text)
    assert plan.status == "infeasible"
    (why,) = [x for x in plan.infeasibility if x.limit == "limits.power of everything"]
    assert why.has == "3,000 W"
    assert why.needs == "13,840 W"  # one node of 8 x 1,730 W, the catalogue's all-in power


def test_a_zone_too_few_is_told_as_what_must_be_survived():
    plan = plan_of(text=GOOD.replace("zone: b", "zone: a"))
    assert plan.status == "infeasible"
    assert any("after the loss of a" in x.limit for x in plan.infeasibility)


def test_more_nodes_in_one_zone_do_not_mend_the_loss_of_that_zone():
    """Of two zones alike, each too small alone, more of one leaves the loss of that one."""
    plan = plan_of("nodes.h100-a.stock=1", "nodes.h100-b.stock=1")
    assert plan.status == "infeasible"
    assert not [one for one in plan.infeasibility if one.limit.startswith("stock")]
