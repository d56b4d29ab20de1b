"""Single requests of inference-perf: ``per_request_lifecycle_metrics.json``, in seconds.

The tool notes a time per streamed chunk, which may be several per token; first and last time and
the number of tokens are what counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import finished, records, tpot_of
from planner.measurements.files import rows_of
from planner.measurements.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.node import Node

STAGES: Final = "requests of all stages are in one list: give the arrivals, or read the stages"


def claims(found: Probe) -> bool:
    """Tell the list of single requests."""
    return found.kind in ("json", "jsonl") and found.keys >= {"start_time", "end_time", "info"}


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of all requests.

    Raises:
        InputError: A value is of the wrong kind or out of bounds, or there is no request.
    """
    rows = [_request(node) for node in rows_of(found)]
    if not rows:
        raise InputError(f"{found.path}: no request")
    completed, start, end, prompt, output, ttft, e2e, longest = np.array(rows, np.float64).T
    of = records(
        len(rows),
        completed=completed > 0,
        start_s=start,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=tpot_of(e2e, ttft, output),
        max_itl_s=longest,
    )
    done = int(of.completed.sum())
    known = np.isfinite(start) & np.isfinite(end)
    span = float(end[known].max() - start[known].min()) if known.any() else 0.0
    yield finished(
        Measurement(
            format="inference-perf requests",
            tool="inference-perf",
            path=found.path,
            location="",
            sent=len(of),
            completed=done,
            failed=len(of) - done,
            duration_s=span if span > 0 else None,
            records=of,
            notes=(STAGES,),
        )
    )


def _request(node: Node) -> tuple[float, ...]:
    nan = float("nan")
    start, end = node.number("start_time"), node.number("end_time")
    info = node.at("info")
    response = info.at("response_metrics") if info else None
    prompt = info.number("input_tokens") if info else None
    output = times = None
    for place in (info, response):  # older files have both in info, newer ones below it
        if place is not None:
            output = place.number("output_tokens") if output is None else output
            times = place.numbers("output_token_times") if times is None else times
    first = last = longest = nan
    if start is not None and times is not None and len(times) and output:
        first, last = float(times.min()) - start, float(times.max()) - start
        longest = float(np.diff(np.sort(times)).max()) if len(times) > 1 else 0.0
    if first < 0:
        raise node.refuse("a token came before its request was sent", "info")
    failed = node.has("error") or not np.isfinite(first)
    return (
        float(not failed),
        nan if start is None else start,
        nan if end is None else end,
        nan if prompt is None else prompt,
        nan if output is None else output,
        first,
        last,
        longest,
    )
