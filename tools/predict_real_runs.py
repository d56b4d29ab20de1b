"""Fit a four-number step law to the first half of real runs and predict the second half.

Reads per-request logs of real vLLM runs (columns of ``gt_vllm_requests_llmservingsim.csv``) from
the folder of shared measurements and prints, per run, predicted against measured mean TTFT, TPOT
and end-to-end time of the second half, and joint attainment at three pairs of deadlines: quantiles
of the second half's own times, so that the deadlines divide its requests. Nothing else of the
second half enters but its arrivals and lengths, which the engine must serve beside the first
half's.

Usage: python tools/predict_real_runs.py [FILE]
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from planner.kernels import Law, Limits, simulate_pool

NAME = "step-profiles/gt_vllm_requests_llmservingsim.csv"
BLOCKS = {"RTX4090/Llama-3.1-8B": 2587}
"""Usable KV blocks that the engine logged; the other runs did not press on memory."""
QUANTILES = (0.5, 0.75, 0.9)


class Run(NamedTuple):
    """One real run: requests in order of arrival; times in seconds, shape (n,) each."""

    name: str
    limits: Limits
    replicas: int
    prompt: np.ndarray
    output: np.ndarray
    arrival: np.ndarray
    frontend: np.ndarray
    ttft: np.ndarray
    tpot: np.ndarray
    e2e: np.ndarray


class Latency(NamedTuple):
    """TTFT, TPOT and end-to-end time of every request, seconds."""

    ttft: np.ndarray
    tpot: np.ndarray
    e2e: np.ndarray


def default_file() -> Path | None:
    """Return the log in the folder of PLANNER_SHARED, or beside the checkout; None if absent."""
    checkout = Path(__file__).resolve().parents[1]
    named = os.environ.get("PLANNER_SHARED")
    folders = [Path(named)] if named else [checkout.parent / "shared"]
    for folder in folders:
        for path in (folder / NAME, folder / "data" / NAME):
            if path.is_file():
                return path
    return None


def read_runs(path: Path) -> list[Run]:
    """Read the runs of a log, each with its requests in order of arrival."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    runs = []
    for name in dict.fromkeys(row["config"] for row in rows):
        mine = sorted((r for r in rows if r["config"] == name), key=lambda r: float(r["arrival_s"]))

        def column(key: str, mine: list[dict[str, str]] = mine) -> np.ndarray:
            return np.array([float(row[key]) for row in mine])

        limits = Limits(
            int(mine[0]["max_num_seqs"]),
            int(mine[0]["max_num_batched_tokens"]),
            BLOCKS.get(name, 10**6),
        )
        runs.append(
            Run(
                name,
                limits,
                int(mine[0]["dp"]),
                column("input_toks").astype(np.int32),
                column("output_toks").astype(np.int32),
                column("arrival_s"),
                column("frontend_s"),
                column("ttft_s"),
                column("tpot_s"),
                column("e2e_s"),
            )
        )
    return runs


def simulate(run: Run, law: np.ndarray, frontend_s: float) -> Latency:
    """Replay a run under a law (s, s per token, per request, per token of context)."""
    base, token, request, context = law * 1e12
    n = np.arange(run.limits.max_num_batched_tokens + 1)
    quantised = Law(
        np.maximum(np.rint(base + token * n), 1).astype(np.int64),
        context_ps=round(context),
        sequence_ps=round(request),
    )
    arrival = np.rint((run.arrival + frontend_s) * 1e12).astype(np.int64)
    records = simulate_pool(
        quantised,
        run.limits,
        arrival,
        run.prompt,
        run.output,
        replicas=run.replicas,
        router="least_outstanding",
    )
    first = (records.first_token_ps - arrival) * 1e-12 + frontend_s
    last = (records.finish_ps - arrival) * 1e-12 + frontend_s
    return Latency(first, (last - first) / np.maximum(run.output - 1, 1), last)


def fit(run: Run, half: slice) -> tuple[np.ndarray, float]:
    """Fit the four numbers to TTFT, TPOT and end-to-end time of some requests."""
    frontend_s = float(np.mean(run.frontend[half]))
    several = run.output[half] > 1

    def loss(logs: np.ndarray) -> float:
        got = simulate(run, np.exp(logs), frontend_s)
        tpot = np.abs(got.tpot[half] / np.maximum(run.tpot[half], 1e-9) - 1)[several].mean()
        e2e = np.abs(got.e2e[half] / run.e2e[half] - 1).mean()
        ttft = np.abs(got.ttft[half] - run.ttft[half]).mean() / run.ttft[half].mean()
        return float(tpot + e2e + ttft)

    starts = [(12e-3, 5e-5, 2e-5, 6e-8), (25e-3, 1.5e-4, 2e-5, 1e-7)]
    found = [
        minimize(loss, np.log(s), method="Nelder-Mead", options={"maxfev": 700, "xatol": 1e-3})
        for s in starts
    ]
    return np.exp(min(found, key=lambda f: f.fun).x), frontend_s


def report(run: Run) -> None:
    """Fit on the first half of a run, predict the second and print both."""
    n = run.arrival.size
    first, second = slice(0, n // 2), slice(n // 2, n)
    law, frontend_s = fit(run, first)
    got = simulate(run, law, frontend_s)
    a, b, c, d = law * (1e3, 1e6, 1e6, 1e9)
    print(f"{run.name}: {a:.2f} ms + {b:.1f} us/token + {c:.1f} us/request + {d:.0f} ns/context")
    for half, name in ((first, "first half, fitted"), (second, "second half, predicted")):
        cells = [
            f"{key} {np.mean(getattr(got, key)[half]):.4g} s"
            f" ({np.mean(getattr(got, key)[half]) / np.mean(getattr(run, key)[half]) - 1:+.1%})"
            for key in ("ttft", "tpot", "e2e")
        ]
        print(f"  {name:24}{', '.join(cells)}")
    for q in QUANTILES:
        ttft, tpot = np.quantile(run.ttft[second], q), np.quantile(run.tpot[second], q)
        real, said = (
            float(np.mean((x.ttft[second] <= ttft) & (x.tpot[second] <= tpot))) for x in (run, got)
        )
        print(
            f"  TTFT {ttft:.3g} s, TPOT {tpot * 1e3:.3g} ms: attainment {said:.1%} predicted,"
            f" {real:.1%} measured ({100 * (said - real):+.1f} points)"
        )


def main() -> int:
    """Print the report of every run; 2 if the log is not there."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_file()
    if path is None or not path.is_file():
        print(f"no {NAME}: name the file, or set PLANNER_SHARED", file=sys.stderr)
        return 2
    for run in read_runs(path):
        report(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
