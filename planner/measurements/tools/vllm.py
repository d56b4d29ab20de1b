"""vLLM ``bench serve`` results, with and without details, and the folders of its sweeps.

Times of the summary are milliseconds, those of the single requests are seconds. TPOT is per
request, without one-token outputs. Files from before 2025 have no ``failed`` and count requests
that brought no token as completed.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    TOKEN_TPOT,
    arrivals_of,
    finished,
    keyed_statistics,
    nominal,
    observed_mean,
    records,
    tpot_of,
)
from planner.measurements.files import parse_json, probe, read_text, rows_of
from planner.measurements.measurement import Lengths, Measurement, Statistics, statistics_of
from planner.measurements.node import MS, Node
from planner.source import is_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency, Records

ENGINES: Final = ("vllm", "sglang", "tgi", "lmdeploy", "tensorrt-llm", "scalellm", "deepspeed-mii")
"""Values of ``backend`` that name an engine; the others name a protocol."""
SETTINGS: Final = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "gpu_memory_utilization",
    "block_size",
    "spec_decode_acceptance_length",
)
DEEPEST_FOLDER: Final = 3
MOST_RUNS: Final = 5000
FAILED: Final = ".failure.json"


def claims(found: Probe) -> bool:
    """Tell a result of ``vllm bench serve``, one or several, or the summary table of a sweep."""
    needs = {"model_id", "request_throughput", "total_output_tokens"}
    return found.kind in ("json", "jsonl", "csv") and found.keys >= needs


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per result.

    Raises:
        InputError: A value is missing, of the wrong kind or out of bounds.
    """
    for i, row in enumerate(rows_of(found)):
        location = row.where.removeprefix(str(found.path)).lstrip(":") or f"result {i}"
        yield measurement_of(row, found.path, location)


