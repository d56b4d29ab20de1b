"""Simulated requests as OTLP JSON: spans that tracing tools, and this planner, read.

A request is a span with the attributes that vLLM writes (``gen_ai.latency.*``, ``gen_ai.usage.*``)
and its stages in ``planner.stage.*``; each stage is a child span. Time zero is the start of 2000.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from planner.reporting.trace_events import phases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planner.attribution.timeline import Piece
    from planner.attribution.traced import TracedRun

    Span = dict[str, Any]

ZERO_NS: Final = 946_684_800 * 10**9
SERVER, INTERNAL = 2, 1
"""Kinds of spans."""


def otlp_document(runs: Iterable[tuple[TracedRun, Sequence[int]]]) -> dict[str, Any]:
    """Return the spans of chosen requests as an OTLP export.

    Args:
        runs: Each pool with the requests of it to be told; those that did not finish are told as
            failed.
    """
    return {"resourceSpans": [_resource(run, chosen) for run, chosen in runs]}


def _resource(run: TracedRun, chosen: Sequence[int]) -> dict[str, Any]:
    lines = run.timelines(chosen)
    spans = []
    for rank in chosen:
        if rank in lines:
            spans += list(_finished(run, rank, lines[rank]))
        else:
            spans.append(_failed(run, rank))
    return {
        "resource": {"attributes": [_text("service.name", f"simulated {run.name}")]},
        "scopeSpans": [{"scope": {"name": "planner"}, "spans": spans}],
    }


def _finished(run: TracedRun, rank: int, pieces: tuple[Piece, ...]) -> Iterator[Span]:
    records, scale = run.records, run.tick_s
    assert records.stages is not None
    trace, own = _id(run, rank, 16), _id(run, rank, 8)
    ttft, first = int(run.ttft[rank]) * scale, int(records.first_token[rank])
    rest = (int(records.finish[rank]) - first) * scale
    queue = (int(records.first_scheduled[rank] - run.traffic.arrival[rank]) + run.path) * scale
    latencies = {
        "time_to_first_token": ttft,
        "e2e": ttft + rest,
        "time_in_queue": queue,
        "time_in_model_prefill": ttft - queue,
        "time_in_model_decode": rest,
        "time_in_model_inference": ttft - queue + rest,
    }
    attributes = [
        *_request(run, rank),
        *(_number(f"gen_ai.latency.{name}", value) for name, value in latencies.items()),
        _number("planner.longest_gap_s", int(records.max_token_gap[rank]) * scale),
        _whole("planner.preemptions", int(records.preemptions[rank])),
    ]
    split = run.split(_row(rank))
    for side, when in (
        ({**split.company_before, **split.own_before}, "before"),
        ({**split.company_after, **split.own_after}, "after"),
    ):
        attributes += [
            _number(f"planner.stage.{when}.{name}_s", int(ticks[0]) * scale)
            for name, ticks in side.items()
        ]
    start, end = pieces[0].start, pieces[-1].end
    yield _span(run, (trace, own, ""), "llm_request", (start, end), SERVER, attributes)
    for number, (piece, _) in enumerate(phases(pieces)):
        inner = _id(run, rank, 8, number + 1)
        name = f"planner.{piece.stage}"
        on = [_text("planner.engine", run.engines[piece.engine])]
        yield _span(run, (trace, inner, own), name, (piece.start, piece.end), INTERNAL, on)


def _failed(run: TracedRun, rank: int) -> Span:
    at = int(run.traffic.arrival[rank]) - run.path
    attributes = [
        *_request(run, rank),
        _number("gen_ai.latency.e2e", 0.0),  # the engine's span, but without a first token
        _text("error.type", "rejected"),
    ]
    ids = _id(run, rank, 16), _id(run, rank, 8), ""
    span = _span(run, ids, "llm_request", (at, at), SERVER, attributes)
    return span | {"status": {"code": 2}}


def _request(run: TracedRun, rank: int) -> list[dict[str, Any]]:
    of = int(run.workload[rank])
    return [
        _text("gen_ai.operation.name", "chat"),
        _text("gen_ai.request.id", f"{run.name}-{rank}"),
        _text("gen_ai.request.model", run.models[of]),
        _text("planner.workload", run.workloads[of]),
        _whole("gen_ai.usage.prompt_tokens", int(run.traffic.prompt[rank])),
        _whole("gen_ai.usage.completion_tokens", int(run.records.tokens[rank])),
    ]


def _span(
    run: TracedRun,
    ids: tuple[str, str, str],
    name: str,
    ticks: tuple[int, int],
    kind: int,
    attributes: list[dict[str, Any]],
) -> Span:
    trace, own, parent = ids
    start, end = (ZERO_NS + round(tick * run.tick_s * 1e9) for tick in ticks)
    return {
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": attributes,
    }


def _id(run: TracedRun, rank: int, size: int, number: int = 0) -> str:
    return blake2b(f"{run.name} {rank} {number}".encode(), digest_size=size).hexdigest()


def _row(rank: int) -> Any:
    import numpy as np

    return np.array([rank])


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _number(key: str, value: float) -> dict[str, Any]:
    return {"key": key, "value": {"doubleValue": float(value)}}


def _whole(key: str, value: int) -> dict[str, Any]:
    return {"key": key, "value": {"intValue": str(value)}}
