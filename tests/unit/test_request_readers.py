"""Readers of logs and traces: layouts, units, failures, order, ticks, and what they refuse."""

import gzip
import json
import os

import numpy as np
import pytest

from planner.errors import InputError
from planner.measurements.request_times import WrongValueError, parse_moments, unit_of
from planner.measurements.request_trace import find_tick, impute_lengths, spread_ticks
from planner.measurements.requests import RequestColumns, read_requests


def write(tmp_path, name, text):
    path = tmp_path / name
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"
)


@pytest.mark.parametrize("text", [AZURE, AZURE.replace("00,", "00+00:00,").replace("9600", "96")])
def test_azure_wall_clocks_of_both_years(tmp_path, text):
    trace = read_requests(write(tmp_path, "azure.csv", text))
    assert trace.time_s == pytest.approx([0.0, 0.052], abs=1e-6)
    assert trace.prompt.tolist() == [4808, 3180]
    assert trace.output.tolist() == [10, 8]


def test_mooncake_counts_milliseconds_and_names_its_blocks(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 1200, "output_length": 5, "hash_ids": [7, 9, 4]},
        {"timestamp": 1500, "input_length": 900, "output_length": 6, "hash_ids": [7, 5]},
    ]
    text = "\n".join(map(json.dumps, rows))
    trace = read_requests(write(tmp_path, "mooncake.jsonl.gz", text))
    assert trace.time_s.tolist() == [0.0, 1.5]
    assert trace.prefix.start.tolist() == [0, 3, 5]
    assert trace.prefix.name.tolist() == [2, 3, 0, 2, 1]  # dense, equal where equal


def test_burstgpt_failures_stay_in_the_demand_with_a_plausible_output(tmp_path):
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"
        "Log Type\n5,,1,ChatGPT,472,18,490,Conversation log\n"
        "45,3,1,ChatGPT,1087,0,1087,Conversation log\n118,3,1,GPT-4,417,276,693,API log\n"
    )
    trace = read_requests(write(tmp_path, "burst.csv", text))
    assert trace.time_s.tolist() == [0.0, 40.0, 113.0]
    assert trace.failed.tolist() == [False, True, False]
    assert trace.output[1] in (18, 276)
    assert trace.session.tolist() == [-1, 0, 0]
    assert "1 of 3 requests failed" in trace.notes[0]


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        *[("200", False), ("429", True), ("503", True), ("stop", False), ("length", False)],
        *[("client cancelled", True), ("aborted", True), ("", False), ("TimeoutError", True)],
    ],
)
def test_statuses(tmp_path, status, failed):
    text = f"arrival_time,prompt_tokens,completion_tokens,status\n1.0,5,6,{status}\n2.0,7,8,200\n"
    trace = read_requests(write(tmp_path, "log.csv", text))
    assert trace.failed.tolist() == [failed, False]
    assert trace.output.tolist() == [6, 8]


def test_a_gateway_log_with_nested_usage_and_a_mapping(tmp_path):
    rows = [
        {"at": 1700000000123, "usage": {"in": 10, "out": 3}, "who": "a", "error": None},
        {"at": 1700000002123, "usage": {"in": 20, "out": 4}, "who": "b", "error": "rejected"},
    ]
    path = write(tmp_path, "gateway.jsonl", "\n".join(map(json.dumps, rows)))
    columns = RequestColumns(time="at", prompt="usage.in", output="usage.out", client="who")
    trace = read_requests(path, columns)
    assert trace.time_s == pytest.approx([0.0, 2.0])
    assert trace.failed.tolist() == [False, True]
    assert len(set(trace.client.tolist())) == 2


def test_rows_in_order_of_completion_are_put_in_order_of_arrival(tmp_path):
    text = "timestamp,prompt_tokens,output_tokens\n9,1,1\n4,2,2\n6,3,3\n"
    trace = read_requests(write(tmp_path, "log.csv", text))
    assert trace.prompt.tolist() == [2, 3, 1]
    assert trace.time_s.tolist() == [0.0, 2.0, 5.0]


def test_chunks_join_without_a_seam(tmp_path):
    n = 150_001
    text = "ts_ms,prompt_tokens,output_tokens\n" + "".join(
        f"{10 * i},{i % 997 + 1},{i % 13 + 1}\n" for i in range(n)
    )
    trace = read_requests(write(tmp_path, "log.csv", text), RequestColumns(time="ts_ms"))
    i = np.arange(n)
    assert np.array_equal(trace.prompt, i % 997 + 1)
    assert trace.time_s == pytest.approx(i * 0.01)
    assert trace.span_s == pytest.approx(n * 0.01)


