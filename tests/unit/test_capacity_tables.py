"""Plans by measured capacities: answers worked out by hand, and every mistake with its place."""

from __future__ import annotations

import json

import pytest

import planner
from planner.errors import InputError, LimitReachedError
from planner.explanation.why import explain_plan
from planner.planning import simulate_plan
from planner.scenario.load import load_question, load_scenario
from planner.spec import dump_json, dump_yaml
from tests.capacity_tables import HAND, write

OFFERS = "accelerators=[{id: big, price: 3 USD/h}, {id: small, price: 1 USD/h}]"
INLINE = """\
format_version: "1.0"
name: Inline
objective: min_cost
capacity_tables:
  buckets:
    - {id: short, rate: 6 req/s}
    - {id: long, input_tokens: 8000, rate: 2 req/s}
  templates:
    - {accelerator: big, capacity: {short: 12 req/s, long: 1 req/s}}
    - {accelerator: big, devices: 2, capacity: {long: 240 req/min}}
accelerators:
  - {id: big, price: 3 USD/h}
"""


def table_plan(folder, *settings, **changes):
    return planner.plan(planner.load_table(write(folder / "t.json", **changes), settings))


def inline_plan(folder, *settings, text=INLINE):
    path = folder / "s.yaml"
    path.write_text(text)
    return planner.plan(planner.load(path, settings))


def units(plan):
    return {u.template: u.units for u in plan.capacity_table.units}


def test_the_table_of_the_example(tmp_path):
    plan = table_plan(tmp_path)
    assert plan.status == "optimal"
    assert plan.totals.cost_usd_per_hour == 6.0
    assert units(plan) in ({"big": 2}, {"big": 1, "small": 3})
    assert plan.totals.offered_rps == pytest.approx(10.0)
    assert plan.totals.attainment == 1.0
    assert [(b.id, b.offered_rps) for b in plan.capacity_table.buckets] == [
        ("in128-out64", 5.0),
        ("in1024-out64", 2.0),
        ("in128-out256", 1.0),
        ("in1024-out256", 2.0),
    ]
    (last,) = [b for b in plan.capacity_table.buckets if b.id == "in1024-out256"]
    assert [(r.template, r.share) for r in last.routing] == [("big", 1.0)]


def test_the_plan_says_that_nothing_was_simulated_and_is_not_verified(tmp_path):
    plan = table_plan(tmp_path, origin="a bench")
    assert plan.capacity_table.provenance == "measured capacity table; not simulated"
    assert plan.capacity_table.source.endswith("t.json (a bench)")
    assert plan.evidence.verified is False
    assert plan.evidence.requests == 0
    assert any(
        "not verified" in note and "nothing was simulated" in note for note in plan.evidence.notes
    )
    assert plan.pools == ()
    with pytest.raises(InputError, match="no curve to simulate"):
        simulate_plan(plan)


def test_a_table_without_edges_names_rows_and_columns(tmp_path):
    plan = table_plan(tmp_path, grid=None)
    assert [b.id for b in plan.capacity_table.buckets][:2] == ["row1-col1", "row1-col2"]
    assert plan.capacity_table.buckets[0].input_tokens is None


def test_only_whole_units_are_paid(tmp_path):
    """Half of one big unit's time is demanded: it is paid whole."""
    plan = table_plan(tmp_path, "capacity_tables.rate=2.5 req/s")
    assert plan.totals.cost_usd_per_hour == 3.0
    assert units(plan) == {"big": 1}
    assert plan.capacity_table.units[0].busy_units == pytest.approx(0.5)


def test_a_load_that_fills_units_to_the_last_digit_takes_no_more(tmp_path):
    """Three times 0.1 / 0.3 is above one in floats; it is one unit all the same."""
    plan = table_plan(
        tmp_path,
        gpu_info={"g": {"cost": 1.0, "tputs": [[0.3, 0.3, 0.3]]}},
        workload_distribution=[[1 / 3, 1 / 3, 1 / 3]],
        total_request_rate=0.3,
        grid=None,
    )
    assert units(plan) == {"g": 1}