def measurement_of(node: Node, path: Path, location: str) -> Measurement:
    """Read one result.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    completed = node.whole("completed")
    sent = node.whole("num_prompts")
    failed = node.whole("failed")
    if failed is None and sent is not None and completed is not None:
        failed = max(sent - completed, 0)
    of = _records(node)
    goodput = node.number("request_goodput")
    duration = node.number("duration")
    rate = node.unbounded("request_rate") if not _is_inf(node) else float("inf")
    arrivals = arrivals_of(
        rate, node.number("max_concurrency"), burstiness=node.number("burstiness")
    )
    ramp = node.first_text("ramp_up_strategy")
    if ramp and arrivals:
        arrivals = replace(arrivals, mode="trace", rate_rps=None)
    good = goodput * duration / sent if goodput is not None and duration and sent else None
    m = Measurement(
        format="vllm bench serve",
        tool="vllm bench serve",
        path=path,
        location=location,
        arrivals=arrivals,
        offered_rps=arrivals.rate_rps if arrivals else None,
        completed_rps=node.number("request_throughput"),
        sent=sent,
        completed=completed,
        failed=failed,
        duration_s=duration,
        output_tokens_per_s=node.number("output_throughput"),
        prompt=_lengths(node, "input", completed, of),
        output=_lengths(node, "output", completed, of),
        latencies=_latencies(node, of),
        goodput_rps=goodput,
        attainment=good,
        peak_concurrency=node.number("max_concurrent_requests"),
        records=of,
        repeated_outputs=_repeated(node),
        notes=(f"ramp-up {ramp}: the rate changed during the run",) if ramp else (),
        **deployment(node),
    )
    return finished(m)


def _is_inf(node: Node) -> bool:
    return node.has("request_rate") and str(node.value["request_rate"]).lower() in (
        "inf",
        "infinity",
    )


def deployment(node: Node) -> dict[str, Any]:
    """Read who served, from the result, its sweep overrides and ``--metadata key=value``.

    Raises:
        InputError: A degree is no whole number, or a name no text.
    """
    backend = node.first_text("backend", "endpoint_type")
    engine = backend if backend in ENGINES else None
    tp = _degree(node, "tensor_parallel_size", "tp", "tp_size", "tp_degree")
    prefix = node.number("random_prefix_len")
    chosen = [(name, str(node.value[name])[:80]) for name in SETTINGS if node.has(name)]
    dtype = node.first_text("precision", "quantization", "dtype")
    return {
        "engine": node.first_text("engine") or engine,
        "engine_version": node.first_text("engine_version", "vllm_version", "server_version"),
        "model": node.first_text("model_id"),
        "accelerator": node.first_text("accelerator", "gpu", "gpu_type", "gpu_name", "hardware"),
        "accelerators": _degree(node, "accelerators", "num_gpus", "gpu_count"),
        "tp_degree": tp,
        "pp_degree": _degree(node, "pipeline_parallel_size", "pp", "pp_size"),
        "dp_degree": _degree(node, "data_parallel_size", "dp", "dp_size"),
        "precision": None if dtype == "auto" else dtype,
        "settings": tuple(chosen),
        "shared_prompts": f"random prompts share a prefix of {prefix:g} tokens" if prefix else None,
    }


def _degree(node: Node, *names: str) -> int | None:
    return next((node.whole(name, low=1) for name in names if node.has(name)), None)


def _latencies(node: Node, of: Records | None) -> tuple[Latency, ...]:
    tpot = TOKEN_TPOT
    if of is not None and (of.output_tokens[of.completed] <= 1).any():
        tpot = replace(tpot, fit="close")
    made: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "ttft"),
        (tpot, "tpot"),
        (CHUNK_ITL, "itl"),
        (CLIENT_E2E, "e2el"),
    ):
        made += definition.of(ms_statistics(node, name), f"{name}_ms")
    return made


def ms_statistics(node: Node, name: str) -> Statistics:
    """Read ``mean_<name>_ms``, ``p99_<name>_ms`` and their like, in seconds.

    Raises:
        InputError: A value is no number, or below 0.
    """
    names = {
        "mean": f"mean_{name}_ms",
        "std": f"std_{name}_ms",
        "max": f"max_{name}_ms",
        "p50": f"median_{name}_ms" if node.has(f"median_{name}_ms") else f"p50_{name}_ms",
        "p75": f"p75_{name}_ms",
        "p90": f"p90_{name}_ms",
        "p95": f"p95_{name}_ms",
        "p99": f"p99_{name}_ms",
        "p999": f"p99.9_{name}_ms",
    }
    return keyed_statistics(node, names, scale=MS)


def _lengths(node: Node, side: str, completed: int | None, of: Records | None) -> Lengths | None:
    """Return the lengths of completed requests, or what the client was told to send."""
    if of is not None and len(of) >= (completed or 0):
        each = of.prompt_tokens if side == "input" else of.output_tokens
        statistics = statistics_of(each[of.completed])
        if statistics.known:
            return Lengths(statistics, "observed")
    total = node.number(f"total_{side}_tokens")
    return observed_mean(total, completed) or nominal(node.number(f"random_{side}_len"))


def _records(node: Node) -> Records | None:
    """Read the arrays of ``--save-detailed``; all are seconds or tokens, one entry a request."""
    ttfts = node.numbers("ttfts")
    prompts, outputs = node.numbers("input_lens"), node.numbers("output_lens")
    if ttfts is None or outputs is None or not len(ttfts):
        return None
    gaps = node.at("itls")
    sums, longest = _sums(gaps, len(ttfts)) if gaps else (None, None)
    starts = node.numbers("start_times")
    for name, column in (
        ("input_lens", prompts),
        ("output_lens", outputs),
        ("itls", sums),
        ("start_times", starts),
    ):
        if column is not None and len(column) != len(ttfts):
            raise node.refuse(f"{len(column)} entries, but ttfts has {len(ttfts)}", name)
    completed = (outputs > 0) & ~_errors(node, len(ttfts))
    if (ttfts > 0).any():
        completed &= ttfts > 0
    else:  # the client did not measure it
        ttfts = np.full(len(ttfts), np.nan)
    e2e = ttfts + sums if sums is not None else None
    return records(
        len(ttfts),
        completed=completed,
        start_s=starts,
        prompt_tokens=prompts,
        output_tokens=outputs,
        ttft_s=ttfts,
        tpot_s=tpot_of(e2e, ttfts, outputs) if e2e is not None else None,
        e2e_s=e2e,
        max_itl_s=longest,
    )


def _sums(gaps: Node, size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    sums, longest = [], []
    for row in gaps.elements():
        if not isinstance(row.value, list):
            raise row.refuse("expected a list of gaps in seconds")
        values = row.vector(row.value)
        sums.append(float(values.sum()))
        longest.append(float(values.max()) if len(values) else 0.0)
    if len(sums) != size:
        raise gaps.refuse(f"{len(sums)} entries, but ttfts has {size}")
    return np.array(sums), np.array(longest)


def _errors(node: Node, size: int) -> np.ndarray[Any, Any]:
    errors = node.at("errors")
    if errors is None:
        return np.zeros(size, np.bool_)
    found = [bool(error.value) for error in errors.elements()]
    if len(found) != size:
        raise errors.refuse(f"{len(found)} entries, but ttfts has {size}")
    return np.array(found, np.bool_)


def _repeated(node: Node) -> float | None:
    """Return the share of output texts that another request got too."""
    texts = node.at("generated_texts")
    if texts is None:
        return None
    seen: dict[bytes, int] = {}
    for text in texts.elements():
        if isinstance(text.value, str) and len(text.value) >= 40:
            raw = text.value.encode("utf-8", errors="replace")
            key = hashlib.blake2b(raw, digest_size=12).digest()
            seen[key] = seen.get(key, 0) + 1
    total = sum(seen.values())
    return sum(n for n in seen.values() if n > 1) / total if total else None


def claims_sweep(found: Probe) -> bool:
    """Tell the folder of ``vllm bench sweep``: the experiment, or one combination of it."""
    if found.kind != "folder":
        return False
    names = found.data
    return any(
        name.startswith(("SERVE-", "run=")) or name in ("serve-params.json", "bench-params.json")
        for name in names
    )


def read_sweep(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per run of a sweep; the summary table where no run file is left.

    Raises:
        InputError: No run is found, or a run cannot be read.
    """
    files = sorted(_run_files(found.path, DEEPEST_FOLDER))
    runs = [path for path in files if not path.name.endswith(FAILED)]
    failures = len(files) - len(runs)
    if not runs and "summary.csv" in found.data:
        yield from read(probe(found.path / "summary.csv"))
        return
    if not runs:
        raise InputError(f"{found.path}: a sweep's folder without a run; expected run=0.json")
    for run in runs:
        row = Node(parse_json(run, read_text(run)), str(run))
        row.table()
        folder = run.parent.name if run.parent != found.path else ""
        m = measurement_of(row, run, folder)
        notes = (*m.notes, f"failed runs of the sweep: {failures}") if failures else m.notes
        yield replace(m, format="vllm bench sweep", tool="vllm bench sweep", notes=notes)


def _run_files(folder: Path, depth: int) -> Iterator[Path]:
    for number, name in enumerate(probe(folder).data):
        if number > MOST_RUNS:
            raise InputError(f"{folder}: more than {MOST_RUNS} runs")
        entry = folder / name
        if name.startswith("run=") and name.endswith(".json"):
            yield entry
        elif depth and name.startswith(("SERVE-", "WL-", "BENCH-")) and is_folder(entry):
            yield from _run_files(entry, depth - 1)
