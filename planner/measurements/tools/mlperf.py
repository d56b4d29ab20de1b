"""MLPerf LoadGen summaries (``mlperf_log_summary.txt``): text, in nanoseconds.

Latencies count from the *scheduled* issue, so queueing in front of the system is in, as in our
TTFT. "Time to Output Token" is per request, (last − first) / (output tokens − 1): our TPOT.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planner.measurements.build import Definition, finished, observed_mean
from planner.measurements.files import lines_of
from planner.measurements.measurement import Arrivals, Measurement, Slo, Statistics
from planner.measurements.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

NS: Final = 1e-9
LONGEST_NS: Final = 1e17
MOST_LINES: Final = 10_000
TITLE: Final = "MLPerf Results Summary"
NAMES: Final = {
    "first token latency": Definition(
        "ttft", "requests", "same", "scheduled issue to first token: queueing is in"
    ),
    "time to output token": Definition(
        "tpot", "requests", "same", "per request: (last - first token) / (output tokens - 1)"
    ),
    "latency": Definition("e2e", "requests", "same", "scheduled issue to last token"),
}
_LINE: Final = re.compile(r"^([^:]{1,80}?)\s*:\s*(\S.{0,200}?)\s*$")
_SHARE: Final = re.compile(r"^(\d+(?:\.\d+)?) percentile (.*)$")
_FIELDS: Final = {
    50.0: "p50",
    90.0: "p90",
    95.0: "p95",
    99.0: "p99",
    99.9: "p999",
}


def claims(found: Probe) -> bool:
    """Tell a summary of LoadGen."""
    return found.kind == "text" and TITLE in found.data


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a summary.

    Raises:
        InputError: A value is no number or out of bounds.
    """
    node = _table(found)
    scenario = node.text("scenario")
    tokens = node.number("completed tokens per second")
    samples = node.number("completed samples per second")
    if samples is None:
        samples = node.number("samples per second")
    if tokens is None:
        tokens = node.number("tokens per second")
    offered = node.number("scheduled samples per second")
    verdict = node.text("result is")
    rate = offered if offered is not None else node.number("target_qps")
    server = scenario is not None and scenario.lower() in ("server", "interactive")
    offline = scenario is not None and scenario.lower() == "offline"
    arrivals = Arrivals("poisson", rate, burstiness=1.0) if server and rate else None
    notes = [f"scenario {scenario}"] if scenario else []
    if verdict:
        notes.append(f"result is {verdict}")
    yield finished(
        Measurement(
            format="mlperf loadgen",
            tool="mlperf loadgen",
            path=found.path,
            location="",
            arrivals=Arrivals("unlimited") if offline else arrivals,
            offered_rps=rate if server else None,
            completed_rps=samples,
            output_tokens_per_s=tokens,
            output=observed_mean(tokens, samples),
            latencies=_latencies(node),
            slo=_slo(node),
            notes=tuple(notes),
        )
    )


def _table(found: Probe) -> Node:
    """Collect ``name : value`` lines; the first of a name counts."""
    table: dict[str, Any] = {}
    for number, line in enumerate(lines_of(found.path), start=1):
        if number > MOST_LINES:
            break
        if match := _LINE.match(line.strip()):
            table.setdefault(match[1].strip().lower(), match[2])
    return Node(table, str(found.path), cells=True)


def _latencies(node: Node) -> tuple[Latency, ...]:
    made: tuple[Latency, ...] = ()
    for name, definition in NAMES.items():
        values: dict[str, float | None] = {
            field: node.number(f"{field} {name} (ns)", scale=NS, high=LONGEST_NS)
            for field in ("min", "mean", "max")
        }
        for key in node.table():
            share = _SHARE.match(key)
            if share and share[2] == f"{name} (ns)" and float(share[1]) in _FIELDS:
                field = _FIELDS[float(share[1])]
                values[field] = node.number(key, scale=NS, high=LONGEST_NS)
        made += definition.of(Statistics(**values), name)  # type: ignore[arg-type]
    return made


def _slo(node: Node) -> Slo | None:
    """Read the deadlines of the 99th percentile; 0 stands for none."""
    names = ("ttft_latency (ns)", "tpot_latency (ns)", "target_latency (ns)")
    values = [node.number(name, scale=NS, high=LONGEST_NS) or None for name in names]
    return Slo(*values) if any(values) else None
