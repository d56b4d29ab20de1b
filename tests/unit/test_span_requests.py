"""OpenTelemetry spans as requests: each counted once, whatever became of it."""

import gzip
import json
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import InputError
from planner.problem.demand import read_trace

SPANS = Path(__file__).parents[1] / "data" / "measurements" / "spans.json"


def span(start_s, own="", parent="", code=None, **attributes):
    """Write a span; double underscores stand for dots."""
    kinds = {int: "intValue", float: "doubleValue", str: "stringValue"}
    made = {
        "startTimeUnixNano": str(round((1.7e9 + start_s) * 1e9)),
        "spanId": own,
        "parentSpanId": parent,
        "attributes": [
            {
                "key": name.replace("__", "."),
                "value": {kinds[type(v)]: str(v) if isinstance(v, int) else v},
            }
            for name, v in attributes.items()
        ],
    }
    return made | ({"status": {"code": code}} if code is not None else {})


def call(start_s, prompt, output, **more):
    return span(
        start_s, gen_ai__usage__input_tokens=prompt, gen_ai__usage__output_tokens=output, **more
    )


def otlp(*spans, service="gateway"):
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scope = [{"spans": list(spans)}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scope}]}


def read(tmp_path, *documents):
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)) + "\n")
    return read_trace(path)


def test_spans_of_the_engine_are_requests_in_order_of_arrival():
    """By hand: 100 and 26 tokens at 0 s, 300 and 51 at 1 s; at 2 s one without an answer."""
    trace = read_trace(SPANS)
    assert trace.time_s.tolist() == [0.0, 1.0, 2.0]
    assert trace.prompt.tolist() == [100, 300, 900]
    assert trace.output.tolist()[:2] == [26, 51]
    assert trace.failed.tolist() == [False, False, True]


@pytest.mark.parametrize("ending", ["json", "jsonl", "json.gz", "jsonl.gz"])
def test_a_document_and_lines_are_read_alike(tmp_path, ending):
    text = json.dumps(otlp(call(0, 5, 6), call(2, 7, 8)))
    text = f"{text}\n{json.dumps(otlp(call(3, 9, 1)))}\n" if "jsonl" in ending else text
    path = tmp_path / f"spans.{ending}"
    path.write_bytes(gzip.compress(text.encode()) if "gz" in ending else text.encode())
    assert read_trace(path).prompt.tolist() == [5, 7, 9][: 3 if "jsonl" in ending else 2]


def test_failed_calls_stay_in_the_demand(tmp_path):
    trace = read(
        tmp_path,
        otlp(
            call(0, 50, 60),
            call(1, 51, 0),
            call(2, 52, 9, code=2),
            call(3, 53, 8, code="STATUS_CODE_ERROR"),
            call(4, 54, 7, error__type="timeout"),
            span(5, gen_ai__request__model="m", code=2),
            span(6, http__method="POST"),
        ),
    )
    assert trace.failed.tolist() == [False, True, True, True, True, True]
    assert trace.output.tolist()[2:5] == [9, 8, 7]  # what was made before it failed
    assert trace.prompt[5] in range(50, 55)
    assert "5 of 6 requests failed" in trace.notes[0]


def test_callers_of_the_engine_are_not_counted_again(tmp_path):
    engine = span(
        0.1,
        gen_ai__latency__e2e=1.0,
        gen_ai__latency__time_to_first_token=0.2,
        gen_ai__usage__prompt_tokens=5,
        gen_ai__usage__completion_tokens=6,
    )
    trace = read(tmp_path, otlp(call(0, 5, 6)), otlp(engine, service="vllm"))
    assert trace.prompt.tolist() == [5]
    assert "1 spans of callers and gateways are left out" in " ".join(trace.notes)


def test_the_tries_of_a_gateway_are_one_request(tmp_path):
    trace = read(
        tmp_path,
        otlp(
            call(0, 5, 6, own="a"),
            call(0.1, 5, 0, own="b", parent="a", code=2),
            call(0.5, 5, 6, own="c", parent="a"),
            call(3, 7, 8, own="d", parent="outside"),
            call(0, 12, 14, own="e", gen_ai__operation__name="invoke_agent"),
        ),
    )
    assert trace.prompt.tolist() == [5, 7]
    assert not trace.failed.any()


def test_services_are_clients_and_conversations_sessions(tmp_path):
    talk = {"gen_ai__conversation__id": "x"}
    trace = read(
        tmp_path,
        otlp(call(0, 1, 1, **talk), call(1, 1, 1), service="a"),
        otlp(call(2, 1, 1, **talk), service="b"),
    )
    assert trace.client.tolist() == [1, 1, 2]
    assert trace.session.tolist() == [0, -1, 0]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (span(0, x="y"), "no span tells tokens of a request"),
        (call(0, 1, -4), "expected a number from 0"),
        (call(0, 1, 2.5), "gen_ai.usage.output_tokens is 2.5; expected a whole number"),
        (call(0, 10**9, 1), "gen_ai.usage.input_tokens is 1e+09; expected a whole number"),
        (call(0, "x", 1), "expected doubleValue or intValue"),
        ({"attributes": call(0, 1, 1)["attributes"]}, "startTimeUnixNano: a request without its"),
        (call(9e11, 1, 1), "startTimeUnixNano: expected a number from 0 to 1e+20"),
        (call(9e10 * 9, 1, 1), "startTimeUnixNano: "),
        (call(0, 0, 0), "no request has both lengths"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_file(tmp_path, one, told):
    with pytest.raises(InputError) as error:
        read(tmp_path, otlp(one))
    assert told in str(error.value)
    assert "spans.jsonl" in str(error.value)


def test_spans_are_profiled_and_fitted(tmp_path, capsys):
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(otlp(*(call(i / 3, 5 + i % 7, 6 + i % 5) for i in range(200)))))
    assert main(["workload", str(path)]) == 0
    assert "mean rate: 3.00 req/s" in capsys.readouterr().out
    assert main(["workload", str(path), "--fit"]) == 0
    assert "arrivals:" in capsys.readouterr().out
