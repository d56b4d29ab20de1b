"""Each mistake that the documents alone can catch: exact place, what is wrong, how to mend it."""

from __future__ import annotations

import json

import pytest

from planner.cli import main

GOOD = """\
format_version: "1.0"
name: Good
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 20 req/s}
    lengths:
      prompt: {lognormal: {mean: 1000 tokens, cv: 1}}
      output: {fixed: 250 tokens}
    slo:
      ttft: 500 ms
      tpot: 30 ms
      attainment: 0.95
accelerators:
  - id: h100-sxm
    price: 2.99 USD/h
  - id: l40s
    price: 1.09 USD/h
"""

TIMES = "(s, ms, us, min, h, d)"
RATES = "(req/s, req/min, req/h)"

ONE_CHANGE = {
    "prefix of no form": (
        ("    slo:\n", "    prefix: {}\n    slo:\n"),
        "10:5: workloads.0.prefix: give one of trace, history, hit_rate, or system_prompt with or"
        " without popular; none is given",
    ),
    "prefix of two forms": (
        ("    slo:\n", "    prefix: {history: true, hit_rate: 0.5}\n    slo:\n"),
        "10:29: workloads.0.prefix.hit_rate: give one of trace, history, hit_rate, or"
        " system_prompt with or without popular; history and hit_rate are given",
    ),
    "hit rate above all": (
        ("    slo:\n", "    prefix: {hit_rate: 130 %}\n    slo:\n"),
        "10:14: workloads.0.prefix.hit_rate: must be at most 1; got '130 %'",
    ),
    "uncertainty that says nothing": (
        ("accelerators:\n", "uncertainty: {}\naccelerators:\n"),
        "14:1: uncertainty: says nothing; add scenarios of the demand, robust, or stress",
    ),
    "most cases and scenarios at once": (
        (
            "accelerators:\n",
            "uncertainty:\n  robust: {keep_in: 90 %, demand_cv: 10 %}\n  keep: 90 %\n"
            "accelerators:\n",
        ),
        "16:3: uncertainty.keep: does not go with robust, which has keep_in and demand_cv; keep"
        " one",
    ),
    "a stress that has no name": (
        ("accelerators:\n", "uncertainty: {stress: [level, storm]}\naccelerators:\n"),
        "14:31: uncertainty.stress.1: expected 'level', 'mix', 'lengths', 'bursts', 'client',"
        " 'failover' or 'no_cache'; got 'storm'",
    ),
    "a stress given twice": (
        ("accelerators:\n", "uncertainty: {stress: [level, level]}\naccelerators:\n"),
        "14:31: uncertainty.stress.1: level is given twice; keep one",
    ),
    "a measure of risk that is not known": (
        (
            "accelerators:\n",
            "uncertainty: {robust: {keep_in: 90 %, demand_cv: 10 %, cvar: 95 %}}\naccelerators:\n",
        ),
        "14:56: uncertainty.robust.cvar: unknown key; known: curve_error, demand_cv, keep_in",
    ),
    "groups without a link": (
        ("accelerators:\n", "policies:\n  disaggregation: {max_replicas: 4}\naccelerators:\n"),
        "15:3: policies.disaggregation.link: missing: say what carries KV, or add a topology whose"
        " links do",
    ),
    "groups with a link and a place to meet": (
        (
            "accelerators:\n",
            "policies:\n"
            "  disaggregation: {link: {bandwidth: 1 GB/s, latency: 1 ms}, meet: [rack]}\n"
            "accelerators:\n",
        ),
        "15:62: policies.disaggregation.meet: the link says what carries KV; leave out one of the"
        " two",
    ),
    "groups that meet where nothing is moved": (
        (
            "accelerators:\n",
            "topology: {nodes: [{accelerator: h100-sxm, devices: 8}]}\n"
            "policies:\n  disaggregation: {meet: [region]}\naccelerators:\n",
        ),
        "16:27: policies.disaggregation.meet.0: topology.links.region is not given, so that nothing"
        " is moved; add it",
    ),
    "wrong unit": (
        ("500 ms", "500 MHz"),
        "11:7: workloads.0.slo.ttft: 'MHz' is no unit of time; use one of s, ms, us, min, h, d",
    ),
    "missing unit": (
        ("500 ms", "500"),
        f"11:7: workloads.0.slo.ttft: expected a time with its unit {TIMES}, such as '500 s'; "
        "got 500",
    ),
    "typo of a key": (
        ("attainment:", "atainment:"),
        "13:7: workloads.0.slo.atainment: unknown key; did you mean 'attainment'?",
    ),
    "typo of a required key, told once": (
        ("tpot:", "tpto:"),
        "12:7: workloads.0.slo.tpto: unknown key; did you mean 'tpot'?",
    ),
    "missing key": (
        ("      tpot: 30 ms\n", ""),
        "10:5: workloads.0.slo.tpot: is required; add it",
    ),
    "duplicate key": (
        ("name: Good", "name: Good\nname: Better"),
        "3:1: name: key is repeated (first on line 2); keep one",
    ),
    "NaN": (
        ("cv: 1", "cv: .nan"),
        "8:47: workloads.0.lengths.prompt.lognormal.cv: "
        "expected a finite number; NaN and infinity are none; got nan",
    ),
    "infinity": (
        ("20 req/s", ".inf"),
        f"6:16: workloads.0.arrivals.poisson: expected a rate with its unit {RATES}, "
        "such as '1 req/s'; got inf",
    ),
    "more than a float holds": (
        ("20 req/s", "1e400 req/s"),
        "6:16: workloads.0.arrivals.poisson: '1e400 req/s' is too large to be a rate",
    ),
    "a whole number beyond floats": (
        ("1000 tokens", "1" + 400 * "0"),
        "8:28: workloads.0.lengths.prompt.lognormal.mean: "
        "expected a finite number; NaN and infinity are none; got a number beyond all measure",
    ),
    "a whole number of thousands of digits": (
        ("cv: 1}", "cv: " + 5000 * "9" + "}"),
        "8:47: workloads.0.lengths.prompt.lognormal.cv: "
        "expected a finite number; NaN and infinity are none; got a number beyond all measure",
    ),
    "a deadline beyond ten years": (
        ("500 ms", "1e12 s"),
        "11:7: workloads.0.slo.ttft: must be at most 315,360,000; got '1e12 s'",
    ),
    "a deadline beyond ten years, in days": (
        ("500 ms", "4000 d"),
        "11:7: workloads.0.slo.ttft: must be at most 315,360,000 s; got '4000 d'",
    ),
    "a price that nobody pays": (
        ("2.99 USD/h", "1e7 USD/h"),
        "16:5: accelerators.0.price: must be at most 1,000,000; got '1e7 USD/h'",
    ),
    "a price of nothing": (
        ("2.99 USD/h", "1e-300 USD/h"),
        "16:5: accelerators.0.price: must be at least 1e-06; got '1e-300 USD/h'",
    ),
    "less than a token": (
        ("250 tokens", "1e-300 tokens"),
        "9:16: workloads.0.lengths.output.fixed: must be at least 1; got '1e-300 tokens'",
    ),
    "negative": (
        ("2.99 USD/h", "-2.99 USD/h"),
        "16:5: accelerators.0.price: must be above 0; got '-2.99 USD/h'",
    ),
    "zero demand": (
        ("20 req/s", "0 req/s"),
        "6:16: workloads.0.arrivals.poisson: must be above 0; got '0 req/s'",
    ),
    "hardly any demand": (
        ("20 req/s", "1e-300 req/s"),
        "6:16: workloads.0.arrivals.poisson: must be at least 1e-06; got '1e-300 req/s'",
    ),
    "more demand than there are people": (
        ("20 req/s", "1e30 req/s"),
        "6:16: workloads.0.arrivals.poisson: must be at most 1,000,000,000; got '1e30 req/s'",
    ),
    "steps too short for any number of sequences": (
        ("accelerators:", "policies: {max_num_batched_tokens: [16, 32]}\naccelerators:"),
        "14:12: policies.max_num_batched_tokens: no max_num_seqs (64 at least) is within"
        " max_num_batched_tokens (32 at most), as the engine demands; allow a max_num_seqs of 32"
        " or fewer",
    ),
    "a list beyond all search": (
        ("accelerators:", f"policies: {{max_num_seqs: {list(range(1, 40))}}}\naccelerators:"),
        "14:12: policies.max_num_seqs: has more entries (39) than the 32 that are searched;"
        " leave some out",
    ),
    "empty list": (
        (GOOD[GOOD.index("accelerators:") :], "accelerators: []\n"),
        "14:1: accelerators: missing: give accelerators, or whole nodes",
    ),
    "wrong type": (
        ("arrivals: {poisson: 20 req/s}", "arrivals: 20 req/s"),
        "6:5: workloads.0.arrivals: expected keys and values; got '20 req/s'",
    ),
    "a number in quotes": (
        ("cv: 1", 'cv: "1"'),
        "8:47: workloads.0.lengths.prompt.lognormal.cv: expected a number; got '1'",
    ),
    "yes is no truth": (
        ("accelerators:", "policies: {reserve_full_prompt: yes}\naccelerators:"),
        "14:12: policies.reserve_full_prompt: expected true or false; got 'yes'",
    ),
    "nothing where a section belongs": (
        ("    arrivals: {poisson: 20 req/s}", "    arrivals:"),
        "6:5: workloads.0.arrivals: expected keys and values; got nothing",
    ),
    "a longest gap below the mean of gaps": (
        ("tpot: 30 ms", "tpot: 30 ms\n      max_itl: 20 ms"),
        "13:7: workloads.0.slo.max_itl: 0.02 s is shorter than tpot (0.03 s), which is the mean of"
        " the gaps whose longest this bounds; are they swapped?",
    ),
    "requests that are worth nothing": (
        ("  - id: chat", "  - id: chat\n    value: 0"),
        "5:5: workloads.0.value: must be at least 1e-09; got 0",
    ),
    "a policy twice": (
        ("accelerators:", "policies: {scheduling_policy: [fcfs, fcfs]}\naccelerators:"),
        "14:12: policies.scheduling_policy: a value is listed twice in ['fcfs', 'fcfs']; keep one",
    ),
    "swapped deadlines": (
        ("500 ms", "5 ms"),
        "11:7: workloads.0.slo.ttft: 0.005 s is shorter than tpot (0.03 s); are they swapped?",
    ),
    "attainment 95": (
        ("0.95", "95"),
        "13:7: workloads.0.slo.attainment: 95 is more than all; write 0.95 or 95 %",
    ),
    "attainment 1": (
        ("0.95", "100 %"),
        "13:7: workloads.0.slo.attainment: must be below 1; got '100 %'",
    ),
    "two forms of lengths": (
        ("      prompt:", "      histogram: azure-code-2023\n      prompt:"),
        "9:7: workloads.0.lengths.prompt: give exactly one of histogram, trace, prompt, mixture; "
        "histogram and prompt are given",
    ),
    "half of the lengths": (
        ("      output: {fixed: 250 tokens}\n", ""),
        "7:5: workloads.0.lengths: prompt is given but output is not; give both",
    ),
    "price twice": (
        ("price: 2.99 USD/h", "price: 2.99 USD/h\n    price_from: {provider: lambda}"),
        "16:5: accelerators.0.price: give either price or price_from; both are given",
    ),
    "moves from nowhere": (
        ("accelerators:", "limits: {moves: 3}\naccelerators:"),
        "14:10: limits.moves: moves are counted from a plan; add current_plan",
    ),
    "a price of moves from nowhere": (
        ("accelerators:", "move_cost: {price: 40 USD, over: 720 h}\naccelerators:"),
        "14:1: move_cost: moves are counted from a plan; add current_plan",
    ),
    "a price of moves by the hour": (
        ("accelerators:", "move_cost: {price: 40 USD/h, over: 720 h}\naccelerators:"),
        "14:13: move_cost.price: 'USD/h' is no unit of sum of money; use one of USD, kUSD",
    ),
    "no price": (
        ("    price: 2.99 USD/h\n", ""),
        "15:5: accelerators.0: give either price or price_from; neither is given",
    ),
    "no stock": (
        ("price: 2.99 USD/h", "price: 2.99 USD/h\n    stock: 0"),
        "17:5: accelerators.0.stock: a stock of 0 offers nothing; leave this accelerator out",
    ),
    "unknown objective": (
        ("accelerators:", "objective: cheapest\naccelerators:"),
        "14:1: objective: expected 'max_goodput_per_usd', 'min_cost' or 'max_goodput'; "
        "got 'cheapest'",
    ),
    "an objective without a bound": (
        ("accelerators:", "objective: max_goodput\naccelerators:"),
        "14:1: objective: max_goodput needs a bound; add limits.budget, or a stock for every "
        "accelerator",
    ),
    "accelerator given twice": (
        ("id: l40s", "id: h100-sxm"),
        "17:5: accelerators.1.id: 'h100-sxm' is given twice; rename one",
    ),
    "bad id": (
        ("id: chat", "id: Chat_1"),
        "4:5: workloads.0.id: an id has lower-case letters, digits, dots and hyphens only, "
        "such as 'h100-sxm'; got 'Chat_1'",
    ),
    "another format": (
        ('"1.0"', '"2.0"'),
        "1:1: format_version: expected '1.0'; got '2.0'",
    ),
    "a degree twice": (
        ("accelerators:", "policies: {tp_degrees: [2, 2]}\naccelerators:"),
        "14:12: policies.tp_degrees: a value is listed twice in [2, 2]; keep one",
    ),
    "an anchor": (
        ("name: Good", "name: &name Good"),
        "2:7: anchors and aliases are not read; write the value out",
    ),
    "a long id": (
        ("id: chat", "id: " + 65 * "a"),
        f"4:5: workloads.0.id: must have at most 64 characters; got '{58 * 'a'}…",
    ),
    "no name": (
        ("name: Good", 'name: ""'),
        "2:1: name: needs at least one character; got ''",
    ),
    "a seed beyond its bound": (
        ("accelerators:", "solver: {seed: 4294967296}\naccelerators:"),
        "14:10: solver.seed: must be below 4,294,967,296; got 4294967296",
    ),
    "a colon too many": (
        ("name: Good", "name: Good: better"),
        "2:11: not YAML: a key cannot stand here; check the indent, or quote a text with a colon",
    ),
    "a sign that begins no word": (
        ("name: Good", "name: @home"),
        "2:7: not YAML: found character '@' that cannot start any token; quote the text",
    ),
    "a tab": (
        ("    model:", "\tmodel:"),
        "5:1: not YAML: a tab; indent with spaces",
    ),
}


