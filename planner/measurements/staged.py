"""Measured requests with where their time went, as far as a file tells it.

Spans of an engine tell queue, prefill and decode of one request each. Around a pair of engines a
sidecar writes spans of its own, in the same trace: then the spans of one trace are one request,
whose first part the prefill engine served and whose last the decode engine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.files import probe
from planner.measurements.measurement import Records
from planner.measurements.read import read_measurements
from planner.measurements.tools.otel import attributes_of, claims, number_of, spans_of, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.measurements.measurement import Measurement
    from planner.measurements.node import Node

    Floats = NDArray[np.float64]

LATENCY: Final = "gen_ai.latency."
STAGE: Final = "planner.stage."
SIDECAR: Final = "llm_d.pd_proxy."
_PROMPT: Final = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens")
_OUTPUT: Final = ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens")
_FAILED: Final = (2, "2", "STATUS_CODE_ERROR")
NAN: Final = float("nan")
MS: Final = 1e-3


SPANS: Final = ("spans", "spans of a sidecar")
"""Formats whose runs are the pools of one fleet, at one time."""


@dataclass(frozen=True, slots=True, eq=False)
class StagedRun:
    """Requests of one run and workload; arrays of shape ``(requests,)``, NaN where unknown.

    Attributes:
        name: What tells it from the other runs of the file.
        pool: Who served it; empty where the file does not say.
        format: What the file is.
        records: The requests.
        before: Seconds of named parts of TTFT.
        after: Seconds of named parts of the time from first token to last.
        whole: Whether the parts are all there is: a simulation's.
        notes: What else the reader has to say.
    """

    name: str
    pool: str
    format: str
    records: Records
    before: Mapping[str, Floats] = field(default_factory=dict)
    after: Mapping[str, Floats] = field(default_factory=dict)
    whole: bool = False
    notes: tuple[str, ...] = ()


def read_staged(path: Path) -> tuple[StagedRun, ...]:
    """Read the requests of a file of spans, or of any benchmark that tells single requests.

    Raises:
        InputError: The file cannot be read, or tells no single requests.
    """
    found = probe(path)
    if claims(found):
        return _read_spans(path)
    runs = [_of_measurement(m) for m in read_measurements(path)]
    told = tuple(run for run in runs if run is not None)
    if not told:
        raise InputError(
            f"{path}: tells no single requests, only figures over many; joint compliance cannot be"
            " told from those: save the requests too (vllm bench serve --save-detailed)"
        )
    return told


def _of_measurement(m: Measurement) -> StagedRun | None:
    if m.records is None or not len(m.records):
        return None
    engine = {"queue": m.records.queue_s, "prefill": m.records.prefill_s}
    before = {name: column for name, column in engine.items() if np.isfinite(column).any()}
    pool = " ".join(x for x in (m.engine, m.model, m.accelerator) if x)
    return StagedRun(m.location or m.path.name, pool, m.format, m.records, before)


@dataclass(slots=True)
class _Span:
    """What a span says of a request, seconds."""

    trace: str
    start: float
    has: dict[str, float]
    """Numbers by attribute."""
    server: bool
    failed: bool
    name: str
    workload: str
    pool: str


def _read_spans(path: Path) -> tuple[StagedRun, ...]:
    spans = [span for service, node in spans_of(probe(path)) if (span := _span(service, node))]
    sidecars = {span.trace for span in spans if not span.server and span.trace}
    alone = [[s] for s in spans if s.server and s.trace not in sidecars]
    traces: dict[str, list[_Span]] = defaultdict(list)
    for span in spans:
        if span.trace in sidecars:
            traces[span.trace].append(span)
    rows = [_engine_row(group[0]) for group in alone]
    rows += [_group_row(group) for group in traces.values()]
    if not rows:
        raise InputError(
            f"{path}: no span of a request: none has {LATENCY}* of vLLM or {SIDECAR}* of a sidecar"
        )
    groups: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.start):
        groups[row.pool, row.workload].append(row)
    pools = Counter(workload for _, workload in groups)
    return tuple(
        _run(rows, pool, f"{workload} on {pool}" if pools[workload] > 1 else workload)
        for (pool, workload), rows in groups.items()
    )


def _span(service: str | None, node: Node) -> _Span | None:
    attributes = attributes_of(node)
    server = any(key.startswith(LATENCY) for key in attributes)
    name = node.text("name") or ""
    if not server and not name.startswith(SIDECAR) and not any(SIDECAR in k for k in attributes):
        return None
    start = start_of(node)
    if start is None:
        raise node.refuse("a request without its time; expected nanoseconds", "startTimeUnixNano")
    has = {
        key: number_of(value)
        for key, value in attributes.items()
        if value.has("doubleValue") or value.has("intValue")
    }
    status = node.at("status", "code")
    failed = (status is not None and status.value in _FAILED) or "error.type" in attributes
    workload = attributes.get("planner.workload") or attributes.get("gen_ai.request.model")
    return _Span(
        trace=node.text("traceId") or "",
        start=start,
        has=has,
        server=server,
        failed=failed,
        name=name,
        workload=(workload.text("stringValue") or "") if workload else "",
        pool=(service or "")[:200],
    )


@dataclass(slots=True)
class _Row:
    """One request, seconds."""

    pool: str
    workload: str
    start: float
    prompt: float
    output: float
    ttft: float
    e2e: float
    longest: float
    failed: bool
    before: dict[str, float]
    after: dict[str, float]
    whole: bool
    grouped: bool = False


def _first(has: Mapping[str, float], names: Sequence[str]) -> float:
    return next((has[name] for name in names if name in has), NAN)


def _engine_row(span: _Span) -> _Row:
    has = span.has
    ttft, e2e = has.get(f"{LATENCY}time_to_first_token", NAN), has.get(f"{LATENCY}e2e", NAN)
    output = _first(has, _OUTPUT)
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    whole = any(key.startswith(STAGE) for key in has)
    if whole:
        for key, value in has.items():
            if key.startswith(STAGE):
                side, name = key.removeprefix(STAGE).split(".", 1)
                (before if side == "before" else after)[name.removesuffix("_s")] = value
    else:
        before = _times(has, {"queue": "time_in_queue", "prefill": "time_in_model_prefill"})
    return _Row(
        pool=span.pool,
        workload=span.workload,
        start=span.start,
        prompt=_first(has, _PROMPT),
        output=output,
        ttft=ttft,
        e2e=e2e,
        longest=has.get("planner.longest_gap_s", NAN),
        failed=span.failed or not (ttft >= 0 and output >= 1),
        before=before,
        after=after,
        whole=whole,
    )


def _times(has: Mapping[str, float], names: Mapping[str, str]) -> dict[str, float]:
    return {ours: has[LATENCY + name] for ours, name in names.items() if LATENCY + name in has}


def _group_row(spans: list[_Span]) -> _Row:
    """Put the spans of one request together: sidecar, prefill engine, decode engine."""
    sidecar = [s for s in spans if not s.server]
    engines = sorted((s for s in spans if s.server), key=lambda s: s.start)
    has: dict[str, float] = {}
    for span in sidecar:
        has |= span.has
    start = min(span.start for span in spans)
    prompt = max((_first(s.has, _PROMPT) for s in engines), default=NAN)
    last = engines[-1] if engines else None
    row = _Row(
        pool=sidecar[0].pool,
        workload=last.workload if last else sidecar[0].workload,
        start=start,
        prompt=prompt,
        output=_first(last.has, _OUTPUT) if last else NAN,
        ttft=has.get(f"{SIDECAR}true_ttft_ms", NAN) * MS,
        e2e=has.get(f"{SIDECAR}total_duration_ms", NAN) * MS,
        longest=NAN,
        failed=any(span.failed for span in spans),
        before={},
        after={},
        whole=False,
        grouped=True,
    )
    if last is not None and len(engines) > 1:
        _both_engines(row, engines[0], last)
    elif f"{SIDECAR}prefill_duration_ms" in has:
        row.before["prefill_leg"] = has[f"{SIDECAR}prefill_duration_ms"] * MS
        row.before["handoff"] = has.get(f"{SIDECAR}coordinator_overhead_ms", 0.0) * MS
    row.failed = row.failed or not row.ttft >= 0
    return row


def _both_engines(row: _Row, first: _Span, last: _Span) -> None:
    """Tell the way of a request through two engines, all on the clock of the spans' starts."""
    apart = last.start - row.start
    row.ttft = apart + last.has.get(f"{LATENCY}time_to_first_token", NAN)
    row.e2e = apart + last.has.get(f"{LATENCY}e2e", NAN)
    row.before = _times(first.has, {"queue": "time_in_queue", "prefill": "time_in_model_prefill"})
    there = _times(last.has, {"on": "time_in_queue", "step": "time_in_model_prefill"})
    if "on" in there:
        row.before["kv_transfer"] = there["on"]
        row.before["first_decode_step"] = there.get("step", 0.0)
    known = sum(row.before.values())
    if "queue" in row.before and "kv_transfer" in row.before and row.ttft > known:
        row.before["handoff"] = row.ttft - known


