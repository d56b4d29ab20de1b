"""SGLang ``bench_serving`` results: one JSON object a line, in milliseconds.

TPOT is per request and 0 for one-token outputs, as ours. ``request_rate`` may be ``Infinity``,
which is no JSON, or ``"trace"``. Some versions write a TTFT of 0 for every request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    TOKEN_TPOT,
    arrivals_of,
    finished,
)
from planner.measurements.files import rows_of
from planner.measurements.measurement import Arrivals, Measurement, Slo
from planner.measurements.node import MS
from planner.measurements.tools import vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency
    from planner.measurements.node import Node

TPOT: Final = replace(TOKEN_TPOT, why="")
SHARED_DATASETS: Final = ("generated-shared-prefix", "gsp", "mooncake")


def claims(found: Probe) -> bool:
    """Tell a result of SGLang's ``bench_serving``."""
    needs = {"mean_e2e_latency_ms", "completed", "duration"}
    return found.kind in ("json", "jsonl") and found.keys >= needs


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per line.

    Raises:
        InputError: A value is missing, of the wrong kind or out of bounds.
    """
    for i, row in enumerate(rows_of(found)):
        location = row.where.removeprefix(str(found.path)).lstrip(":") or f"result {i}"
        yield _measurement(row, found, location)


def _measurement(node: Node, found: Probe, location: str) -> Measurement:
    common = vllm.measurement_of(_plain(node), found.path, location)
    latencies: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "ttft"),
        (TPOT, "tpot"),
        (CHUNK_ITL, "itl"),
        (CLIENT_E2E, "e2e_latency"),
    ):
        latencies += definition.of(vllm.ms_statistics(node, name), f"{name}_ms")
    dataset = node.first_text("dataset_name")
    server = node.at("server_info")
    tp = server.whole("tp_size", low=1) if server else None
    m = replace(
        common,
        format="sglang bench_serving",
        tool="sglang bench_serving",
        latencies=latencies,
        arrivals=_arrivals(node),
        engine=_engine(node),
        model=node.first_text("model_id", "model") or _of_server(server, "model_path"),
        engine_version=_of_server(server, "version"),
        tp_degree=tp,
        dp_degree=server.whole("dp_size", low=1) if server else None,
        pp_degree=server.whole("pp_size", low=1) if server else None,
        precision=_of_server(server, "quantization"),
        mean_concurrency=node.number("concurrency"),
        goodput_rps=node.number("request_goodput"),
        attainment=node.number("slo_attainment", high=1.0),
        slo=_slo(node.at("goodput_slos_ms")),
        shared_prompts=f"dataset {dataset}" if dataset in SHARED_DATASETS else None,
    )
    return finished(m)


def _plain(node: Node) -> Node:
    """Hide what SGLang writes otherwise than the reader of vLLM's results expects."""
    hidden = ("request_rate", "backend", "request_goodput")
    rest = {key: value for key, value in node.table().items() if key not in hidden}
    return replace(node, value=rest)


def _arrivals(node: Node) -> Arrivals | None:
    cap = node.number("max_concurrency")
    if node.has("request_rate") and isinstance(node.value["request_rate"], str):
        word = node.value["request_rate"].lower()
        if word == "trace":
            return Arrivals("trace", concurrency=cap)
        if word in ("inf", "infinity"):
            return arrivals_of(float("inf"), cap)
    return arrivals_of(node.unbounded("request_rate"), cap)


def _engine(node: Node) -> str | None:
    backend = node.first_text("backend") or ""
    if backend.startswith("sglang"):
        return "sglang"
    return backend if backend in vllm.ENGINES else None


def _slo(node: Node | None) -> Slo | None:
    if node is None:
        return None
    return Slo(
        ttft_s=node.number("ttft", scale=MS),
        tpot_s=node.number("tpot", scale=MS),
        e2e_s=node.number("e2el" if node.has("e2el") else "e2e", scale=MS),
    )


def _of_server(server: Node | None, name: str) -> str | None:
    return server.text(name) if server else None