BARE = '{"input_length": 1, "output_length": 2}'
BLOCKS = '{"input_length": 1, "output_length": 1, "hash_ids": %s}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log.csv", "a,b\n1,2\n", "no known pair of length columns among a, b"),
        ("log.csv", "prompt_tokens,output_tokens\n", "is empty"),
        ("log.csv", "", "is empty"),
        ("log.csv", "prompt_tokens,output_tokens\n1\n", ":2:1: 1 cells where the header has 2"),
        ("log.csv", "prompt_tokens,output_tokens\n1,x\n", ":2:1: output_tokens is 'x', no num"),
        ("log.csv", "prompt_tokens,output_tokens\n1,1\n1,-4\n", ":3:1: output_tokens is -4"),
        ("log.csv", "prompt_tokens,output_tokens\n1,1.5\n", ":2:1: output_tokens is 1.5"),
        ("log.csv", "prompt_tokens,output_tokens\n,\n", "no request has both lengths"),
        ("log.csv", "ts,prompt_tokens,output_tokens\n1,1,1\n,1,1\n", ":3:1: ts is missing"),
        ("log.csv", "ts,prompt_tokens,output_tokens\n2024-13-40,1,1\n", "no date with a time"),
        *(
            (
                "log.csv",
                f"ts,prompt_tokens,output_tokens\n{one},1,1\n{one},2,2\n{two},1,1\n",
                f":4:1: ts {what}",
            )
            for one, two, what in (
                ("2024-01-02 03:04:05", "1704164645", "is '1704164645', a number, and others are"),
                ("1704164645", "2024-01-02 03:04:05", "is '2024-01-02 03:04:05', a date, and"),
                ("2024-01-02", "17", "is '17', a number, and others are dates"),
                ("2024-01-02", "", "is missing; give every request its time"),
                ("5", "1e300", "is '1e300', a time beyond the year 9999"),
                ("5", "-1e300", "is '-1e300', a time beyond the year 9999"),
                ("5", "inf", "is 'inf', a time beyond the year 9999"),
                ("5", "1704164645", "lies 54 years from that of other rows"),
                ("2024-01-02", "1970-01-02", "lies 54 years from that of other rows"),
                ("2024-01-02", "9999-12-31", "lies 7,976 years from that of other rows"),
                ("1704164645000", "1704164645", "lies 54 years from that of other rows"),
            )
        ),
        (
            "log.csv",
            "prompt_tokens,output_tokens,prompt_tokens\n1,2,3\n",
            "log.csv:1:1: the column is there twice: 'prompt_tokens'; keep one of each",
        ),
        (
            "log.csv",
            f"prompt_tokens,output_tokens\n1,1\n1,{'1' * 140_000}\n",
            "log.csv:3:1: a cell of more than 131,072 characters",
        ),
        (
            "log.jsonl",
            '{"input_length": 1, "output_length": ' + "9" * 5_000 + "}",
            ":1:1: output_length is inf; expected a whole number",
        ),
        (
            "log.jsonl",
            '{"input_length": 1, "output_length": true}',
            ":1:1: output_length is true, no number",
        ),
        ("log.csv", f"prompt_tokens,output_tokens\n1,1\n1,{'x' * 200}\n", ":3:1: output_tokens"),
        ("log.jsonl", "[1]\n", "expected an object"),
        ("log.jsonl", "{\n", "log.jsonl:1:2: not JSON: Expecting property name"),
        ("log.txt", "x", "a request log is CSV, JSONL"),
        ("log.csv", "prompt_tokens,output_tokens\n\n1,1\n\n1,x\n", "log.csv:5:1: output_tokens"),
        ("log.csv", "prompt_tokens,output_tokens\n1,1\n\n1,1,1\n", "log.csv:4:1: 3 cells where"),
        ("log.jsonl", BARE + "\n\n" + BARE.replace("2", "-2"), "log.jsonl:3:1: output_length is"),
        *(
            (
                "m.jsonl",
                f"{BLOCKS % '[1]'}\n\n{BLOCKS % odd}\n",
                f"m.jsonl:3:1: hash_ids is {told}; expected a list of block ids",
            )
            for odd, told in (
                ("3", "3"),
                ("null", "nothing"),
                ("[1.7]", "a list"),
                ("[true]", "a list"),
                ('["a"]', "a list"),
                ("[[1]]", "a list"),
                (f"[{2**63}]", "a list"),
            )
        ),
    ],
)
def test_refusals_name_the_row(tmp_path, name, text, words):
    with pytest.raises(InputError) as told:
        read_requests(write(tmp_path, name, text))
    assert words in str(told.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "csv.gz", "parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is no regular file but a pipe or a device; save it"):
        read_requests(path)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_empty_lines_without_end_are_refused(tmp_path, ending):
    path = tmp_path / f"log.{ending}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"prompt_tokens,output_tokens" * (ending == "csv") + b"\n" * 1_100_000)
    with pytest.raises(InputError, match=r":1000\d\d\d:1: more than 1,000,000 empty lines"):
        read_requests(path)