def _run(rows: list[_Row], pool: str, name: str) -> StagedRun:
    def column(get: object) -> Floats:
        assert callable(get)
        return np.array([get(row) for row in rows], np.float64)

    failed = np.array([row.failed for row in rows])
    prompt, output = column(lambda r: r.prompt), column(lambda r: r.output)
    ttft, e2e = column(lambda r: r.ttft), column(lambda r: r.e2e)
    for values in (ttft, e2e):
        values[failed] = NAN
    with np.errstate(invalid="ignore"):
        tpot = np.where(output > 1, (e2e - ttft) / np.maximum(output - 1, 1), 0.0)
    tpot[~np.isfinite(output) | failed] = NAN
    nothing = np.full(len(rows), NAN)
    names = [list(dict.fromkeys(k for r in rows for k in part(r))) for part in (_before, _after)]
    before = {n: column(lambda r, n=n: r.before.get(n, NAN)) for n in names[0]}
    after = {n: column(lambda r, n=n: r.after.get(n, NAN)) for n in names[1]}
    start = column(lambda r: r.start)
    records = Records(
        completed=~failed,
        start_s=start - start[0],
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
        max_itl_s=column(lambda r: r.longest),
        queue_s=before.get("queue", nothing),
        prefill_s=before.get("prefill", nothing),
        decode_s=e2e - ttft,
    )
    kind = SPANS[any(row.grouped for row in rows)]
    whole = all(row.whole or row.failed for row in rows)
    return StagedRun(name or pool, pool, kind, records, before, after, whole)


def _before(row: _Row) -> dict[str, float]:
    return row.before


def _after(row: _Row) -> dict[str, float]:
    return row.after
