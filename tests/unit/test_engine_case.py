"""Engine case files: read, refused with a reason, served, compared."""

from __future__ import annotations

import json
import re

import pytest

from planner.cli.simulate_case import run_engine_case
from planner.errors import InputError
from planner.simulation.engine_case import differences, read_case, run_case
from tests.shared import SHARED, needs_shared

LAW = {"a": 10, "b": 1, "c": 0, "d": 0}
ENGINE = {"kind": "v1", "max_num_seqs": 8, "max_num_batched_tokens": 100, "block_size": 2}

# A 0..14 and 14..27 (1 + 2 tokens); B comes at 5, 14..27
SINGLE = {
    "name": "two",
    "description": "worked out by hand",
    "unit": "ticks",
    "topology": "single",
    "law": LAW,
    "engine": ENGINE | {"usable_blocks": None},
    "requests": [
        {"id": 7, "arrival": 5, "prompt": 2, "output": 1},
        {"id": 3, "arrival": 0, "prompt": 4, "output": 2},
    ],
    "expected": {
        "requests": [
            {"id": 3, "first_sched": 0, "first_token": 14, "finish": 27, "ttft": 14, "e2e": 27,
             "decode_span": 13, "max_token_gap": 13, "preemptions": 0, "token_times": [14, 27]},
            {"id": 7, "first_sched": 14, "first_token": 27, "finish": 27, "ttft": 22, "e2e": 22,
             "decode_span": 0, "max_token_gap": 0, "preemptions": 0, "token_times": [27]},
        ],
        "makespan": 27,
        "n_steps": {"e0": 2},
        "steps": {
            "e0": [
                {"t": 0, "dt": 14, "sched": [[3, 4, 0]]},
                {"t": 14, "dt": 13, "sched": [[3, 1, 4], [7, 2, 0]]},
            ]
        },
    },
}  # fmt: skip

# P 0..14, D queues at 15 and reads 15..26, steps 26..37 and 37..48
SPLIT = {
    "topology": "disagg",
    "mode": "nixl_pull",
    "prefill_law": LAW,
    "decode_law": LAW,
    "prefill_engine": ENGINE,
    "decode_engine": ENGINE | {"usable_blocks": 40},
    "link": {"ns_per_token": 2, "latency": 3, "mode": "fifo"},
    "hop": 1,
    "requests": [{"id": "a", "arrival": 0, "prompt": 4, "output": 2}],
    "expected": {
        "requests": [
            {"id": "a", "first_token": 37, "finish": 48, "ttft": 37, "prefill_first_sched": 0,
             "prefill_done": 14, "decode_arrival": 15, "kv_start": 15, "kv_end": 26,
             "decode_first_sched": 26, "token_times": [37, 48]},
        ],
        "makespan": 48,
        "n_steps": {"p0": 1, "d0": 2},
    },
}  # fmt: skip


def write(tmp_path, document):
    path = tmp_path / "case.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def refusal(tmp_path, document):
    with pytest.raises(InputError) as caught:
        run_case(read_case(write(tmp_path, document)))
    return str(caught.value)


@pytest.mark.parametrize("document", [SINGLE, SPLIT], ids=["single", "disagg"])
def test_a_case_comes_out_as_worked_out_by_hand(tmp_path, document):
    case = read_case(write(tmp_path, document))
    assert differences(case, run_case(case)) == []


def test_results_come_in_the_order_of_the_file(tmp_path):
    result = run_case(read_case(write(tmp_path, SINGLE)))
    assert [request["id"] for request in result["requests"]] == [7, 3]


def test_a_difference_is_told_with_its_path_and_both_values(tmp_path):
    wrong = json.loads(json.dumps(SINGLE))
    wrong["expected"]["requests"][0]["finish"] = 28
    wrong["expected"]["steps"]["e0"][1]["sched"][1][1] = 3
    wrong["expected"]["makespan"] = 28
    wrong["expected"]["n_steps"]["e1"] = 1
    wrong["expected"]["heat"] = 1
    case = read_case(write(tmp_path, wrong))
    assert differences(case, run_case(case)) == [
        "expected.requests.0.finish: expected 28, got 27",
        "expected.makespan: expected 28, got 27",
        "expected.n_steps.e1: only expected",
        "expected.steps.e0.1.sched.1.1: expected 3, got 2",
        "expected.heat: is not something that this simulator tells",
    ]


