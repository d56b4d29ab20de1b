"""Writes docs/accuracy.md and its pictures from a table of closed-loop means.

Usage: python tools/accuracy.py CLOSED_LOOP_MEANS.csv [docs]

Open loops and other tables are read from the folder measured beside the table's folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from open_loops import open_loops
from other_tables import other_tables

from planner.calibration.crossfit import CrossFit, cross_fit
from planner.calibration.crossfit_cases import Case, cases_of
from planner.calibration.decisions import grade
from planner.calibration.metrics import Metrics, Scored, metrics_of
from planner.calibration.parameters import read_parameters
from planner.calibration.predict import Predictor
from planner.calibration.silicon import read_closed_loop_means
from planner.catalogue import Catalogue
from planner.curves.transfer import StepLawLibrary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planner.calibration.predict import Prediction

NAMES: Final = {"tpot_s": "TPOT", "ttft_s": "TTFT"}
SIDE: Final = 420
MARGIN: Final = 44


def scored(predictions: Iterable[Prediction], metric: str) -> list[Scored]:
    """Return the measured and predicted values of one metric."""
    found = []
    for p in predictions:
        truth, guess = getattr(p.point, metric), getattr(p, metric)
        if truth and guess:
            s = p.point.system
            found.append(Scored(truth, guess, s.mode, s.accelerator.id, s.engine, s.llm.id))
    return found


def row(name: str, predictions: Sequence[Prediction], reference: str = "") -> str:
    """Return one line of the table of results."""
    cells = [name]
    for metric in NAMES:
        m = metrics_of(scored(predictions, metric))
        cells += ["", ""] if m is None else [errors(m), share(m.band_coverage)]
    return "| " + " | ".join([*cells, reference]) + " |"


def errors(m: Metrics) -> str:
    """Write mean and median error."""
    return f"{100 * m.mape:.1f} / {100 * m.median_ape:.1f}"


def share(value: float | None) -> str:
    """Write a share in percent."""
    return "" if value is None else f"{100 * value:.0f} %"


def by(predictions: Sequence[Prediction], key: Callable[[Prediction], str]) -> list[str]:
    """Return a table of results by a key."""
    lines = ["| | runs | TPOT | in band | TTFT | in band |", "|---|---|---|---|---|---|"]
    for level in sorted({key(p) for p in predictions}):
        own = [p for p in predictions if key(p) == level]
        cells = row(level, own).strip("| ").split(" | ")
        lines.append(f"| {level} | {len(own)} | " + " | ".join(cells[1:]) + " |")
    return lines


def picture(predictions: Sequence[Prediction], metric: str) -> str:
    """Draw predicted against measured on logarithmic axes, as SVG."""
    points = [(s.measured, s.predicted.value) for s in scored(predictions, metric)]
    logs = np.log10(np.array(points))
    low, high = np.floor(logs.min() * 2) / 2, np.ceil(logs.max() * 2) / 2

    def at(value: float) -> float:
        return (value - low) / (high - low) * (SIDE - 2 * MARGIN)

    marks = "".join(
        f"M{MARGIN + at(x):.0f} {SIDE - MARGIN - at(y):.0f}h0" for x, y in logs.clip(low, high)
    )
    ticks = ""
    for decade in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        text = f"{10.0**decade:g} s"
        ticks += f'<text x="{MARGIN + at(decade):.0f}" y="{SIDE - MARGIN + 16}">{text}</text>'
        ticks += f'<text x="4" y="{SIDE - MARGIN - at(decade) + 4:.0f}">{text}</text>'
    end = SIDE - MARGIN
    name = NAMES[metric]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" '
        'font-family="sans-serif" font-size="11">'
        f'<rect width="{SIDE}" height="{SIDE}" fill="#fff"/>'
        f'<path d="M{MARGIN} {MARGIN}V{end}H{end}" fill="none" stroke="#888"/>'
        f'<path d="M{MARGIN} {end}L{end} {MARGIN}" stroke="#888" stroke-dasharray="4 3"/>'
        f'<path d="{marks}" stroke="#1f5fa8" stroke-opacity=".35" stroke-width="4" '
        f'stroke-linecap="round"/>{ticks}'
        f'<text x="{SIDE / 2:.0f}" y="{SIDE - 8}" text-anchor="middle">measured mean {name}</text>'
        f'<text x="{MARGIN}" y="{MARGIN - 14}">predicted mean {name}, group never seen</text>'
        "</svg>\n"
    )


def cause(p: Prediction) -> str:
    """Say what is known of a row that is far off."""
    s = p.point.system
    if s.mode == "colocated" and s.main.replicas > 1:
        return "several replicas behind a distributed runtime; TPOT near 90 ms at every load"
    if p.point.load.users >= 512 and s.llm.id == "gpt-oss-120b":
        return "TPOT of about 16 users and TTFT of a long queue: a cap on running requests"
    if s.llm.id == "llama-3.1-8b" and s.precision == "fp8" and s.engine == "vllm":
        return "prompts computed faster than the devices' peak: they were cached"
    if s.accelerator.id == "b300-sxm" and s.precision == "fp8" and s.llm.id == "deepseek-r1":
        return "prefill five times slower than on siblings: a fallback kernel, probably"
    if s.llm.id == "kimi-k2.5" and s.accelerator.id == "h200-sxm":
        return "a repeat of the same run is four times faster: a disturbed run"
    return "unexplained"


def worst(predictions: Sequence[Prediction], metric: str, count: int) -> list[str]:
    """Return the rows that are farthest off, with what is known of them."""

    def off(p: Prediction) -> float:
        truth, guess = getattr(p.point, metric), getattr(p, metric)
        return abs(float(np.log(guess.value / truth))) if truth and guess else 0.0

    lines = [
        "| system | users | lengths | measured | predicted | what is known |",
        "|---|---|---|---|---|---|",
    ]
    for p in sorted(predictions, key=off, reverse=True)[:count]:
        s, load = p.point.system, p.point.load
        values = f"{1e3 * getattr(p.point, metric):.1f} | {1e3 * getattr(p, metric).value:.1f}"
        lengths = f"{load.prompt_tokens} / {load.output_tokens}"
        lines.append(f"| {s.group} | {load.users} | {lengths} | {values} | {cause(p)} |")
    return lines


def page(fit: CrossFit, loops: str) -> str:
    """Write the page; ``loops`` are its sections on other tables."""
    points = fit.physical[0].points
    colocated = [i for i, p in enumerate(points) if p.system.prefill is None]
    apart = [i for i, p in enumerate(points) if p.system.prefill is not None]

    def pick(predictions: Sequence[Prediction], index: Sequence[int]) -> list[Prediction]:
        return [predictions[i] for i in index]

    physics, group, system = fit.physics(), fit.left_out("group"), fit.left_out("system")
    cases = cases_of(points)
    few = {
        kind: [p for x in fit.few_loads([c for c in cases if c.kind == kind]) for p in x]
        for kind in ("other loads", "twice the highest")
    }
    every = [Case(c.kind, c.seen, (*c.seen, *c.wanted)) for c in cases if c.kind == "other loads"]
    known = {p.point.row: p for p in group}
    known |= {p.point.row: p for x in fit.few_loads(every) for p in x}
    graded = {
        "physics and constants": physics,
        "group never seen": group,
        "system never seen": system,
        "three loads of each curve": list(known.values()),
    }
    grades = {name: (grade(p), grade(p, banded=True)) for name, p in graded.items()}
    decided = grades["group never seen"][0].decisions
    lines = [
        HEAD,
        "## Results",
        "Mean / median error in percent, and the share of runs inside the stated 90 % band.",
        "",
        "| | TPOT | in band | TTFT | in band | the field's public predictor: TPOT, TTFT |",
        "|---|---|---|---|---|---|",
        row(
            "colocated: physics and constants", pick(physics, colocated), "20.4 / 13.3, 46.3 / 45.2"
        ),
        row(
            "colocated: group never seen",
            pick(group, colocated),
            "corrected: 19.3 / 12.4, 34.4 / 21.4",
        ),
        row("colocated: model x accelerator x engine never seen", pick(system, colocated)),
        row("three loads given: other loads", few["other loads"]),
        row("three loads given: twice the highest", few["twice the highest"]),
        row("disaggregated: group never seen", pick(group, apart), "32 / 23, 66 / 74"),
        row("disaggregated: system never seen", pick(system, apart)),
        "| floor: the same run repeated | – / 0.5 | | – / 4 | | |",
        "",
        "| decisions | met | efficiency | with bands: met | efficiency |",
        "|---|---|---|---|---|",
        *(
            f"| {n} | " + " | ".join(f"{g.met:.3f} | {g.efficiency:.3f}" for g in pair) + " |"
            for n, pair in grades.items()
        ),
        "| the field's public predictor | 0.58 | 0.52 | | |",
        "",
        f"{decided} decisions: which operating point to run under a "
        "pair of deadlines; met is the share that really meets both, efficiency the rate per "
        "device against the best that does. Without bands the fastest point predicted to meet both "
        "is chosen; with bands the one whose rate times its chance to meet both is highest.",
        "",
        "![TPOT](accuracy-tpot.svg) ![TTFT](accuracy-ttft.svg)",
        "",
        "## By engine, accelerator and model (group never seen)",
        *by(group, lambda p: f"{p.point.system.engine}, {p.point.system.mode}"),
        "",
        *by(group, lambda p: p.point.system.accelerator.id),
        "",
        *by(group, lambda p: p.point.system.llm.id),
        "",
        "## The worst twenty rows (TPOT in ms, colocated, group never seen)",
        *worst(pick(group, colocated), "tpot_s", 20),
        "",
        TAIL,
        loops,
        "",
        CONSTANTS,
    ]
    return "\n".join(lines)


HEAD: Final = """# Accuracy

