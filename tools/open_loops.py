"""Goodput of open loops beyond the measured rates, for the page on accuracy.

Step laws are fitted to the closed-loop runs of one L40S and its two lowest open-loop rates; the
short warm-up level is left out. Higher rates are predicted, two minutes each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.calibration.ladders import predict_ladder
from planner.calibration.measured import read_ladder
from planner.calibration.parameters import read_parameters
from planner.calibration.physics import Physics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.calibration.measured_run import MeasuredRun
    from planner.catalogue import Catalogue
    from planner.curves.transfer import StepLawLibrary

RUN_S: Final = 120
LEAST_REQUESTS: Final = 50
"""Shorter open-loop levels are warm-up."""
LADDERS: Final = (
    ("cold prefix", 0, (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)),
    ("80 % of the prompt cached", 1200, (1.0, 3.0, *map(float, range(5, 14)))),
)


def open_loops(path: Path, catalogue: Catalogue, library: StepLawLibrary) -> str:
    """Return the section of the page."""
    physics = Physics(library, read_parameters())
    runs = [r for r in read_ladder(path, catalogue).runs if r.system.accelerator.id == "l40s"]
    low = [r for r in runs if r.client.rate_rps and r.client.requests >= LEAST_REQUESTS]
    low = sorted(low, key=lambda r: r.client.rate_rps)[:2]
    known = [*(r for r in runs if r.client.arrivals == "closed"), *low]
    rates = " and ".join(f"{r.client.rate_rps:g}" for r in low)
    lines = [
        "## Open loops",
        "Step laws fitted to the closed-loop rows of one L40S and to its two lowest open-loop"
        f" rates ({rates} req/s; Qwen3-8B,",
        "1,500 tokens in, 200 out, TTFT 300 ms, TPOT 50 ms) predict goodput beyond what was"
        " measured. Compliant",
        "requests per second with their band (attainment), runs of two minutes:",
    ]
    for name, cached, ladder in LADDERS:
        lines += ["", *_table(physics, known, low[-1], (name, cached, ladder))]
    return "\n".join([*lines, "", TAIL])


def _table(
    physics: Physics,
    known: Sequence[MeasuredRun],
    like: MeasuredRun,
    ladder: tuple[str, int, tuple[float, ...]],
) -> list[str]:
    name, cached, rates = ladder
    clients = [
        replace(like.client, rate_rps=r, requests=int(RUN_S * r), cached_tokens=cached)
        for r in rates
    ]
    found = predict_ladder(physics, [replace(like, client=c) for c in clients], known)
    lines = [f"| {name}, req/s | goodput | band | attainment |", "|---|---|---|---|"]
    best, peak = 0.0, 0.0
    for rate, prediction in zip(rates, found, strict=True):
        goodput, attained = (prediction.estimate(n) for n in ("goodput_rps", "attainment"))
        assert goodput is not None
        assert attained is not None
        if goodput.value > peak:
            best, peak = rate, goodput.value
        lines.append(
            f"| {rate:g} | {goodput.value:.2f} | {goodput.low:.2f}–{goodput.high:.2f} |"
            f" {attained.value:.0%} |".replace("%", " %")
        )
    return [*lines, "", f"The most, {peak:.2f} req/s, at {best:g} req/s offered."]


TAIL: Final = """What decided it: a shared prefix is held once, and most of it is read once a step,
not once a request. The band is that of the step time, ten per cent either way: it moves the cliff
by a step of the ladder."""