def test_a_request_left_out_or_unknown_is_a_difference(tmp_path):
    wrong = SINGLE | {"expected": {"requests": [{"id": 7, "finish": 27}, {"id": 8}, {"id": []}, 4]}}
    case = read_case(write(tmp_path, wrong))
    assert differences(case, run_case(case)) == [
        "expected.requests.1: no request of the case has this id",
        "expected.requests.2: no request of the case has this id",
        "expected.requests.3: no request of the case has this id",
        "expected.requests: says nothing about 1 of 2 requests",
    ]


def test_other_ids_change_nothing_but_the_ids(tmp_path):
    renamed = SINGLE | {
        "requests": [request | {"id": f"r{request['id']}"} for request in SINGLE["requests"]]
    }
    one = run_case(read_case(write(tmp_path, SINGLE)))
    other = run_case(read_case(write(tmp_path, renamed)))
    for left, right in zip(one["requests"], other["requests"], strict=True):
        assert left | {"id": 0} == right | {"id": 0}
    assert (one["makespan"], one["n_steps"]) == (other["makespan"], other["n_steps"])


def test_equal_arrivals_go_by_id_and_not_by_place(tmp_path):
    jobs = [{"id": i, "arrival": 0, "prompt": 4, "output": 1} for i in (10, 9)]
    document = SINGLE | {"requests": jobs, "engine": ENGINE | {"max_num_seqs": 1}}
    result = run_case(read_case(write(tmp_path, document)))
    assert [request["finish"] for request in result["requests"]] == [28, 14]


def test_a_law_may_be_given_by_its_knots(tmp_path):
    knots = {"knots": [[1, 11], [101, 111]]}
    case = read_case(write(tmp_path, SINGLE | {"law": knots}))
    assert differences(case, run_case(case)) == []


def test_the_null_block_is_not_usable_and_a_watermark_may_be_a_share(tmp_path):
    engine = ENGINE | {"num_gpu_blocks": 41, "watermark": 0.05}
    options = read_case(write(tmp_path, SINGLE | {"engine": engine})).engine.options()
    assert (options.usable_blocks, options.watermark_blocks) == (40, 2)


def test_the_engines_own_flag_names_are_understood(tmp_path):
    engine = ENGINE | {"scheduler_reserve_full_isl": False, "enable_prefix_caching": True}
    options = read_case(write(tmp_path, SINGLE | {"engine": engine})).engine.options()
    assert (options.reserve_full_isl, options.prefix_caching) == (False, True)
    both = engine | {"prefix_caching": True}
    assert "enable_prefix_caching: unknown key" in refusal(tmp_path, SINGLE | {"engine": both})


def test_several_replicas_say_which_one_served(tmp_path):
    document = SINGLE | {"topology": "multi", "replicas": 2, "router": "jsq"}
    del document["expected"]
    result = run_case(read_case(write(tmp_path, document)))
    assert [request["replica"] for request in result["requests"]] == [1, 0]