How far predictions are from measurements that they have not seen: mean TTFT and TPOT of 1,768
closed-loop runs without speculative decoding, on six accelerators, three engines, dense and
expert models. This page is written by `make accuracy` from the table of measurements, which is
not part of the repository (InferenceX results and NVIDIA's runs as collected in
ai-dynamo/aiconfigurator, Apache-2.0).

A **group** is a model, precision, accelerator, engine and set of degrees. *Group never seen*:
constants and bands are fitted without a third of the groups, effects are told by all others.
*System never seen*: no run of that model on that accelerator with that engine is known at all.
The rules of engines, the kinds of effects and by what bands differ were chosen with all runs in
view; the constants and the values of effects were not.
"""

TAIL: Final = """## What limits it
* **Labels.** A few rows say more than their labels: prompts that were cached, a cap on running
  requests, replicas behind a router that cost ten times the step. Nothing in the row tells.
* **Kernels.** Half of the rows have no library step law; laws moved by roofline ratios miss
  fallback kernels and untuned expert layouts. This is most of the TPOT error of systems never
  seen.
* **TTFT** is a mean over a burst: compilation and graph capture hit the first requests (up to
  twelve times), and two runs of the same command differ by a third in one case out of ten.
* **Disaggregated TTFT** depends on routing and on when the decode side admits; five constants for
  all engines cannot tell.
