"""Files of single requests: lengths of each, and when its tokens came.

Requests of one setting and rate, in the order of the file, are one run of arrivals; each is
predicted as the mean over draws of the arrival times, which the file does not hold.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.cells import (
    MOST_MS,
    MOST_RPS,
    MOST_TOKENS,
    column_names_of,
    number_in,
    required,
    rows_of,
)
from planner.calibration.ladders import SPREAD, knowledge_of
from planner.calibration.physics import engine_times, rank_law
from planner.calibration.points import Load, Stage, System
from planner.calibration.predict import Estimate
from planner.calibration.settings import settings_of
from planner.curves.roofline import Degrees, formats_of, geometry_of
from planner.errors import InputError
from planner.kernels.closed_loop import serve_arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.calibration.physics import Physics
    from planner.catalogue import Accelerator, Catalogue, Llm

    Floats = NDArray[np.float64]

COLUMNS: Final = frozenset({"config", "request_rate", "input_len", "output_len", "ttft_ms"})
DRAWS: Final = 8
NO_TOKEN: Final = "no token came: the request failed"
_SEED: Final = 20_260_704
_DEVICES: Final = re.compile(r"(\d+)x(H100SXM5|H100|Mi300x)", re.IGNORECASE)
_ACCELERATORS: Final = {"h100sxm5": "h100-sxm", "h100": "h100-sxm", "mi300x": "mi300x"}
_NAMED: Final = re.compile(
    r"(llama|qwen|mixtral|deepseek|gpt-oss)[-_]?(\d+b)(?![a-z0-9])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request of a file."""

    row: int
    config: str
    rate_rps: float
    prompt_tokens: int
    output_tokens: int
    """0: no token came; the request failed."""
    ttft_s: float | None
    tpot_s: float | None


@dataclass(frozen=True, slots=True)
class RequestPrediction:
    """What is predicted of one request; None and a reason where nothing can be."""

    row: int
    id: str
    system: System | None
    ttft_s: Estimate | None
    tpot_s: Estimate | None
    measured: tuple[float | None, float | None]
    source: str
    reason: str = ""


def is_requests(path: Path) -> bool:
    """Tell whether a file holds single requests, by its header.

    Raises:
        InputError: It cannot be read.
    """
    return column_names_of(path) >= COLUMNS


def predict_requests(physics: Physics, path: Path, catalogue: Catalogue) -> list[RequestPrediction]:
    """Predict every request of a file, in its order.

    Raises:
        InputError: The file cannot be read.
    """
    found: list[RequestPrediction] = []
    runs: dict[tuple[str, float], list[RequestRow]] = defaultdict(list)
    for row, line in enumerate(rows_of(path)):
        try:
            request = _request(row, line.whole())
            runs[request.config, request.rate_rps].append(request)
        except InputError as error:
            name = f"{line.cells.get('config')} {row}"
            found.append(
                RequestPrediction(row, name, None, None, None, (None, None), "", str(error))
            )
    try:
        systems = _systems(path, sorted({config for config, _ in runs}), catalogue)
    except InputError as error:
        every = [request for requests in runs.values() for request in requests]
        return sorted([*found, *(_none(r, str(error)) for r in every)], key=lambda p: p.row)
    for (config, _), requests in runs.items():
        try:
            found += _run(physics, systems[config], requests)
        except InputError as error:
            found += [_none(r, str(error)) for r in requests]
    return sorted(found, key=lambda p: p.row)


def _none(request: RequestRow, reason: str) -> RequestPrediction:
    measured = request.ttft_s, request.tpot_s
    return RequestPrediction(request.row, _id(request), None, None, None, measured, "", reason)


def _id(request: RequestRow) -> str:
    return f"{request.config} {request.rate_rps:g} req/s {request.row}"


def _request(row: int, cells: Mapping[str, str]) -> RequestRow:
    ttft, tpot = number_in(cells, "ttft_ms", MOST_MS), number_in(cells, "tpot_ms", MOST_MS)
    return RequestRow(
        row,
        cells["config"],
        required(cells, "request_rate", MOST_RPS),
        round(required(cells, "input_len", MOST_TOKENS)),
        round(number_in(cells, "output_len", MOST_TOKENS) or 0),
        ttft / 1e3 if ttft else None,
        tpot / 1e3 if tpot else None,
    )


