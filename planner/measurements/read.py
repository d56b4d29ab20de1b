"""Any benchmark file to measurements: which tool wrote it, then that tool's reader."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from planner.errors import InputError
from planner.measurements.build import finished
from planner.measurements.files import probe
from planner.measurements.tools import (
    aiperf,
    closed_loop_means,
    dynamo,
    engine_requests,
    guidellm,
    inference_perf,
    inference_perf_requests,
    inferencex,
    ladders,
    llmd,
    llmperf,
    mlperf,
    otel,
    prometheus,
    sglang,
    vllm,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Given, Measurement

MOST_MEASUREMENTS: Final = 500_000


@dataclass(frozen=True, slots=True)
class Format:
    """An outside format.

    Attributes:
        name: What errors and documents call it.
        claims: Tells whether a file is of this format, by its outside.
        read: Reads one that is.
    """

    name: str
    claims: Callable[[Probe], bool]
    read: Callable[[Probe], Iterator[Measurement]]


FORMATS: Final = (
    Format("vllm bench serve", vllm.claims, vllm.read),
    Format("vllm bench sweep", vllm.claims_sweep, vllm.read_sweep),
    Format("sglang bench_serving", sglang.claims, sglang.read),
    Format("guidellm", guidellm.claims, guidellm.read),
    Format("aiperf or genai-perf", aiperf.claims, aiperf.read),
    Format("aiperf or genai-perf csv", aiperf.claims_csv, aiperf.read_csv),
    Format("aiperf records", aiperf.claims_records, aiperf.read_records),
    Format("aiperf or genai-perf folder", aiperf.claims_folder, aiperf.read_folder),
    Format("inference-perf", inference_perf.claims, inference_perf.read),
    Format("inference-perf folder", inference_perf.claims_folder, inference_perf.read_folder),
    Format("inference-perf requests", inference_perf_requests.claims, inference_perf_requests.read),
    Format("llmperf", llmperf.claims, llmperf.read),
    Format("llmperf responses", llmperf.claims_records, llmperf.read_records),
    Format("mlperf loadgen", mlperf.claims, mlperf.read),
    Format("inferencex", inferencex.claims, inferencex.read),
    Format("vllm prometheus", prometheus.claims, prometheus.read),
    Format("vllm spans", otel.claims, otel.read),
    Format("llm-d report", llmd.claims, llmd.read),
    Format("dynamo profile", dynamo.claims, dynamo.read),
    Format("closed-loop means", closed_loop_means.claims, closed_loop_means.read),
    Format("load levels", ladders.claims, ladders.read),
    Format("engine requests", engine_requests.claims, engine_requests.read),
    Format("requests", ladders.claims_requests, ladders.read_requests),
)


def sniff(path: Path) -> str:
    """Return the name of the format of a file or folder, told by what is in it.

    Raises:
        InputError: The file cannot be read, or is of no known format.
    """
    return _format_of(probe(path)).name


def read_measurements(path: Path, given: Given | None = None) -> tuple[Measurement, ...]:
    """Read what a benchmark measured, one measurement per load level.

    Args:
        path: A result of any known tool, or the folder it wrote.
        given: What the caller knows beside the file; it replaces what the file says.

    Raises:
        InputError: The file cannot be read, is of no known format, or holds what makes no
            sense: NaN, infinite or negative values, wrong types, cut-off text.
    """
    found = probe(path)
    read: list[Measurement] = []
    for measurement in _format_of(found).read(found):
        read.append(_given(measurement, given) if given else measurement)
        if len(read) > MOST_MEASUREMENTS:
            raise InputError(f"{path}: more than {MOST_MEASUREMENTS:,} load levels")
    if not read:
        raise InputError(f"{path}: holds no measurement")
    return tuple(read)


def _format_of(found: Probe) -> Format:
    for candidate in FORMATS:
        if candidate.claims(found):
            return candidate
    known = ", ".join(candidate.name for candidate in FORMATS)
    raise InputError(f"{found.path}: of no known benchmark format; known: {known}")


def _given(measurement: Measurement, given: Given) -> Measurement:
    """Put in what the caller knows, and note where the file said otherwise."""
    changes: dict[str, Any] = {
        field.name: getattr(given, field.name)
        for field in fields(given)
        if getattr(given, field.name) is not None
    }
    notes = tuple(
        f"{name}: the file says {getattr(measurement, name)}; {value} was given"
        for name, value in changes.items()
        if isinstance(value, str | int | float) and getattr(measurement, name) not in (None, value)
    )
    if "arrivals" in changes:
        changes["offered_rps"] = changes["arrivals"].rate_rps
    return finished(replace(measurement, **changes, notes=measurement.notes + notes))