def test_demand_per_bucket_takes_the_place_of_the_files(tmp_path):
    demand = "capacity_tables.buckets=[{id: in1024-out64, rate: 12 req/s}]"
    plan = table_plan(tmp_path, demand, workload_distribution=None, total_request_rate=None)
    assert [b.id for b in plan.capacity_table.buckets] == ["in1024-out64"]
    assert plan.totals.cost_usd_per_hour == 6.0  # 12 req/s: 2 big, or 6 small, or 1 and 3


def test_stock_moves_the_load_to_another_accelerator(tmp_path):
    limited = OFFERS.replace("3 USD/h", "3 USD/h, stock: 1")
    plan = table_plan(tmp_path, limited)
    assert units(plan) == {"big": 1, "small": 3}
    (limit,) = plan.limits
    assert (limit.name, limit.used, limit.limit) == ("stock of big", 1.0, 1.0)
    assert limit.shadow_price_usd_per_hour == pytest.approx(0.0, abs=1e-6)


def test_prices_and_choice_of_the_scenario_take_the_place_of_the_files(tmp_path):
    dear = table_plan(tmp_path, OFFERS.replace("3 USD/h", "9 USD/h"))
    assert units(dear) == {"big": 1, "small": 3}
    assert dear.totals.cost_usd_per_hour == 12.0
    only = table_plan(tmp_path, "accelerators=[{id: big, price: 3 USD/h}]")
    assert units(only) == {"big": 2}
    assert [(r.template, r.reason) for r in only.rejected] == [
        ("small", "in the table, but not offered")
    ]


def test_a_price_of_the_catalogue(tmp_path):
    info = {"h100-sxm": HAND["gpu_info"]["big"]}
    offer = "accelerators=[{id: h100-sxm, price_from: {provider: aws, region: us-east-1}}]"
    stated = planner.plan(
        planner.load_table(write(tmp_path / "t.json", gpu_info=info), [offer])
    ).supply[0]
    assert stated.count == 2
    assert stated.usd_per_hour > 0
    assert stated.price_source.startswith("AWS us-east-1 on-demand")


def test_a_bucket_that_nothing_serves_is_told_with_the_reason(tmp_path):
    only = "accelerators=[{id: small, price: 1 USD/h}]"
    plan = table_plan(tmp_path, only)
    assert plan.status == "infeasible"
    (reason,) = plan.infeasibility
    assert reason.limit == "in1024-out256: capacity"
    assert reason.has == "0 req/s on every accelerator (small)"
    assert reason.needs == "2 req/s"
    assert "however few of them come" in reason.fastest_reachable
    assert "copies of the same cannot help" in reason.remedy


def test_a_size_that_nothing_serves_and_of_which_none_come_is_no_hindrance(tmp_path):
    only = "accelerators=[{id: small, price: 1 USD/h}]"
    plan = table_plan(tmp_path, only, workload_distribution=[[0.5, 0.3], [0.2, 0]])
    assert units(plan) == {"small": 5}  # 5/5 + 3/2 + 2/1 = 4.5


@pytest.mark.parametrize(
    ("setting", "limit", "needs"),
    [
        ("limits.budget=5 USD/h", "limits.budget", "6 USD/h"),
        ("accelerators=[{id: big, price: 3 USD/h, stock: 1}]", "stock of big", "2 accelerators"),
    ],
)
def test_a_limit_in_the_way_is_told_with_how_much_would_do(setting, limit, needs, tmp_path):
    plan = table_plan(tmp_path, setting)
    assert plan.status == "infeasible"
    (reason,) = plan.infeasibility
    assert (reason.limit, reason.needs) == (limit, needs)


def test_the_most_goodput_of_a_budget_turns_away_what_costs_most(tmp_path):
    """5 USD/h buy one big and two small: 5/5 + 2/2 of the small, 1/4 of the big, and what is
    left of that carries 0.75 x 2 req/s of the last size; half a req/s of it is turned away."""
    settings = ("capacity_tables.shed_limit=50 %", "limits.budget=5 USD/h", "objective=max_goodput")
    plan = table_plan(tmp_path, *settings)
    assert plan.status == "optimal"
    assert units(plan) == {"big": 1, "small": 2}
    served = {b.id: b.served_rps for b in plan.capacity_table.buckets}
    assert served["in1024-out256"] == pytest.approx(1.5)
    assert plan.totals.goodput_rps == pytest.approx(9.5)