def test_a_column_that_is_not_there_is_told(tmp_path):
    path = write(tmp_path, "log.csv", "prompt_tokens,output_tokens\n1,1\n")
    with pytest.raises(InputError, match="no column 'promt_tokens'; did you mean 'prompt_tokens'"):
        read_requests(path, RequestColumns(prompt="promt_tokens", output="output_tokens"))
    with pytest.raises(InputError, match="name both length columns"):
        read_requests(path, RequestColumns(prompt="prompt_tokens"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01 01:00:01.5+01:00", 1.5),
        ("1969-12-31T23:00:02-0100", 2.0),
        ("1970-01-01 00:00:03 UTC", 3.0),
    ],
)
def test_moments(text, seconds):
    assert parse_moments([text, text]) == pytest.approx([seconds, seconds])
    assert parse_moments([text, "1970-01-02"])[1] == 86_400
    for other in ("1970-01-02", "1970-01-02T02:00+02:00", "19700102T000000"):
        found = parse_moments([text, other, text])
        assert found == pytest.approx([seconds, 86_400, seconds])


@pytest.mark.parametrize(
    ("text", "seconds"), [("9999-12-31 23:59:59", 253_402_300_799), ("2300-01-01", 10_413_792_000)]
)
def test_moments_beyond_64_bits_of_nanoseconds_do_not_wrap_around(text, seconds):
    assert parse_moments([text, text]).tolist() == [seconds, seconds]


@pytest.mark.parametrize(
    "text", ["2024-01-01" + " " * 100_000 + "x", "2024-01-01T24:01", "20240101"], ids=range(3)
)
def test_what_is_no_moment_is_told_at_once(text):
    with pytest.raises(WrongValueError, match=r"no date with a time|a number, and others") as told:
        parse_moments(["2024-01-01", text])
    assert told.value.at == 1


@pytest.mark.parametrize(
    ("name", "first", "unit"),
    [("t_ms", 5, "ms"), ("ts", 1.7e9, "s"), ("ts", 1.7e12, "ms"), ("ts", 1.7e18, "ns")],
)
def test_units_are_guessed_by_name_then_by_size(name, first, unit):
    assert unit_of(name, first) == unit


def test_a_clock_that_ticks_is_found_and_arrivals_are_spread_within_its_ticks():
    exact = np.sort(np.random.default_rng(0).random(3_000)) * 900
    stamped = np.floor(exact / 3) * 3
    assert find_tick(exact) == 0.0
    assert find_tick(stamped) == 3.0
    spread = spread_ticks(stamped, 3.0)
    assert np.array_equal(np.floor(spread / 3) * 3, stamped)
    gap = np.diff(spread)
    assert gap.std() / gap.mean() == pytest.approx(1.0, abs=0.08)
    assert np.diff(stamped).std() / np.diff(stamped).mean() > 2.5


def test_unknown_lengths_are_taken_from_like_requests():
    prompt = np.array([10.0, 11.0, 5000.0, 5001.0] * 20 + [5000.0, np.nan])
    output = np.array([1.0, 1.0, 99.0, 99.0] * 20 + [np.nan, 99.0])
    _, filled = impute_lengths(prompt, output)
    assert filled[-2] == 99.0
    known, _ = impute_lengths(prompt, output)
    assert known[-1] in (10.0, 11.0, 5000.0, 5001.0)
