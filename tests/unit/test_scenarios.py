"""Which demand to plan for among scenarios: by hand, and against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from planner.fleet import ScenarioResult
from planner.planning.scenarios import kept_share, least_demands
from planner.problem.resolve import Outcome


def outcomes(*rows: tuple[float, tuple[float, ...]]) -> list[Outcome]:
    return [Outcome(f"s{i}", weight, multiples) for i, (weight, multiples) in enumerate(rows)]


def test_all_of_the_weight_is_the_highest_of_each():
    rows = outcomes((0.5, (1.0, 2.0)), (0.3, (3.0, 1.0)), (0.2, (0.5, 0.5)))
    assert least_demands(rows, 1.0) == [(3.0, 2.0)]


def test_what_grows_together_leaves_out_the_largest():
    rows = outcomes((0.6, (1.0,)), (0.3, (2.0,)), (0.1, (4.0,)))
    assert least_demands(rows, 0.9) == [(2.0,)]
    assert least_demands(rows, 0.6) == [(1.0,)]
    assert least_demands(rows, 0.91) == [(4.0,)]


def test_either_of_two_may_be_let_go():
    rows = outcomes((0.8, (1.0, 1.0)), (0.1, (3.0, 1.0)), (0.1, (1.0, 3.0)))
    assert least_demands(rows, 0.9) == [(1.0, 3.0), (3.0, 1.0)]


@pytest.mark.parametrize("seed", range(20))
def test_every_choice_that_weighs_enough_is_covered_by_none_smaller(seed):
    """Another route: every subset, its cover, and nothing kept that covers another kept one."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    weight = rng.dirichlet(np.ones(n))
    rows = outcomes(*((w, tuple(rng.integers(1, 5, 2).astype(float))) for w in weight.tolist()))
    keep = float(rng.uniform(0.3, 1.0))
    found = least_demands(rows, keep)
    enough = [
        some
        for some in itertools.product((False, True), repeat=n)
        if sum(r.weight for r, x in zip(rows, some, strict=True) if x) >= keep - 1e-9
    ]
    for one in found:
        covered = sum(
            r.weight for r in rows if all(a <= b for a, b in zip(r.multiples, one, strict=True))
        )
        assert covered >= keep - 1e-9
    for some in enough:
        top = [max(r.multiples[w] for r, x in zip(rows, some, strict=True) if x) for w in (0, 1)]
        assert any(all(a <= b for a, b in zip(one, top, strict=True)) for one in found)
    for one, other in itertools.permutations(found, 2):
        assert not all(a <= b for a, b in zip(one, other, strict=True))


def test_the_chance_of_a_kept_promise_is_the_weight_of_scenarios_that_keep_all():
    def result(weight, **verdicts):
        return ScenarioResult(
            id="s", weight=weight, planned_for=True, multiples={}, attainment={}, verdicts=verdicts
        )

    rows = [
        result(0.6, a="kept", b="kept"),
        result(0.3, a="kept", b="broken"),
        result(0.1, a="undecided", b="kept"),
    ]
    assert kept_share(rows) == pytest.approx(0.6)
    assert kept_share([]) is None