def test_the_best_ratio_may_turn_away_within_the_limit(tmp_path):
    all_served = table_plan(tmp_path, "objective=max_goodput_per_usd")
    assert all_served.objective.value == pytest.approx(10 * 3600 / 6)
    shed = table_plan(tmp_path, "objective=max_goodput_per_usd", "capacity_tables.shed_limit=30 %")
    assert shed.objective.value > all_served.objective.value
    assert shed.totals.compliant_requests_per_usd == pytest.approx(shed.objective.value, rel=1e-6)


@pytest.mark.parametrize("stop", [LimitReachedError("over"), KeyboardInterrupt()])
def test_work_that_was_ended_before_any_fleet_gives_a_document_that_says_so(
    stop, tmp_path, monkeypatch
):
    def ended(*_args, **_settings):
        raise stop

    monkeypatch.setattr("planner.planning.table_program.choose", ended)
    plan = table_plan(tmp_path)
    assert plan.status == "unknown"
    assert any("time limit passed" in note for note in plan.evidence.notes)


def test_an_inline_table_with_pairs_of_accelerators(tmp_path):
    """6/12 of a big and 2/4 of a pair: 3 + 6 USD/h; by singles alone 1/2 + 2, so 3 of them."""
    plan = inline_plan(tmp_path)
    assert plan.totals.cost_usd_per_hour == 9.0
    dear = inline_plan(tmp_path, "accelerators.big.stock=3")
    assert dear.totals.accelerators == 3
    assert inline_plan(tmp_path, "accelerators.big.stock=2").status == "infeasible"
    cheap = inline_plan(tmp_path, "capacity_tables.buckets.short.rate=0 req/s")
    assert cheap.totals.cost_usd_per_hour == 6.0


def test_names_of_any_spelling_are_kept_and_stay_apart(tmp_path):
    big = HAND["gpu_info"]["big"]
    plan = table_plan(tmp_path, gpu_info={"A_100 (80 GB)": big, "A-100 (80 GB)": big | {"cost": 9}})
    assert units(plan) == {"A_100 (80 GB)": 2}
    assert [line.accelerator for line in plan.supply] == ["A_100 (80 GB)"]


def test_the_plan_explains_itself(tmp_path):
    plan = table_plan(tmp_path, OFFERS.replace("1 USD/h", "9 USD/h"))
    (decision,) = plan.decisions
    assert decision.answer == "big"
    assert "small alone cannot serve in1024-out256" in decision.because
    assert explain_plan(plan, "big").chosen == ("big",)
    assert "cannot serve" in explain_plan(plan, "small").rejected[0].reason


def test_the_scenario_of_a_plan_answers_the_same_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "t.json")
    head = 'format_version: "1.0"\nname: By file\ncapacity_tables: {file: t.json}\n'
    (tmp_path / "in" / "s.yaml").write_text(head)
    monkeypatch.chdir(tmp_path)
    plan = planner.plan(planner.load("in/s.yaml"))
    (tmp_path / "again.yaml").write_text(json.dumps(plan.scenario.document))
    again = planner.plan(planner.load("again.yaml"))
    assert json.loads(dump_json(again))["totals"] == json.loads(dump_json(plan))["totals"]
    assert plan.scenario.origins["capacity_tables.file"] == "file"
    assert plan.scenario.origins["solver.gap"] == "default"