@pytest.mark.parametrize(("change", "mistake"), ONE_CHANGE.values(), ids=ONE_CHANGE)
def test_mistake_has_its_place_and_its_mend(change, mistake, tmp_path, capsys):
    text = GOOD.replace(*change, 1)
    assert text != GOOD
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert main(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"{path}:{mistake}\n"


def test_the_good_scenario_is_good(tmp_path, capsys):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr() == (f"{path}: ok (1 workload, 2 accelerators)\n", "")


def test_duplicate_workload_ids_are_refused(tmp_path, capsys):
    first = GOOD[GOOD.index("  - id: chat") : GOOD.index("accelerators:")]
    path = tmp_path / "twice.yaml"
    path.write_text(GOOD.replace("accelerators:", f"{first}accelerators:", 1))
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"{path}:14:5: workloads.1.id: 'chat' is given twice; rename one\n"
    )


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (b"", "1:1: the document is empty; expected keys and values"),
        (b"# only words\n", "1:1: the document is empty; expected keys and values"),
        (b"- a\n", "1:1: the document is a list; expected keys and values"),
        (b"just words", "1:1: the document is text; expected keys and values"),
        (b"a: [1\n", "2:1: not YAML: expected ',' or ']', but got '<stream end>'"),
        (b"name: \xff", "1:7: not UTF-8 text; save the file as UTF-8"),
        (b"\xef\xbb\xbfa: 1\nname: \xc3\xa9\xff", "2:8: not UTF-8 text; save the file as UTF-8"),
        (
            b"\xef\xbb\xbfa: [\r\n",
            "2:1: not YAML: expected the node content, but found '<stream end>'",
        ),
        (b"a: 1\n---\nb: 2\n", "2:1: not YAML: a second document begins; keep one"),
        (b'a: 1\nb: "x\n', "3:1: not YAML: a quotation mark is not closed; close it"),
        (
            b"a: 1\nname: x\0y",
            "2:8: not YAML: the character U+0000 must not stand in a file; remove it",
        ),
    ],
)
def test_what_is_no_scenario_at_all(content, mistake, tmp_path, capsys):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}:{mistake}\n"


