"""The load test that would confirm a plan: its command, what to expect, and how many requests."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any, Final

from planner.exports.facts import file_name, plain
from planner.units import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.exports.options import ExportOptions
    from planner.fleet import FleetPlan, WorkloadResult

FEWEST: Final = 1000
"""Requests, below which ``planner confirm`` tells no interval."""
Z: Final = 1.959964
"""Of a 95 % interval."""


def requests_needed(attainment: float, promise: float) -> int | None:
    """Return how many independent requests tell attainment from the promise at 95 %.

    Both errors count: a kept promise called broken or undecided, and a broken one called kept, each
    in one of twenty runs. Requests in queues are late together, so it takes more of them: as a
    rule several times as many.

    Returns:
        None where attainment is the promise itself: no number does.
    """
    apart = abs(attainment - promise)
    if apart < 1e-9:
        return None
    spread = math.sqrt(promise * (1 - promise)) + math.sqrt(attainment * (1 - attainment))
    return max(FEWEST, math.ceil((Z * spread / apart) ** 2))


def load_tests(plan: FleetPlan, options: ExportOptions) -> Iterator[str]:
    """Write a section of Markdown per workload."""
    asked = {str(w["id"]): w for w in plan.scenario.document.get("workloads", ())}
    for result in plan.workloads:
        if result.id in asked:
            yield "\n".join(_section(plan, options, result, asked[result.id]))


def _section(
    plan: FleetPlan, options: ExportOptions, result: WorkloadResult, asked: dict[str, Any]
) -> Iterator[str]:
    slo = asked["slo"]
    deadlines = {
        name: TIME.read(slo[name]) * 1000 for name in ("ttft", "tpot", "e2e") if slo.get(name)
    }
    needed = requests_needed(result.attainment.value, result.promise)
    count = FEWEST if needed is None else needed
    arrivals, lengths = _arrivals(asked), _lengths(asked)
    file = f"{file_name(result.id)}.json"
    words = [
        "vllm", "bench", "serve",
        "--model", options.models.get(str(asked["model"]), str(asked["model"])),
        "--base-url", "http://FRONT-DOOR:8000",
        "--request-rate", f"{result.offered_rps:.6g}",
        *arrivals[0],
        "--num-prompts", str(count),
        *lengths[0],
        "--goodput", *(f"{name}:{ms:.6g}" for name, ms in deadlines.items() if name != "e2e"),
        *([f"e2el:{deadlines['e2e']:.6g}"] if "e2e" in deadlines else []),
        "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--save-result", "--save-detailed", "--result-filename", file,
    ]  # fmt: skip
    yield f"### {plain(result.id)}\n"
    yield "```sh"
    yield shlex.join(words)
    yield f"planner confirm PLAN {shlex.quote(file)} --workload {shlex.quote(result.id)}"
    yield "```\n"
    low, high = result.attainment.low, result.attainment.high
    yield (
        f"Expected: {100 * result.attainment.value:.2f} % within all deadlines at once"
        f" ({100 * low:.2f} to {100 * high:.2f} %, the simulation's 95 % interval),"
        f" {result.goodput_rps:.4g} of {result.offered_rps:.4g} req/s; promised"
        f" {100 * result.promise:.4g} %. TTFT p50 {1000 * result.ttft_s.p50:.4g} ms, p99"
        f" {1000 * result.ttft_s.p99:.4g} ms; TPOT p50 {1000 * result.tpot_s.p50:.4g} ms, p99"
        f" {1000 * result.tpot_s.p99:.4g} ms."
    )
    if needed is None:
        yield "\nAttainment is the promise itself: no number of requests tells kept from broken."
    else:
        yield (
            f"\n{needed:,} independent requests would tell this from the promise at 95 %; in queues"
            " they are late together, so take several times as many if the verdict stays open."
        )
    for note in (*arrivals[1], *lengths[1]):
        yield f"\n{note}"
    yield ""


def _arrivals(asked: dict[str, Any]) -> tuple[list[str], list[str]]:
    arrivals = asked["arrivals"]
    if "poisson" in arrivals:
        return ["--burstiness", "1"], []
    gamma = arrivals.get("gamma")
    if isinstance(gamma, dict) and gamma.get("cv"):
        return ["--burstiness", f"{1 / float(gamma['cv']) ** 2:.6g}"], []
    kind = next(iter(arrivals), "none")
    return [], [
        f"Arrivals of the plan are of the form {plain(kind)}, which this command does not know: it"
        " draws Poisson arrivals at the mean rate, which are usually kinder."
    ]


def _lengths(asked: dict[str, Any]) -> tuple[list[str], list[str]]:
    lengths = asked["lengths"]
    fixed = [
        lengths[side]["fixed"]
        for side in ("prompt", "output")
        if isinstance(lengths.get(side), dict) and "fixed" in lengths[side]
    ]
    if len(fixed) == 2:
        prompt, output = (str(round(float(str(n).split()[0]))) for n in fixed)
        words = ["--dataset-name", "random", "--random-input-len", prompt]
        return [*words, "--random-output-len", output, "--ignore-eos"], []
    return ["--dataset-name", "custom", "--dataset-path", "REQUESTS.jsonl"], [
        "Lengths of the plan are a joint distribution: REQUESTS.jsonl has to hold requests of yours"
        " drawn from it. With lengths of another kind attainment is another, and `confirm` says so."
    ]
