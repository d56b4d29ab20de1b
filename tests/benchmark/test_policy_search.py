"""How near a search of scheduler settings comes to the best of an exhaustive grid; its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.simulation.effort import Effort, RunSize
from tests.policy_grids import compare, scenario

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.benchmark

EFFORT = Effort(20_000, RunSize(30_000, 3, 3_000), RunSize(30_000, 4, 4_000), 120_000, 40_000, 12)
BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
SEATS = (16, 32, 64, 128, 256, 512, 1024)


def drawn(prompt: int, prompt_cv: float, output: int, output_cv: float) -> str:
    return (
        f"prompt: {{lognormal: {{mean: {prompt} tokens, cv: {prompt_cv}}}}},"
        f" output: {{lognormal: {{mean: {output} tokens, cv: {output_cv}}}}}"
    )


CHAT = "histogram: azure-conversation-2023"
CODE = "histogram: azure-code-2023"
LONG = drawn(6000, 0.8, 300, 0.6)
WRITE = drawn(300, 0.8, 800, 0.6)
MIXED = drawn(1500, 1, 300, 1)
BATCH = (
    "  - id: docs\n    model: llama-3.1-8b\n    arrivals: {poisson: 4 req/s}\n"
    f"    lengths: {{{LONG}}}\n    slo: {{ttft: 20 s, tpot: 100 ms, attainment: 0.9}}\n"
)

SCENARIOS = {
    "chat, tight": scenario("ttft: 500 ms, tpot: 25 ms, attainment: 0.98", CHAT),
    "chat, quick first token": scenario("ttft: 200 ms, tpot: 60 ms, attainment: 0.95", CHAT),
    "chat, no stutter": scenario("ttft: 1 s, tpot: 40 ms, max_itl: 80 ms, attainment: 0.95", CHAT),
    "code": scenario("ttft: 1 s, tpot: 40 ms, attainment: 0.95", CODE),
    "code, bursts": scenario(
        "ttft: 2 s, tpot: 40 ms, attainment: 0.9",
        CODE,
        arrivals="bursts: {rate: 16 req/s, burst: 9 s, quiet: 40 s, sources: 20}",
    ),
    "long prompts": scenario("ttft: 3 s, tpot: 50 ms, attainment: 0.95", LONG),
    "long answers": scenario("ttft: 500 ms, tpot: 20 ms, attainment: 0.95", WRITE),
    "70B": scenario(
        "ttft: 1 s, tpot: 50 ms, attainment: 0.95",
        MIXED,
        model="llama-3.1-70b",
        accelerator="b200-sxm",
        arrivals="poisson: 20 req/s",
    ),
    "70B, loose": scenario(
        "ttft: 5 s, tpot: 120 ms, attainment: 0.95",
        MIXED,
        model="llama-3.1-70b",
        tp=4,
        arrivals="poisson: 20 req/s",
    ),
    "small memory": scenario("ttft: 1 s, tpot: 60 ms, attainment: 0.95", CHAT, accelerator="l40s"),
    "two workloads": scenario("ttft: 500 ms, tpot: 30 ms, attainment: 0.95", CHAT, more=BATCH),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_within_one_per_cent_at_a_tenth_of_the_cost(name: str, tmp_path: Path) -> None:
    found = compare(SCENARIOS[name], tmp_path, EFFORT, BUDGETS, SEATS)
    print(
        f"\n| {name} | {found.settings} | {found.looked_at} | b{found.best[0]} s{found.best[1]}"
        f" | b{found.chosen[0]} s{found.chosen[1]} | {found.lost:.2%}"
        f" | {found.climb_requests:,} | {found.grid_requests:,}"
        f" | {found.climb_requests / found.grid_requests:.1%} |"
    )
    assert found.lost <= 0.01
    assert found.climb_requests <= 0.1 * found.grid_requests