MISTAKES = [
    (SINGLE | {"topology": "ring"}, "topology: expected one of single, multi, disagg; got 'ring'"),
    (SINGLE | {"topology": [1]}, "topology: expected one of single, multi, disagg; got a list"),
    (SINGLE | {"engin": 1}, "engin: unknown key; did you mean 'engine'?"),
    (SINGLE | {"law": {"a": 1.5}}, "law.a: expected a whole number"),
    (SINGLE | {"law": {}}, "law: give either a, b, c, d or knots"),
    (SINGLE | {"law": {"knots": [[4, 1], [4, 2]]}}, "law: the n of knots must ascend"),
    (SINGLE | {"engine": ENGINE | {"max_num_seqs": 0}}, "engine.max_num_seqs: must be at least 1"),
    (SINGLE | {"engine": ENGINE | {"kind": "v2"}}, "engine.kind: expected 'v1', 'v0' or 'sarathi'"),
    (
        SINGLE | {"engine": ENGINE | {"kind": "v0", "async_scheduling": True}},
        "engine: async_scheduling is an option of kind v1",
    ),
    (SINGLE | {"requests": {}}, "requests: expected a list"),
    (
        SINGLE | {"requests": [{"id": 1, "arrival": 0, "prompt": True, "output": 1}]},
        "requests.0.prompt: expected a whole number",
    ),
    (
        SINGLE | {"requests": [{"id": 1, "arrival": -1, "prompt": 1, "output": 1}]},
        "requests.0.arrival: must be at least 0",
    ),
    (
        SINGLE | {"requests": [{"id": 1, "arrival": 0, "prompt": 1, "output": 1}] * 2},
        "requests.1.id: 1 is used twice",
    ),
    (
        SINGLE | {"requests": [{"id": 1, "arrival": 0, "prompt": 1, "output": 2, "max_tokens": 1}]},
        "requests.0: max_tokens 1 is below output 2",
    ),
    (
        SINGLE
        | {
            "requests": [
                {"id": i, "arrival": 0, "prompt": 1, "output": 2_000_000} for i in range(3)
            ]
        },
        "requests: 6000000 output tokens in all; a case may have 5000000",
    ),
    (
        SINGLE | {"topology": "multi", "replicas": 2, "router": "by_class"},
        "router by_class needs replica_groups",
    ),
    (
        SINGLE
        | {"topology": "multi", "replicas": 1, "router": "by_class", "replica_groups": [[1]]},
        "replica_groups names a replica beyond the 1 there are",
    ),
    (SPLIT | {"decode_engine": ENGINE | {"kind": "v0"}}, "decode_engine.kind: v0 cannot receive"),
    (SPLIT | {"link": {"ns_per_token": -1}}, "link.ns_per_token: must be at least 0"),
]


@pytest.mark.parametrize(("document", "sentence"), MISTAKES, ids=[m[1][:40] for m in MISTAKES])
def test_a_mistake_is_told_with_file_and_path(tmp_path, document, sentence):
    message = refusal(tmp_path, document)
    where = re.escape(str(tmp_path / "case.json"))
    assert all(re.match(rf"{where}:1:\d+: ", line) for line in message.splitlines())
    assert sentence in message


def test_a_mistake_is_told_with_the_line_on_which_it_stands(tmp_path):
    request = {"id": 1, "arrival": 0, "prompt": 4.5, "output": 2}
    document = SINGLE | {"requests": [*SINGLE["requests"], request]}
    text = json.dumps(document, indent="\t")
    lines = text.splitlines()
    line = next(i for i, written in enumerate(lines, start=1) if "4.5" in written)
    column = lines[line - 1].index('"prompt"') + 1
    assert refusal(tmp_path, text).startswith(
        f"{tmp_path / 'case.json'}:{line}:{column}: requests."
    )


def test_a_case_too_long_for_places_is_told_by_its_path(tmp_path):
    long = [{"id": i, "arrival": 0, "prompt": 1, "output": 1} for i in range(20_000)]
    text = refusal(tmp_path, SINGLE | {"requests": [*long, {"id": 1}]})
    assert f"{tmp_path / 'case.json'}: requests.20000.arrival: is required" in text


