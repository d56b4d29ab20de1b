"""OpenTelemetry spans of vLLM, as OTLP JSON: one request a span, in seconds.

Time to first token and E2E are taken in the server's frontend, the queue, prefill and decode
times in the engine; so the first is longer than queue + prefill. Times in the network and in the
client are in none of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import finished, records, tpot_of
from planner.measurements.files import rows_of
from planner.measurements.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.node import Node

COLUMNS: Final = {
    "ttft_s": "gen_ai.latency.time_to_first_token",
    "e2e_s": "gen_ai.latency.e2e",
    "queue_s": "gen_ai.latency.time_in_queue",
    "prefill_s": "gen_ai.latency.time_in_model_prefill",
    "decode_s": "gen_ai.latency.time_in_model_decode",
    "prompt_tokens": "gen_ai.usage.prompt_tokens",
    "output_tokens": "gen_ai.usage.completion_tokens",
}
MOST_SPANS: Final = 2_000_000
KINDS: Final = ("doubleValue", "intValue")


def claims(found: Probe) -> bool:
    """Tell an OTLP document, or a file with one a line."""
    return found.kind in ("json", "jsonl") and "resourceSpans" in found.keys


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of all request spans of the file, in order of their start.

    Raises:
        InputError: No span holds vLLM's attributes, or one of them is no number.
    """
    rows: list[tuple[float, ...]] = []
    services: set[str] = set()
    for service, span in spans_of(found):
        if service:
            services.add(service)
        _take(rows, span)
    if not rows:
        raise InputError(f"{found.path}: no span with gen_ai.latency attributes of vLLM")
    table = np.array(sorted(rows, key=lambda row: (math.isnan(row[0]), row[0])), np.float64)
    yield _measurement(found, table, services)


def spans_of(found: Probe) -> Iterator[tuple[str | None, Node]]:
    """Yield every span of a file, with the name of the service that wrote it.

    Raises:
        InputError: The file is no OTLP, or has too many spans.
    """
    number = 0
    for document in rows_of(found):
        for resource in _listed(document, "resourceSpans"):
            service = _service(resource)
            for scope in (*_listed(resource, "scopeSpans"), *_listed(resource, "ilSpans")):
                for span in _listed(scope, "spans"):
                    number += 1
                    if number > MOST_SPANS:
                        raise InputError(f"{found.path}: more than {MOST_SPANS:,} spans")
                    yield service, span


def attributes_of(span: Node) -> dict[str, Node]:
    """Return the attributes of a span that hold anything, by name."""
    found: dict[str, Node] = {}
    for attribute in _listed(span, "attributes"):
        key, value = attribute.text("key"), attribute.at("value")
        if key is not None and value is not None:
            found[key] = value
    return found


def number_of(value: Node) -> float:
    """Return the number of an attribute.

    Raises:
        InputError: It is none, or below 0.
    """
    kind = next((kind for kind in KINDS if value.has(kind)), None)
    if kind is None:
        raise value.refuse("expected doubleValue or intValue")
    return replace(value, cells=True).number(kind) or 0.0  # OTLP writes int64 as text


def start_of(span: Node) -> float | None:
    """Return the start of a span in seconds since 1970, where it has one."""
    start = replace(span, cells=True).number("startTimeUnixNano", high=1e20)
    return None if start is None else start * 1e-9


def _listed(node: Node, name: str) -> Iterator[Node]:
    found = node.at(name)
    if found is not None:
        yield from found.elements()


def _service(resource: Node) -> str | None:
    attributes = resource.at("resource", "attributes")
    for attribute in attributes.elements() if attributes else ():
        if attribute.text("key") == "service.name":
            value = attribute.at("value")
            return value.text("stringValue") if value else None
    return None


def _take(rows: list[tuple[float, ...]], span: Node) -> None:
    values = {
        key: number_of(value)
        for key, value in attributes_of(span).items()
        if key in COLUMNS.values()
    }
    if "gen_ai.latency.e2e" not in values:
        return
    start, nan = start_of(span), float("nan")
    rows.append(
        (
            nan if start is None else start,
            *(values.get(name, nan) for name in COLUMNS.values()),
        )
    )


def _measurement(found: Probe, table: Any, services: set[str]) -> Measurement:
    start = table[:, 0]
    columns = dict(zip(COLUMNS, table[:, 1:].T, strict=True))
    # A span without a first token is a request that brought none.
    completed = (columns["output_tokens"] > 0) & np.isfinite(columns["ttft_s"])
    of = records(
        len(table),
        completed=completed,
        start_s=start,
        tpot_s=tpot_of(columns["e2e_s"], columns["ttft_s"], columns["output_tokens"]),
        **columns,
    )
    ends = start + columns["e2e_s"]
    span = float(np.nanmax(ends) - np.nanmin(start)) if np.isfinite(ends).any() else 0.0
    done = int(completed.sum())
    return finished(
        Measurement(
            format="vllm spans",
            tool="opentelemetry",
            view="server",
            path=found.path,
            location="",
            engine="vllm",
            sent=len(of),
            completed=done,
            failed=len(of) - done,
            duration_s=span if span > 0 else None,
            records=of,
            notes=tuple(f"service {name[:120]}" for name in sorted(services)[:5]),
        )
    )
