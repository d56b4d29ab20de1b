"""Demand by users and over time, from the command line."""

from __future__ import annotations

import json

import pytest

from planner.cli import main
from planner.data import shipped
from planner.planning import relaxing

USERS = "workloads.chat.arrivals.closed_loop.users"
THINK = "workloads.chat.arrivals.closed_loop.think_time.mean"


def planned(capsys, path, *words: str) -> dict:
    assert main(["plan", str(path), "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


# --- users who wait --------------------------------------------------------------------------


def test_users_who_wait_are_planned_and_replayed(tmp_path, capsys):
    path = tmp_path / "plan.json"
    plan = planned(capsys, shipped("scenarios") / "users.yaml", "-o", str(path))
    assert plan["evidence"]["verified"]
    chat, service = plan["workloads"]
    users = chat["users"]
    assert users["users"] == 600
    cycle = users["think_s"] + users["response_s"]
    assert chat["offered_rps"] * cycle == pytest.approx(600, rel=1e-9)
    slowest = 1 / users["user_rps"] - users["think_s"]
    assert 0.3 < users["response_s"] < slowest  # slower than one token, faster than allowed
    assert service["users"] is None
    assert service["offered_rps"] == pytest.approx(8.0)
    assert plan["totals"]["offered_rps"] == pytest.approx(chat["offered_rps"] + 8.0)
    assert any("600 users ask" in note for note in plan["evidence"]["notes"])
    assert main(["simulate", str(path), "--seed", "7", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    rows = again["workloads"] if isinstance(again, dict) else again
    assert rows[0]["offered_rps"] == pytest.approx(chat["offered_rps"], rel=0.02)


def one_pool(tmp_path):
    text = (shipped("scenarios") / "users.yaml").read_text()
    first, rest = text.index("  - id: service"), text.index("accelerators:")
    path = tmp_path / "chat.yaml"
    path.write_text(text[:first] + text[rest:])
    return path


def test_few_users_get_the_time_of_an_empty_replica(tmp_path, capsys):
    """Two users hardly meet: their rate is 2 / (Z + R) with R that of a lone request."""
    path = one_pool(tmp_path)
    plan = planned(capsys, path, "--set", f"{USERS}=2")
    (chat,) = plan["workloads"]
    assert plan["totals"]["accelerators"] == 1
    lone = chat["ttft_s"]["p50"] + 210 * chat["tpot_s"]["p50"]  # 211 output tokens in the mean
    assert chat["users"]["response_s"] == pytest.approx(lone, rel=0.15)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (f"{USERS}=0", "closed_loop.users"),
        (f"{USERS}=2.5", "closed_loop.users"),
        (f"{THINK}=20", "expected a time with its unit"),
        (f"{THINK}=0 s", "think_time.mean"),
        ("workloads.chat.arrivals.closed_loop.think_time.cv=-1", "think_time.cv"),
        ("workloads.chat.arrivals.closed_loop.thinktime=1", "did you mean 'think_time'?"),
        ("workloads.chat.arrivals.poisson=1 req/s", "poisson and closed_loop are given"),
        ("workloads.chat.prefix.hit_rate=0.5", "simulated without a cache"),
    ],
)
def test_broken_users_are_told(setting, message, capsys):
    path = shipped("scenarios") / "users.yaml"
    assert main(["plan", str(path), "--set", setting]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


# --- prompts short and long ------------------------------------------------------------------

TAIL = shipped("scenarios") / "long-tail.yaml"


def test_a_tail_of_long_prompts_gets_replicas_of_its_own(tmp_path, capsys):
    """1 % of 100k-token prompts: priced with and without, chosen, replayed, and mendable."""
    path = tmp_path / "plan.json"
    plan = planned(capsys, TAIL, "-o", str(path))
    (decision,) = [d for d in plan["decisions"] if d["question"] == "split chat by prompt length"]
    (split,) = plan["splits"]
    at, numbers = split["up_to"], decision["numbers"]
    assert decision["answer"] == f"at {at:,} tokens"
    assert numbers[f"usd_per_hour_split_at_{at}"] == plan["totals"]["cost_usd_per_hour"]
    assert numbers["usd_per_hour_one_pool"] > 1.5 * plan["totals"]["cost_usd_per_hour"]
    missed = numbers["short_requests_missed_in_one_pool"]
    waited = numbers["short_requests_missed_by_waiting_for_prefills_in_one_pool"]
    assert 0.9 * missed < waited <= missed < 0.05
    # The promise is the whole workload's: long prompts miss their TTFT, the others do not.
    (chat,) = plan["workloads"]
    assert chat["verdict"] == "kept"
    assert chat["attainment"]["low"] >= 0.95
    assert chat["attainment"]["value"] < 0.9901
    assert sum(x["share"] for x in chat["routing"]) == pytest.approx(1.0)
    short, long = split["parts"]
    assert short["share"] * short["promise"] + long["share"] * long["promise"] >= 0.95 - 1e-9
    assert main(["simulate", str(path), "--seed", "9"]) == 0
    assert "kept" in capsys.readouterr().out
    broken = json.loads(path.read_text())
    broken["splits"][0]["workload"] = "talk"
    path.write_text(json.dumps(broken))
    assert main(["simulate", str(path)]) == 2
    assert "splits: talk: no such workload" in capsys.readouterr().err


def test_a_split_that_does_not_pay_is_priced_and_left(capsys):
    """At 0.2 req/s one replica does for all; two pools would need two."""
    plan = planned(capsys, TAIL, "--set", "workloads.chat.arrivals.poisson=0.2 req/s")
    (decision,) = [d for d in plan["decisions"] if d["question"] == "split chat by prompt length"]
    assert decision["answer"] == "no"
    assert plan["splits"] == []
    assert plan["totals"]["accelerators"] == 1
    priced = [x for name, x in decision["numbers"].items() if name.startswith("usd_per_hour_split")]
    assert priced
    assert min(priced) >= decision["numbers"]["usd_per_hour_one_pool"]


@pytest.fixture
def no_relaxations(monkeypatch):
    """Leave out the search for changes that would mend a question; it takes minutes of plans."""
    monkeypatch.setattr(relaxing, "with_relaxations", lambda loaded, answer, **_: answer)


def test_too_small_a_stock_is_told_for_a_fleet_with_a_split_too(no_relaxations, capsys):
    """Four accelerators are one too few with long prompts apart, and more without."""
    words = ("--set", "accelerators.h100-sxm.stock=4")
    assert main(["plan", str(TAIL), "--json", *words]) == 3
    plan = json.loads(capsys.readouterr().out)
    whole, apart = plan["infeasibility"]
    assert whole["limit"] == apart["limit"] == "stock of h100-sxm"
    assert "in replicas of their own" in apart["remedy"]
    assert apart["needs"] == "5 accelerators"
    assert int(whole["needs"].split()[0]) > 5


def test_who_wants_shared_replicas_is_not_offered_a_split(capsys):
    settings = ("policies.sharing=shared", "workloads.chat.arrivals.poisson=0.2 req/s")
    plan = planned(capsys, TAIL, *(word for s in settings for word in ("--set", s)))
    assert not [d for d in plan["decisions"] if "by prompt length" in d["question"]]


# --- work that may wait ----------------------------------------------------------------------

NIGHT = shipped("scenarios") / "overnight.yaml"
WINDOW = "workloads.index.completion_window"


def test_work_that_may_wait_fills_the_valleys(capsys):
    """The fleet for the chat's peak carries the index too; not at the peak, but in its window."""
    plan = planned(capsys, NIGHT)
    (index,) = plan["deferred"]
    assert plan["evidence"]["verified"]
    assert index["served_rps"] == pytest.approx(index["offered_rps"]) == pytest.approx(12.0)
    shares = {p["id"]: p["share"] for p in plan["periods"]}
    done = sum(shares[p["id"]] * p["served_rps"] for p in index["periods"])
    assert done == pytest.approx(12.0, rel=1e-6)
    assert index["most_waiting"] <= 12.0 * index["window_s"] * (1 + 1e-6)
    busiest = plan["periods"][0]["id"]
    assert busiest not in [p["id"] for p in index["periods"]]
    for period in index["periods"]:
        assert period["verdict"] == "kept"
        assert period["attainment"]["low"] >= index["promise"]
        assert 0 < sum(period["units"].values()) < plan["totals"]["accelerators"]
    for period in plan["periods"]:
        assert all(w["verdict"] == "kept" for w in period["workloads"])
    (said,) = [d for d in plan["decisions"] if d["question"] == "when is index done"]
    assert said["numbers"]["usd_per_hour_added"] == 0
    assert said["numbers"]["usd_per_hour_on_replicas_of_its_own"] > 0
    # The fleet is the one of the chat alone.
    assert [w["id"] for w in plan["workloads"]] == ["chat"]


def test_more_work_than_the_valleys_hold_adds_units_but_fewer_than_its_own(capsys):
    plan = planned(capsys, NIGHT, "--set", "workloads.index.arrivals.poisson=60 req/s")
    (said,) = [d for d in plan["decisions"] if d["question"] == "when is index done"]
    added = said["numbers"]["usd_per_hour_added"]
    assert 0 < added < said["numbers"]["usd_per_hour_on_replicas_of_its_own"]
    assert sum(line["usd_per_hour"] for line in plan["bill"]) == pytest.approx(
        plan["totals"]["cost_usd_per_hour"]
    )
    assert plan["evidence"]["verified"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("window: 24 h", "window: 24"), "completion_window: expected a time with its unit"),
        (("window: 24 h", "window: -1 h"), "completion_window"),
        (("window: 24 h", "window: 10 min"), "shorter than the windows of the traffic"),
        (("    completion_window: 24 h\n    lengths", "    completion_windows: 24 h\n    lengths"),
         "did you mean 'completion_window'?"),
        (("{poisson: 60 req/s}\n", "{poisson: 60 req/s}\n    completion_window: 24 h\n"),
         "some workload must not wait"),
        (("  - id: index\n    model: llama-3.1-8b", "  - id: index\n    model: llama-3.1-70b"),
         "no other workload runs"),
        (("arrivals: {poisson: 12 req/s}",
          "arrivals: {closed_loop: {users: 5, think_time: {mean: 1 s}}}"),
         "users and sessions do not wait"),
    ],
)  # fmt: skip
def test_broken_windows_are_told(change, message, tmp_path, capsys):
    text = NIGHT.read_text()
    path = tmp_path / "bad.yaml"
    path.write_text(text.replace(*change, 1))
    assert path.read_text() != text
    assert main(["plan", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_window_without_traffic_is_told(tmp_path, capsys):
    text = NIGHT.read_text()
    path = tmp_path / "bad.yaml"
    path.write_text(text[: text.index("traffic:")] + text[text.index("accelerators:") :])
    assert main(["check", str(path)]) == 2
    assert ":14:5: workloads.1.completion_window: needs traffic" in capsys.readouterr().err


def test_no_room_at_all_is_infeasible(no_relaxations, capsys):
    """Stock for the chat's peak alone; the index brings more than its valleys hold."""
    settings = ("accelerators.h100-sxm.stock=6", "workloads.index.arrivals.poisson=200 req/s")
    words = [word for s in settings for word in ("--set", s)]
    assert main(["plan", str(NIGHT), "--json", *words]) == 3
    plan = json.loads(capsys.readouterr().out)
    window, stock = plan["infeasibility"]
    assert window["limit"] == "completion_window of index"
    assert "\n" not in window["fastest_reachable"]
    assert (stock["limit"], stock["has"]) == ("stock of h100-sxm", "6 accelerators")
    assert stock["remedy"].startswith("a stock of ")


def test_work_that_waits_is_no_unknown_workload_to_capacity(capsys):
    assert main(["capacity", str(NIGHT), "--workload", "index"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("--workload index: waits for units")
    assert "completion_window" in message


def test_decisions_do_not_count_units_that_were_added_for_work_that_waits(tmp_path, capsys):
    """Prompts that share a beginning, two accelerators to choose from, and too small valleys."""
    text = NIGHT.read_text().replace(
        "    slo: {ttft: 1 s", "    prefix: {system_prompt: 200 tokens}\n    slo: {ttft: 1 s"
    )
    text = text.replace("objective:", "  - {id: h200-sxm, price: 3.79 USD/h}\nobjective:")
    path = tmp_path / "night.yaml"
    path.write_text(text)
    settings = (
        "workloads.index.arrivals.poisson=60 req/s",
        "policies.tp_degrees=[1]",
        "policies.max_num_seqs=[256]",
        "policies.max_num_batched_tokens=[2048]",
    )
    plan = planned(capsys, path, *(word for s in settings for word in ("--set", s)))
    said = {d["question"]: d["numbers"] for d in plan["decisions"]}
    added = said["when is index done"]["usd_per_hour_added"]
    assert added > 0
    alone = plan["totals"]["cost_usd_per_hour"] - added
    assert said["which accelerator"]["usd_per_hour"] == pytest.approx(alone)
    cache = said["what is the prefix cache worth"]
    assert cache["usd_per_hour"] == pytest.approx(alone)
    assert cache["usd_per_hour_saved"] >= 0  # what is found need not be computed


# --- users beside prefixes -------------------------------------------------------------------


def test_prompts_beside_users_who_wait_are_computed_whole_and_the_plan_says_so(tmp_path, capsys):
    text = (shipped("scenarios") / "users.yaml").read_text()
    path = tmp_path / "users.yaml"
    shares = "    prefix: {system_prompt: 200 tokens}\n    slo: {ttft: 2 s"
    path.write_text(text.replace("    slo: {ttft: 2 s", shares))
    settings = ("policies.tp_degrees=[1]", "policies.sharing=shared", "policies.max_num_seqs=[256]")
    plan = planned(capsys, path, *(word for s in settings for word in ("--set", s)))
    assert plan["evidence"]["verified"]
    assert [pool["prefix_caching"] for pool in plan["pools"]] == [False]
    service = plan["workloads"][1]
    assert service["prefix_hits"] is None
    assert service["misses"] is not None  # somebody kept account
    assert any("service: shares replicas with users" in note for note in plan["evidence"]["notes"])
    assert plan["evidence"]["without_prefix_cache"] is None


# --- demand that is not known ----------------------------------------------------------------

LAUNCH = shipped("scenarios") / "launch.yaml"


def test_promises_hold_in_the_share_of_the_weight_that_is_asked_for(tmp_path, capsys):
    """90 % of the weight: the 5 % of a fourfold demand is let go, the 10 % of a double chat not."""
    path = tmp_path / "plan.json"
    plan = planned(capsys, LAUNCH, "-o", str(path))
    assert plan["evidence"]["verified"]
    assert plan["planned_multiples"] == {"chat": 2.0, "summaries": 1.0}
    assert plan["evidence"]["promise_kept_in"] == pytest.approx(0.95)
    found = {s["id"]: s for s in plan["demand_scenarios"]}
    assert sum(s["weight"] for s in found.values()) == pytest.approx(1.0)
    for name in ("forecast", "slow", "press"):
        assert found[name]["planned_for"]
        assert set(found[name]["verdicts"].values()) == {"kept"}
        assert all(x["low"] >= 0.95 for x in found[name]["attainment"].values())
    assert not found["viral"]["planned_for"]
    assert set(found["viral"]["verdicts"].values()) == {"broken"}
    # The fleet is that of twice the chat, by another way.
    assert plan["workloads"][0]["offered_rps"] == pytest.approx(80.0)
    assert main(["simulate", str(path), "--seed", "3"]) == 0
    assert "80.0 req/s" in capsys.readouterr().out


def test_a_part_of_a_user_is_a_whole_one_in_the_books(tmp_path, capsys):
    """Three users, and 1.43 times as many: five of them, not 4.3 who ask and four who are told."""
    path = one_pool(tmp_path)
    path.write_text(
        path.read_text() + "uncertainty: {scenarios: [{id: more, weight: 1, multiple: 1.43}]}\n"
    )
    plan = planned(capsys, path, "--set", f"{USERS}=3")
    (chat,) = plan["workloads"]
    assert chat["users"]["users"] == 5
    cycle = chat["users"]["think_s"] + chat["users"]["response_s"]
    assert chat["offered_rps"] == pytest.approx(5 / cycle)


@pytest.mark.parametrize(
    ("rate", "multiple", "came_to"),
    [("1e7 req/s", 1000, "1e+10"), ("0.001 req/s", 0.0005, "5e-07")],
)
def test_multiples_stay_within_the_bounds_of_rates(rate, multiple, came_to, capsys):
    changes = (
        f"workloads.chat.arrivals.poisson={rate}",
        f"uncertainty.scenarios.viral.multiple={multiple}",
    )
    assert main(["check", str(LAUNCH), *(w for c in changes for w in ("--set", c))]) == 2
    message = capsys.readouterr().err
    assert f"uncertainty.scenarios.3: chat is planned for {came_to} req/s" in message


def test_a_fleet_that_keeps_too_little_of_the_weight_says_why_it_is_not_proven(monkeypatch, capsys):
    monkeypatch.setattr("planner.planning.document.kept_share", lambda _results: 0.85)
    assert main(["plan", str(LAUNCH), "--json"]) == 4
    out, err = capsys.readouterr()
    plan = json.loads(out)
    assert not plan["evidence"]["verified"]
    assert plan["evidence"]["unproven"].startswith("every promise is kept in 85.0%")
    assert "90.0% are asked for" in err


def test_a_scenario_of_the_same_demand_changes_nothing_but_says_so(tmp_path, capsys):
    text = LAUNCH.read_text()
    path = tmp_path / "known.yaml"
    known = text[: text.index("uncertainty:")] + text[text.index("accelerators:") :]
    path.write_text(known)
    without = planned(capsys, path)
    assert without["evidence"]["promise_kept_in"] is None
    path.write_text(known + "uncertainty: {scenarios: [{id: forecast, weight: 3}]}\n")
    plan = planned(capsys, path)
    assert plan["pools"] == without["pools"]
    assert plan["evidence"]["promise_kept_in"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("keep: 90 %", "keep: 0 %"), "uncertainty.keep"),
        (("keep: 90 %", "keep: 110 %"), "uncertainty.keep"),
        (("weight: 25", "weight: 0"), "uncertainty.scenarios.1.weight"),
        (("multiple: 0.5", "multiple: -1"), "uncertainty.scenarios.1.multiple"),
        (
            ("{chat: 2}", "{chats: 2}"),
            "no workload 'chats' that is planned for; did you mean 'chat'",
        ),
        (("id: slow", "id: forecast"), "'forecast' is given twice"),
        (("weight: 60", "wait: 60"), "did you mean 'weight'?"),
        (("  scenarios:", "  scenarioes:"), "did you mean 'scenarios'?"),
    ],
)
def test_broken_scenarios_of_demand_are_told(change, message, tmp_path, capsys):
    path = tmp_path / "bad.yaml"
    path.write_text(LAUNCH.read_text().replace(*change, 1))
    assert path.read_text() != LAUNCH.read_text()
    assert main(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