def _systems(path: Path, configs: Sequence[str], catalogue: Catalogue) -> dict[str, System]:
    """Return what served each setting: one model, told by the file's name, in one precision."""
    llm = _llm(path, catalogue)
    devices: dict[str, tuple[Accelerator, int]] = {}
    for config in configs:
        found = _DEVICES.match(config)
        if found is None:
            raise InputError(f"config: {config!r} states no devices that are understood")
        accelerator = catalogue.accelerator(_ACCELERATORS[found[2].lower()])
        devices[config] = accelerator, int(found[1])
    precision = _precision(llm, list(devices.values()))
    return {
        config: System(llm, precision, accelerator, "vllm", "", "colocated", Stage(Degrees(n), 1))
        for config, (accelerator, n) in devices.items()
    }


def _llm(path: Path, catalogue: Catalogue) -> Llm:
    """Return the only unquantised model whose name has the words of the file's name."""
    for found in _NAMED.finditer(path.name):
        family, size = found[1].lower(), found[2].lower()
        ids = [i for i in catalogue.llm_ids() if i.startswith(family) and i.endswith(f"-{size}")]
        if len(ids) == 1:
            return catalogue.llm(ids[0])
    raise InputError("model: neither the rows nor the file's name say which; put it in the name")


def _precision(llm: Llm, devices: Sequence[tuple[Accelerator, int]]) -> str:
    """Return the widest usual format that every setting's devices can hold."""
    g = geometry_of(llm)
    for precision in ("bf16", "fp8", "int4"):
        f = formats_of(precision, g.family)
        weights = g.plain_params * f.plain_bytes + g.experts * g.expert_params * f.expert_bytes
        if all(weights < 0.9 * n * float(a.memory) for a, n in devices):
            return precision
    raise InputError(f"the devices do not hold {llm.id} in any usual format")


def _run(
    physics: Physics, system: System, requests: Sequence[RequestRow]
) -> list[RequestPrediction]:
    served = [r for r in requests if r.output_tokens > 0]
    failed = [
        _none(r, "no token came: the request failed") for r in requests if not r.output_tokens
    ]
    if not served:
        return failed
    at = np.flatnonzero([r.output_tokens > 0 for r in requests])
    law, constants = physics.law(system), physics.constants(system.engine)
    prompt = np.array([r.prompt_tokens for r in served], dtype=np.int32)
    output = np.array([r.output_tokens for r in served], dtype=np.int32)
    load = Load(1, int(prompt.mean()), int(output.mean()), "fixed")
    times = engine_times(settings_of(system, load, 1), constants, law.kv_tokens)
    ttft, tpot = [], []
    for draw in range(DRAWS):
        rng = np.random.default_rng((_SEED, draw))
        sent = np.cumsum(rng.exponential(1 / requests[0].rate_rps, len(requests)))[at]
        records = serve_arrivals(rank_law(law.law), times, sent, prompt, output)
        ttft.append(records.first_token_s - records.sent_s + times.path_out_s)
        tpot.append((records.finish_s - records.first_token_s) / np.maximum(output - 1, 1))
    half = SPREAD[knowledge_of(law)]
    first, pace = _estimates(np.array(ttft), half[0]), _estimates(np.array(tpot), half[1])
    note = f"{law.source}; {system.llm.id} in {system.precision}, from the file's name and memory"
    return failed + [
        RequestPrediction(
            r.row, _id(r), system, t, o if r.output_tokens > 1 else None, (r.ttft_s, r.tpot_s), note
        )
        for r, t, o in zip(served, first, pace, strict=True)
    ]


def _estimates(draws: Floats, spread: float) -> list[Estimate]:
    """Return the mean over draws of each request, and its band; draws of shape ``(draws, n)``.

    The band is the system's, with one request's own luck on top.
    """
    logs = np.log(np.maximum(draws, 1e-6))
    half = np.hypot(spread, 1.645 * logs.std(axis=0, ddof=1))
    value = draws.mean(axis=0)
    return [
        Estimate(float(v), float(v * np.exp(-h)), float(v * np.exp(h)))
        for v, h in zip(value, half, strict=True)
    ]
