"""A search over settings finds the best of surfaces that are known, and of small grids."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2

import pytest

from planner.candidates.policy_search import BUDGETS, SEATS, Setting, climb, lattice, search
from planner.kernels import COMPILED
from planner.simulation.effort import Effort, RunSize
from tests.policy_grids import compare, scenario

START = Setting(2048, 256)
LITTLE = Effort(6_000, RunSize(8_000, 2, 1_500), RunSize(8_000, 4, 2_000), 16_000, 8_000, 8)


@dataclass
class Surface:
    """Attainment falls by 1 per unit of log load around a capacity that a function gives."""

    capacity_of: object
    refused: frozenset[Setting] = frozenset()
    runs: list[Setting] = field(default_factory=list)

    def bound(self, setting):
        return 0.0 if setting in self.refused else 1.2 * self.capacity_of(setting)

    def margin(self, setting, load_rps, *, draw=0, share=1.0):
        self.runs.append(setting)
        assert setting not in self.refused
        return 1 - load_rps / self.capacity_of(setting)

    def capacity(self, setting, guess_rps):
        assert guess_rps > 0
        return self.capacity_of(setting)


def hill(peak: Setting):
    def capacity(setting):
        away = [abs(log2(x / y)) for x, y in zip(setting, peak, strict=True)]
        return 10 / (1 + 0.2 * away[0] + 0.1 * away[1])

    return capacity


@pytest.mark.parametrize("peak", [Setting(256, 16), Setting(16_384, 1024), Setting(1024, 128)])
def test_a_climb_ends_on_the_hill(peak):
    found = climb(Surface(hill(peak)), [START])
    assert found.best == peak
    assert found.load_rps == pytest.approx(10)


def test_a_race_finds_a_second_hill():
    """A better setting behind a valley, which no climb crosses."""

    def capacity(setting):
        return 12.0 if setting == Setting(512, 32) else hill(Setting(8192, 512))(setting)

    assert climb(Surface(capacity), [Setting(8192, 512)]).best == Setting(8192, 512)
    assert search(Surface(capacity), [Setting(8192, 512)]).best == Setting(512, 32)


def test_what_cannot_be_built_is_never_run():
    every = frozenset(s for s in lattice(START) if s[0] > 2048)
    surface = Surface(hill(Setting(16_384, 256)), every)
    found = search(surface, [START])
    assert found.best[0] == 2048
    assert not every & {*surface.runs}


def test_nothing_is_run_that_its_bound_rules_out():
    """All others carry half at most, which the bound knows."""

    def capacity(setting):
        return 10.0 if setting == START else 4.0

    surface = Surface(capacity)
    assert search(surface, [START]).best == START
    assert {*surface.runs} == {START}


def test_settings_stay_within_what_the_engine_takes():
    surface = Surface(lambda s: float(s[0] * s[1]))  # ever larger is ever better
    found = search(surface, [START])
    for tokens, seats in surface.runs:
        assert BUDGETS[0] <= tokens <= BUDGETS[1]
        assert SEATS[0] <= seats <= min(SEATS[1], tokens)
    assert found.best[0] > 16_384  # a climb may leave the lattice


def test_no_load_is_no_setting():
    assert search(Surface(lambda _: 0.0), [START]) is None


@pytest.mark.skipif(not COMPILED, reason="a grid in plain Python takes minutes")
@pytest.mark.parametrize(
    "text",
    [
        scenario(
            "ttft: 500 ms, tpot: 25 ms, attainment: 0.95", "histogram: azure-conversation-2023"
        ),
        scenario("ttft: 1 s, tpot: 40 ms, attainment: 0.9", "histogram: azure-code-2023"),
    ],
)
def test_a_search_comes_near_the_best_of_a_grid(text, tmp_path):
    """Runs are short here: within 3 %; the benchmark holds 1 % with longer ones."""
    found = compare(text, tmp_path, LITTLE, (512, 2048, 8192), (32, 128, 512))
    assert found.lost <= 0.03