* **Far extrapolation.** At twice the highest known load a queue may start that no known load
  shows; bands are too narrow there for about one run in six.
* **Decisions** fail on deadlines that lie within the error of a prediction.
"""

CONSTANTS: Final = """## Constants
`models/calibration/calibration.yaml`, made by `tools/fit_calibration.py`. Host time per step, per
sequence and per prefill step, serial front-end time per prompt token, and the path to the client
and back are read off TPOT at few users, its growth with users, and TTFT at one user. They are
identified as sums better than one by one. Factors on step laws have a prior of 7 %.
"""


def main(rows: Path, measured: Path, folder: Path) -> None:
    """Fit, predict, write."""
    catalogue = Catalogue()
    library = StepLawLibrary(catalogue)
    start = read_parameters()
    table = read_closed_loop_means(rows, catalogue)
    both = [p for p in table.points if p.ttft_s and p.tpot_s]
    points = Predictor(catalogue, start, library).physics(both).points
    fit = cross_fit(points, start, catalogue, library)
    print("fitted", flush=True)
    loops = open_loops(measured / "open_loop_l40s_mi300x.csv", catalogue, library)
    loops += "\n\n" + other_tables(measured, catalogue)
    (folder / "accuracy.md").write_text(page(fit, loops), encoding="utf-8")
    group = [p for p in fit.left_out("group") if p.point.system.prefill is None]
    for metric in NAMES:
        name = f"accuracy-{NAMES[metric].lower()}.svg"
        (folder / name).write_text(picture(group, metric), encoding="utf-8")


if __name__ == "__main__":
    means = Path(sys.argv[1])
    beside = means.parents[1] / "measured"
    main(means, beside, Path(sys.argv[2]) if len(sys.argv) > 2 else Path("docs"))