def test_all_mistakes_are_told_at_once(tmp_path):
    document = SINGLE | {"law": {"a": "x"}, "engine": ENGINE | {"policy": "lifo"}}
    assert len(refusal(tmp_path, document).splitlines()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "7",
        "{",
        '{"topology": "single", "topology": "multi"}',
        '{"a": NaN}',
        '{"a": Infinity}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"topology": "single", "law": {"a": ' + "9" * 5000 + "}}",
        '{"topology": "single", "law": {"a": 1e999}}',
        '"\ud800"'.encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=range(13),
)
def test_hostile_json_is_refused_without_a_traceback(tmp_path, text):
    assert str(tmp_path) in refusal(tmp_path, text)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        read_case(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder; name a file"):
        read_case(tmp_path)
    path = tmp_path / "case.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"case.json:1:1: not UTF-8 text; save the file"):
        read_case(path)


@pytest.mark.parametrize("document", [SINGLE, SPLIT], ids=["single", "disagg"])
def test_a_case_that_passes_the_end_of_time_is_refused_at_once(tmp_path, document):
    laws = {key: {"a": 2**62} for key in document if key.endswith("law")}
    case = read_case(write(tmp_path, document | laws))
    with pytest.raises(InputError, match=r"case: time passed tick 9223372036854775807; take a"):
        run_case(case, "case")


def test_a_case_without_expectation_cannot_be_checked(tmp_path):
    document = {key: value for key, value in SINGLE.items() if key != "expected"}
    with pytest.raises(InputError, match="nothing to check against"):
        run_engine_case(write(tmp_path, document), json_out=False, check=True)


def test_the_command_shows_a_table_and_agrees(tmp_path, capsys):
    assert run_engine_case(write(tmp_path, SINGLE), json_out=False, check=True) == 0
    told = capsys.readouterr()
    assert "makespan 27 ticks; steps: e0 2" in told.out
    assert "max_token_gap" in told.out
    assert told.err.endswith("case.json: as expected\n")


def test_the_command_writes_json_and_fails_on_a_difference(tmp_path, capsys):
    wrong = SINGLE | {"expected": SINGLE["expected"] | {"makespan": 26}}
    assert run_engine_case(write(tmp_path, wrong), json_out=True, check=True) == 5
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["makespan"] == 27
    assert document["differences"] == ["expected.makespan: expected 26, got 27"]
    assert "expected.makespan: expected 26, got 27" in told.err


def test_the_table_survives_no_requests_and_odd_names(tmp_path, capsys):
    document = SINGLE | {"name": "[bold]x[/", "requests": []}
    del document["expected"]
    assert run_engine_case(write(tmp_path, document), json_out=False, check=False) == 0
    assert "makespan 0" in capsys.readouterr().out


@needs_shared
@pytest.mark.parametrize(
    "path", sorted((SHARED / "cases/simulator").glob("*.json")), ids=lambda path: path.stem
)
def test_a_reference_case_comes_out_as_its_author_found(path):
    case = read_case(path)
    assert differences(case, run_case(case)) == []


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
@pytest.mark.parametrize("value", [-1, -(10**9)])
def test_a_law_that_takes_time_away_is_refused_with_its_place(name, value, tmp_path):
    text = refusal(tmp_path, SINGLE | {"law": LAW | {name: value}})
    column = json.dumps(SINGLE | {"law": LAW | {name: value}}).rindex(f'"{name}": {value}') + 1
    assert text.endswith(f"case.json:1:{column}: law.{name}: must be at least 0; got {value}")


@pytest.mark.parametrize("name", ["c_x", "c_k", "c_n", "c_c"])
def test_so_is_one_of_knots(name, tmp_path):
    law = {"knots": [[0, 5], [10, 9]]}
    assert f"law.{name}: must be at least 0" in refusal(
        tmp_path, SINGLE | {"law": law | {name: -1}}
    )
    below = {"knots": [[0, 5], [10, -9]]}
    assert "law.knots.1.1: must be at least 0" in refusal(tmp_path, SINGLE | {"law": below})


def test_a_law_without_any_time_ends_at_once(tmp_path):
    free = SINGLE | {"law": dict.fromkeys("abcd", 0), "expected": None}
    assert run_case(read_case(write(tmp_path, free)))["makespan"] == 5


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_thousands_of_digits_is_refused_where_it_stands(sign, tmp_path):
    text = json.dumps(SINGLE).replace('"prompt": 4', f'"prompt": {sign}{"9" * 5000}')
    word = "at least 1" if sign else "at most 2,000,000"
    found = refusal(tmp_path, text)
    assert found.endswith(f"requests.1.prompt: must be {word}; got a number beyond all measure")


@pytest.mark.parametrize("odd", [True, None, 0.5, [], {}])
def test_an_id_of_neither_kind_is_told_once(odd, tmp_path):
    requests = [SINGLE["requests"][0], SINGLE["requests"][1] | {"id": odd}]
    found = refusal(tmp_path, SINGLE | {"requests": requests}).splitlines()
    assert len(found) == 1
    assert "requests.1.id: expected a whole number; got " in found[0]
