"""What a person reads of a plan: the answer first, at 100 columns, with nothing interpreted."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from planner.errors import InputError
from planner.explanation.compare import Row, compare_rows
from planner.explanation.pattern import matches, not_considered
from planner.explanation.why import explain_plan
from planner.fleet import TOGETHER, Interval, OneLess
from planner.reporting.comparison import comparison_tables
from planner.reporting.placement import placement_table
from planner.reporting.tables import one_less, plan_table, rejected_by_accelerator
from planner.reporting.why import why_tables
from tests.plans import SCENARIO, infeasible, plan, pool, rejected, workload
from tests.topologies import domain, shape, topology


def text(renderables, width=100):
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(*renderables, sep="\n")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def words(shown):
    return " ".join(shown.split())


def test_the_answer_stands_first():
    """4 x 3 USD/h; 12 USD / (19.4 x 3.6 thousand) = 0.172."""
    lines = text(plan_table(plan())).splitlines()
    assert lines[0] == "Hand made: 4 × h100-sxm, $12.00 per hour"
    assert lines[1] == "  $0.172 per thousand compliant requests"
    assert lines[2].startswith("  19.4 req/s compliant of 20.0 req/s offered (97.0 %)")


def test_everything_that_was_asked_for_is_there():
    shown = words(text(plan_table(plan())))
    for part in (
        "2 × h100-sxm tp2, llama-3.1-8b bf16 20.0 req/s 22.0 req/s 62 %",
        "max_num_seqs 256",
        "least_outstanding",
        "97.0 % (96.5–97.5) 95.0 % kept",
        "chat TTFT 80.0 ms 200 ms 310 ms 620 ms 500 ms",
        "chat TPOT 12.5 ms 19.0 ms 22.2 ms 29.1 ms 30.0 ms",
        "× 1.2 71.0 % (70.5–71.5)",
        "With one unit less chat-h100: chat 41.2 % (40.7–41.7): broken",
        "total $12.00 $8,760",
        "stock h100-sxm 4 4 $0.250 per hour",
        "l40s-tp1-s64 tpot 30 ms: one request alone takes 41 ms a token",
        "llama-3.1-8b/h100-sxm/tp2 step tables 2.3 % inside kernel times only",
        "MFU 31.0 %, reported and not optimised",
        "proven best of 48 candidates",
        "every promise kept in a simulation of 300,000 requests, 3 seeds",
        "prices as given in the scenario",
    ):
        assert part in shown, part


def test_no_line_is_wider_than_the_page():
    long = "a-rather-long-workload-name-as-teams-have-them"
    wide = plan(
        workloads=[workload(id=f"{long}-{i}") for i in range(6)],
        rejected=[rejected(f"h100-sxm-{'x' * 150}", "because " * 60)],
    )
    assert max(map(len, text(plan_table(wide)).splitlines())) <= 100


def test_other_arrivals_and_other_times_are_told_with_their_numbers():
    level = {"value": 0.8, "low": 0.79, "high": 0.81}
    bursty = {
        "arrivals": "gamma, CV 3",
        "attainment": {"chat": level},
        "ttft_p99_s": {"chat": 1.5},
        "accelerators": 6,
    }
    evidence = plan().evidence.model_dump() | {"arrival_sweep": [bursty]}
    night = {
        "id": "weekday 03:00",
        "share": 0.25,
        "workloads": [
            {
                "id": "chat",
                "offered_rps": 4.0,
                "goodput_rps": 3.2,
                "attainment": level,
                "promise": 0.95,
                "verdict": "broken",
            }
        ],
    }
    quiet = {"id": "weekend", "share": 0.75, "workloads": []}
    shown = words(text(plan_table(plan(evidence=evidence, periods=[night, quiet]))))
    assert "gamma, CV 3 6 80.0 % (79.0–81.0), 1.50 s" in shown
    assert "weekday 03:00 25.0 % 4.00 req/s: 80.0 % (79.0–81.0) broken" in shown
    assert "weekend 75.0 % no load" in shown


def test_a_promise_over_time_is_shown_beside_the_load_planned_for():
    level = {"value": 0.92, "low": 0.91, "high": 0.93}
    over = workload(attainment_over="period", attainment_over_time=level)
    gaps = {"p50": 0.02, "p90": 0.03, "p95": 0.05, "p99": 0.21}
    shown = words(text(plan_table(plan(workloads=[over | {"max_itl_s": gaps, "value": 4.0}]))))
    assert "92.0 % (91.0–93.0) over all periods" in shown
    assert "as planned for" in shown
    assert "max ITL 20.0 ms 30.0 ms 50.0 ms 210 ms" in shown


def test_an_unproven_or_unverified_plan_says_so():
    evidence = plan().evidence.model_copy(update={"verified": False}).model_dump()
    shown = words(text(plan_table(plan(status="feasible", evidence=evidence))))
    assert "the best so far of 48 candidates, not proven" in shown
    assert "NOT verified" in shown


def test_an_extrapolated_curve_is_shouted():
    curve = pool()["curve"] | {"extrapolated": True}
    assert "EXTRAPOLATED" in text(plan_table(plan(pools=[pool(curve=curve)])))


def test_the_physical_reason_comes_before_the_remedy():
    lines = text(plan_table(infeasible())).splitlines()
    assert lines[0] == "Hand made: no fleet keeps every promise."
    reason = next(
        i for i, line in enumerate(lines) if "ttft of chat: has 200 ms, needs 218 ms" in line
    )
    remedy = next(i for i, line in enumerate(lines) if "set workloads.chat.slo.ttft" in line)
    assert reason < remedy


@pytest.mark.parametrize(("how", "told"), [("alone", "each alone"), (TOGETHER, "all at once")])
def test_changes_that_help_together_only_are_not_offered_one_by_one(how, told):
    (reason,) = infeasible().infeasibility
    reason = reason.model_copy(update={"remedy": f"a budget of 9 USD/h, {how}"})
    shown = text(plan_table(infeasible().model_copy(update={"infeasibility": (reason, reason)})))
    assert f"What would mend it, {told}" in shown


def test_a_plan_that_was_not_found_says_that_a_limit_ended_the_work():
    unknown = infeasible().model_copy(update={"status": "unknown", "infeasibility": ()})
    assert "a limit ended the work before any plan was found" in text(plan_table(unknown))


def test_words_of_a_document_are_neither_markup_nor_terminal_codes():
    name = "[bold red]x[/] \x1b[31m"
    document = SCENARIO | {"name": name}
    shown = text(plan_table(plan(scenario={"document": document, "origins": {}})))
    assert shown.startswith("[bold red]x[/] \N{REPLACEMENT CHARACTER}[31m: 4 ×")


def test_rejected_templates_are_grouped_by_the_longest_id():
    document = SCENARIO | {"accelerators": [{"id": "l4"}, {"id": "l40s"}]}
    many = plan(
        scenario={"document": document, "origins": {}},
        rejected=[rejected(name, "dearer") for name in ("l40s-tp1", "l4-tp1", "l40s-tp2")],
    )
    groups = rejected_by_accelerator(many)
    assert {k: [x.template for x in v] for k, v in groups.items()} == {
        "l40s": ["l40s-tp1", "l40s-tp2"],
        "l4": ["l4-tp1"],
    }


def test_more_rejected_than_shown_are_counted():
    many = plan(rejected=[rejected(f"l40s-tp1-s{i}", "dearer") for i in range(10)])
    assert "and 8 more: planner explain PLAN" in text(plan_table(many))


def test_why_shows_tight_limits_only():
    why = explain_plan(plan())
    assert [limit.name for limit in why.tight_limits] == ["stock h100-sxm"]
    shown = words(text(why_tables(why)))
    assert "stock h100-sxm: 4 of 4 used; one more is worth $0.250 per hour" in shown
    assert "One pool or one per workload? one pool: there is one workload" in shown


def test_why_not_finds_by_part_of_the_name_in_any_case():
    why = explain_plan(plan(), "L40S")
    assert [x.template for x in why.rejected] == ["l40s-tp1-s64", "l40s-tp2-s64"]
    assert why.chosen == ()
    assert "Left out: 2 templates" in text(why_tables(why))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("h200.tp8", True),
        ("tp8.h200-sxm", True),
        ("h200.chat", True),
        ("h200.tp", False),
        ("h20.tp8", False),
        ("h200.tp80", False),
        ("sxm.tp8.fp8", True),
        ("", False),
    ],
)
def test_a_template_is_found_by_its_parts_in_any_order(asked, found):
    assert matches(asked, "h200-sxm.tp8.fp8.b2048.s256@chat") is found


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("l40s.tp16", "policies.tp_degrees allows 1, 2, not 16"),
        ("s8", "policies.max_num_seqs allows 64, not 8"),
        ("h200", "h200 is not offered; accelerators are h100-sxm, l40s"),
        ("fp4", "no workload accepts fp4; precisions are bf16"),
        ("priority", "policies.scheduling_policy does not allow priority"),
        ("b300.tp1", "b300 is not offered"),
        ("h100.tp2", None),
    ],
)
def test_what_was_not_searched_is_told_with_the_choice_that_keeps_it_out(asked, why):
    scenario = {
        "workloads": [{"precisions": ["bf16"]}],
        "accelerators": [{"id": "h100-sxm"}, {"id": "l40s"}],
        "policies": {"tp_degrees": [1, 2], "max_num_seqs": [64], "scheduling_policy": ["fcfs"]},
    }
    said = not_considered(asked, scenario)
    assert said is None if why is None else said.startswith(why)


def test_why_not_says_what_is_in_the_plan():
    why = explain_plan(plan(), "h100")
    assert why.chosen == ("chat-h100",)
    assert "h100 is in the plan: chat-h100" in text(why_tables(why))


def test_why_not_of_an_unknown_name_offers_the_nearest():
    with pytest.raises(InputError, match=r"--why-not l40-tp1-s64: .*did you mean 'l40s-tp1-s64'"):
        explain_plan(plan(), "l40-tp1-s64")


def test_why_of_an_infeasible_plan_is_the_reason():
    shown = words(text(why_tables(explain_plan(infeasible()))))
    assert shown.startswith("No fleet keeps every promise. ttft of chat: has 200 ms, needs 218 ms")


def test_a_comparison_begins_with_the_verdict():
    one = Row(name="one", rate_rps=1000, attainment=0.98, cost_usd_per_hour=3600)
    two = Row(name="two", rate_rps=1200, attainment=0.70, cost_usd_per_hour=3600)
    shown = text(comparison_tables(compare_rows(one, two)))
    assert shown.startswith("one wins: a compliant request of two is 17 % dearer, although its")
    for part in (
        "compliant goodput 980 req/s 840 req/s",
        "USD per thousand compliant $1.02 $1.19",
        "Here s2/s1 is 0.7143 and the break-even 0.8333.",
        "two draws level with 1400 req/s or more",
    ):
        assert part in words(shown), part


def test_a_unit_less_is_broken_for_a_reason_that_can_be_seen():
    """By a backlog though enough were compliant in the span, and by nobody who would serve."""
    met = {"chat": Interval(value=0.99, low=0.99, high=0.99)}
    grows = OneLess(pool="p", attainment=met, verdict="broken", unstable=True)
    assert one_less(grows) == "p: chat 99.0 % (99.0–99.0): broken, as a backlog grows without end"
    nobody = OneLess(pool="p", attainment={}, verdict="broken")
    assert one_less(nobody) == "p: some workload would be served by nobody: broken"


def test_empty_racks_that_are_alike_are_told_together():
    """Ten thousand racks are a few rows; where something stands is told rack by rack."""
    racks = [domain("z", f"r{n}", 8) for n in range(50)]
    few = [domain("y", f"r{n}", 8, 4) for n in range(3)]
    wide = domain("z", "wide", 8, of=shape("l40s"))
    row = {"pool": pool()["id"], "replica": 0, "devices": (0, 1)}
    place = {"domain": racks[7].id, "node": racks[7].node_name(0)}
    document = plan(topology=topology(*racks, *few, wide).model_dump(), placement=[row | place])
    shown = text(list(placement_table(document)))
    told = [line.split("  ")[0] for line in shown.splitlines() if line.startswith("eu/")]
    assert told == [
        "eu/z, 49 racks like r0", "eu/z r7", "eu/y r0", "eu/y r1", "eu/y r2", "eu/z wide"
    ]  # fmt: skip
    assert "0 of 392 h100-sxm" in shown  # 49 racks of 8
    assert "2 of 8 h100-sxm" in shown