@pytest.mark.parametrize(
    ("setting", "mistake"),
    [
        (
            "workloads.chat.slo.tfft=1 s",
            "--set workloads.chat.slo.tfft: workloads.0.slo.tfft: "
            "unknown key; did you mean 'ttft'?",
        ),
        (
            "workloads.chta.slo.ttft=1 s",
            "--set workloads.chta.slo.ttft: no item 'chta'; did you mean 'chat'?",
        ),
        ("workloads.7.slo.ttft=1 s", "--set workloads.7.slo.ttft: no item '7'; known: chat"),
        ("name.first=x", "--set name.first: nothing is below 'first' here; shorten the path"),
        ("name", "--set name: write it as path=value"),
        ("=x", "--set =x: write it as path=value"),
        (
            "workloads.chat.slo.ttft=1",
            "--set workloads.chat.slo.ttft: workloads.0.slo.ttft: "
            f"expected a time with its unit {TIMES}, such as '1 s'; got 1",
        ),
        (
            "solver={seed: 1, seed: 2}",
            "--set solver: seed: key is repeated (first on line 1); keep one",
        ),
        ("name=[", "--set name:1:2: not YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_bad_settings_name_the_setting(setting, mistake, tmp_path, capsys):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert main(["check", str(path), "--set", setting]) == 2
    assert capsys.readouterr().err == f"{mistake}\n"


def test_all_mistakes_are_told_at_once_in_file_order(tmp_path, capsys):
    path = tmp_path / "bad.yaml"
    text = GOOD.replace("500 ms", "500").replace("id: chat", "id: Chat").replace("cv: 1", "cv: -1")
    path.write_text(f"{text}name: again\n")
    assert main(["check", str(path)]) == 2
    places = [
        line.removeprefix(f"{path}:").split(": ")[:2]
        for line in capsys.readouterr().err.splitlines()
    ]
    assert places == [
        ["4:5", "workloads.0.id"],
        ["8:47", "workloads.0.lengths.prompt.lognormal.cv"],
        ["11:7", "workloads.0.slo.ttft"],
        ["19:1", "name"],
    ]


def test_one_bad_file_does_not_hide_another(tmp_path, capsys):
    bad, good, missing = tmp_path / "bad.yaml", tmp_path / "good.yaml", tmp_path / "none.yaml"
    bad.write_text(GOOD.replace("500 ms", "500"))
    good.write_text(GOOD)
    assert main(["check", str(bad), str(good), str(missing), "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    first, second, third = json.loads(out)["files"]
    assert (first["ok"], second["ok"], third["ok"]) == (False, True, False)
    assert (first["mistakes"][0]["line"], first["mistakes"][0]["column"]) == (11, 7)
    assert third["mistakes"] == [
        {"line": None, "column": None, "message": f"{missing}: no such file"}
    ]