def test_a_scenario_with_tables_survives_being_written_and_read(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(INLINE)
    loaded = load_question(path, ["capacity_tables.shed_limit=5 %", "limits.budget=99 USD/h"])
    path.write_text(dump_yaml(loaded.scenario))
    assert load_question(path).scenario == loaded.scenario


def test_what_simulates_refuses_a_table(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(INLINE)
    with pytest.raises(InputError, match=r"s.yaml:4:1: capacity_tables: holds measured"):
        load_scenario(path)
    with pytest.raises(InputError, match="planned with and not simulated"):
        planner.capacity(load_question(path))


FILE_MISTAKES = {
    "a row too short": (
        {"workload_distribution": [[0.5, 0.2], [0.3]]},
        "workload_distribution.1: has 1 columns where the first matrix has 2",
    ),
    "a row too few": (
        {"gpu_info": {"g": {"cost": 1, "tputs": [[1, 2]]}}},
        "gpu_info.g.tputs: has 1 rows where the first matrix has 2",
    ),
    "negative capacity": (
        {"gpu_info": {"g": {"cost": 1, "tputs": [[1, 2], [-3, 4]]}}},
        "gpu_info.g.tputs.1.0: must be at least 0; got -3",
    ),
    "NaN": (
        {"gpu_info": {"g": {"cost": 1, "tputs": [[1, 2], [float("nan"), 4]]}}},
        "gpu_info.g.tputs.1.0: expected a finite number; got nan",
    ),
    "infinity": (
        {"total_request_rate": float("inf")},
        "total_request_rate: expected a finite number; got inf",
    ),
    "text": (
        {"gpu_info": {"g": {"cost": 1, "tputs": [[1, "2"], [3, 4]]}}},
        "gpu_info.g.tputs.0.1: expected a number; got '2'",
    ),
    "free": (
        {"gpu_info": {"g": {"cost": 0, "tputs": [[1, 2], [3, 4]]}}},
        "gpu_info.g.cost: must be above 0; got 0",
    ),
    "shares": (
        {"workload_distribution": [[0.5, 0.2], [0.1, 0.1]]},
        "workload_distribution: the shares sum to 0.9; they must sum to 1",
    ),
    "no load": ({"total_request_rate": 0}, "total_request_rate: must be above 0; got 0"),
    "no capacities": ({"gpu_info": None}, "gpu_info: is missing; known: "),
    "a key of an accelerator": (
        {"gpu_info": {"g": {"costs": 1, "tputs": [[1, 2], [3, 4]]}}},
        "gpu_info.g.cost: is missing; did you mean 'costs'?",
    ),
    "edges": (
        {"grid": {"output_tokens": [64], "input_tokens": [1024, 128]}},
        "grid.output_tokens: expected a list of 2 edges; got 1",
    ),
    "falling edges": (
        {"grid": {"output_tokens": [64, 256], "input_tokens": [1024, 128]}},
        "grid.input_tokens: the edges must rise; sort them, each once",
    ),
    "a capacity that is none": (
        {"gpu_info": {"g": {"cost": 1, "tputs": [[1e-12, 2], [3, 4]]}}},
        "capacity_tables: g sustains 1e-12 req/s of in128-out64, of which 5 req/s come",
    ),
}


@pytest.mark.parametrize(("changes", "message"), FILE_MISTAKES.values(), ids=FILE_MISTAKES)
def test_each_mistake_of_a_file_is_told_with_its_place(changes, message, tmp_path):
    path = write(tmp_path / "t.json", **changes)
    with pytest.raises(InputError) as error:
        planner.plan(planner.load_table(path))
    (line,) = [x for x in str(error.value).split("\n") if message in x]
    assert line.startswith(f"{path}:1:")


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path):
    changes = {
        "gpu_info": {"g": {"cost": -1, "tputs": [[1, 2], [3, None]]}},
        "total_request_rate": "10",
    }
    with pytest.raises(InputError) as error:
        planner.plan(planner.load_table(write(tmp_path / "t.json", **changes)))
    assert len(str(error.value).split("\n")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "t.json:1:2: not JSON: "),
        ("[]", "t.json:1:1: expected keys and values; got a list"),
        ('{"gpu_info": {"g": {}, "g": {}}}', "key 'g' is repeated; keep one"),
        ("[" * 100_000, "not JSON"),
        (
            '{"gpu_info": {"g": {"cost": 1' + "0" * 400 + ', "tputs": [[1]]}}}',
            "gpu_info.g.cost: expected a finite number; got a number beyond all measure",
        ),
    ],
)
def test_what_is_no_table_at_all(text, message, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        planner.plan(planner.load_table(path))
    assert message in str(error.value)


def test_a_file_that_is_not_there_is_told_by_who_named_it(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text('format_version: "1.0"\nname: x\ncapacity_tables:\n  file: none.json\n')
    with pytest.raises(InputError, match=r"s.yaml:4:3: capacity_tables.file: .*no such file"):
        planner.plan(planner.load(path))


SCENARIO_MISTAKES = {
    "shares": (
        ("rate: 6 req/s}", "share: 50 %}"),
        "5:3: capacity_tables.buckets: some buckets have a share and some a rate",
    ),
    "an unknown bucket": (
        ("{short: 12 req/s", "{shrt: 12 req/s"),
        "9:37: capacity_tables.templates.0.capacity.shrt: no such bucket; did you mean 'short'?",
    ),
    "an unknown accelerator": (
        ("- {accelerator: big, capacity", "- {accelerator: bigg, capacity"),
        "9:8: capacity_tables.templates.0.accelerator: 'bigg' is not offered; did you mean 'big'?",
    ),
    "no unit": (
        ("rate: 6 req/s", "rate: 6"),
        "6:19: capacity_tables.buckets.0.rate: expected a rate with its unit",
    ),
    "negative": (
        ("long: 1 req/s", "long: -1 req/s"),
        "9:54: capacity_tables.templates.0.capacity.long: must be at least 0; got '-1 req/s'",
    ),
    "both demands": (
        ("rate: 6 req/s}", "rate: 6 req/s, share: 1}"),
        "6:7: capacity_tables.buckets.0: give either share or rate; both are given",
    ),
    "twice": (
        ("id: long", "id: short"),
        "7:8: capacity_tables.buckets.1.id: 'short' is given twice; rename one",
    ),
    "no prices": (
        ("accelerators:\n  - {id: big, price: 3 USD/h}\n", ""),
        "accelerators: is required with templates; list each accelerator with its price",
    ),
    "a total beside rates": (
        ("  buckets:", "  rate: 3 req/s\n  buckets:"),
        "5:3: capacity_tables.rate: every bucket has a rate of its own; remove this one",
    ),
    "nothing comes": (
        (
            "rate: 6 req/s}\n    - {id: long, input_tokens: 8000, rate: 2 req/s",
            "rate: 0 req/s}\n    - {id: long, input_tokens: 8000, rate: 0 req/s",
        ),
        "5:3: capacity_tables.buckets: every rate is 0; some requests must come",
    ),
    "nothing promised": (
        ("  buckets:", "  shed_limit: 100 %\n  buckets:"),
        "5:3: capacity_tables.shed_limit: must be below 1; got '100 %'",
    ),
    "a file beside": (
        ("  buckets:", "  file: t.json\n  buckets:"),
        "4:1: capacity_tables: give exactly one of file, templates; both are given",
    ),
    "a key that belongs to simulation": (
        ("objective:", "policies: {}\nobjective:"),
        "3:1: policies: unknown key",
    ),
    "the same template twice": (
        ("devices: 2, ", ""),
        "capacity_tables.templates.1.id: 'big' is there twice; give each its own id",
    ),
}


@pytest.mark.parametrize(("change", "message"), SCENARIO_MISTAKES.values(), ids=SCENARIO_MISTAKES)
def test_each_mistake_of_a_scenario_is_told_with_its_place(change, message, tmp_path):
    assert change[0] in INLINE
    with pytest.raises(InputError) as error:
        inline_plan(tmp_path, text=INLINE.replace(*change))
    assert any(message in line for line in str(error.value).split("\n")), str(error.value)
    assert str(tmp_path / "s.yaml") in str(error.value)


def test_shares_of_a_scenario_must_sum_to_one(tmp_path):
    text = INLINE.replace("rate: 6 req/s}", "share: 50 %}").replace("rate: 2 req/s", "share: 40 %")
    with pytest.raises(InputError, match=r"5:3: capacity_tables.buckets: the shares sum to 0.9"):
        inline_plan(tmp_path, "capacity_tables.rate=8 req/s", text=text)
    with pytest.raises(InputError, match=r"capacity_tables.rate: is required with shares"):
        inline_plan(tmp_path, text=text)
    whole = text.replace("40 %", "50 %")
    plan = inline_plan(tmp_path, "capacity_tables.rate=4 req/s", text=whole)
    assert [b.offered_rps for b in plan.capacity_table.buckets] == [2.0, 2.0]
