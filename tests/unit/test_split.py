"""One workload as two by prompt length: nothing lost, nothing counted twice, promises add up."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.serve import templates_of
from planner.candidates.split import (
    Split,
    cannot_split,
    part_of,
    promises_of,
    split_problem,
    splits_of,
)
from planner.catalogue import Catalogue
from planner.data import shipped
from planner.planning import study_of
from planner.problem.lengths import (
    CutLengths,
    IndependentLengths,
    LengthMarginal,
    MixedLengths,
    ParetoLength,
)
from planner.problem.resolve import Problem, resolve
from planner.scenario.load import load_scenario
from planner.simulation.lengths import draw_lengths
from tests.problems import fixed, trace

CATALOGUE = Catalogue()
RNG = np.random.default_rng


def problem_of(*settings: str, name: str = "long-tail") -> Problem:
    return resolve(load_scenario(shipped("scenarios") / f"{name}.yaml", settings), CATALOGUE)


LAWS = {
    "points": trace(*((100 * k, k) for k in range(1, 41))),
    "mixture": MixedLengths((trace((50, 5), (3_000, 7)), fixed(9_000, 20)), (3.0, 1.0)),
    "pareto": IndependentLengths(ParetoLength(200, 1.3, 50_000), LengthMarginal(100, 1.0)),
    "cut": CutLengths(IndependentLengths(LengthMarginal(2_000, 2.0), LengthMarginal(9, 1)), 8_000),
    "histogram": problem_of(name="quickstart").demands[0].lengths,
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_parts_together_are_the_whole(law):
    """Means of prompt and output, weighted by shares, and the share itself, by a draw."""
    at = 2_048
    prompt, output = draw_lengths(law, 200_000, RNG(5))
    share = float((prompt > at).mean())
    short, long = (draw_lengths(part_of(law, at, long=x), 50_000, RNG(6)) for x in (False, True))
    assert short[0].max() <= at < long[0].min()
    for whole, a, b in zip((prompt, output), short, long, strict=True):
        together = (1 - share) * a.mean() + share * b.mean()
        assert together == pytest.approx(whole.mean(), rel=0.02)


def test_a_cell_of_a_histogram_is_cut_at_the_threshold():
    """Prompts 1..100 alike: of those over 75 there are 25, the mean is 88."""
    cell = trace((1, 1))
    wide = type(cell)(cell.prompt_low, np.array([100]), *(cell.output_low,) * 2, np.ones(1))
    long = part_of(wide, 75, long=True)
    assert (long.prompt_low[0], long.prompt_high[0]) == (76, 100)
    assert long.weight[0] == pytest.approx(0.25)
    assert part_of(wide, 75, long=False).weight[0] == pytest.approx(0.75)


def test_only_heavy_tails_are_worth_a_split():
    (chat,) = problem_of(name="quickstart").demands
    assert splits_of(chat, 0) == ()
    (tail,) = problem_of().demands
    found = splits_of(tail, 0)
    assert found[-1].share == pytest.approx(0.01, rel=0.02)
    brought = 0.01 * 100_000 / (0.01 * 100_000 + 0.99 * 1_155)  # the histogram's mean prompt
    assert found[-1].tokens == pytest.approx(brought, rel=0.02)
    assert all(s.at_tokens & (s.at_tokens - 1) == 0 for s in found)


def test_rates_and_promises_of_parts_add_up():
    problem = problem_of()
    split = Split(0, 8_192, 0.01, 0.47)
    two = split_problem(problem, split, (0.96, 0.0))
    assert sum(two.rates_rps) == pytest.approx(30.0)
    assert two.rates_rps[1] == pytest.approx(0.3)
    assert [d.id for d in two.demands] == ["chat.up-to-8192", "chat.over-8192"]
    (whole,) = two.asked
    assert whole.parts == (0, 1)
    assert whole.demand.slo.attainment == 0.95


def test_what_no_replica_can_keep_is_promised_nothing_and_the_rest_makes_up():
    """100,000 tokens take seconds to prefill: a TTFT of 1 s cannot be met, one of 60 s can."""
    problem = problem_of()
    builds, _ = enumerate_builds(problem, CATALOGUE)
    split = Split(0, 8_192, 0.01, 0.47)
    assert promises_of(problem.demands[0], split, builds) == pytest.approx((0.95 / 0.99, 0.0))
    patient = problem_of("workloads.chat.slo.ttft=60 s")
    assert promises_of(patient.demands[0], split, builds) == (0.95, 0.95)
    strict = problem_of("workloads.chat.slo.attainment=99 %")
    assert promises_of(strict.demands[0], split, builds) is None


@pytest.mark.parametrize("family", ["gamma", "weibull"])
def test_a_part_of_a_bursty_stream_is_thinned_not_stretched(family):
    problem = problem_of("workloads.chat.arrivals={" + family + ": {rate: 30 req/s, cv: 3}}")
    two = split_problem(problem, Split(0, 8_192, 0.01, 0.47), (0.96, 0.0))
    for demand, share in zip(two.demands, (0.99, 0.01), strict=True):
        assert demand.arrivals.cv**2 == pytest.approx(1 + share * 8)
        assert demand.arrivals.rate_rps == pytest.approx(30 * share)


def test_a_replayed_trace_keeps_each_request_at_its_time(tmp_path):
    rng = RNG(0)
    time_s = np.cumsum(rng.exponential(1.0, 400))
    prompt = np.where(rng.random(400) < 0.05, 60_000, 500)
    rows = (f"{t:.6f},{p},50" for t, p in zip(time_s, prompt, strict=True))
    file = tmp_path / "t.csv"
    file.write_text("timestamp,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    problem = problem_of(
        f"workloads.chat.arrivals={{replay: {{file: '{file}'}}}}",
        f"workloads.chat.lengths={{trace: '{file}'}}",
    )
    (split,) = splits_of(problem.demands[0], 0)
    two = split_problem(problem, split, (0.95, 0.95))
    long = two.demands[1].arrivals
    whole = problem.demands[0].arrivals
    assert long.lengths[0].size == (prompt == 60_000).sum()
    assert np.isin(long.time_s, whole.time_s).all()
    assert sum(d.arrivals.rate_rps for d in two.demands) == pytest.approx(whole.rate_rps)


def test_users_who_wait_and_sessions_are_not_split():
    (chat, _) = problem_of(name="users").demands
    assert "in turn" in cannot_split(chat)
    assert cannot_split(problem_of().demands[0]) is None


def test_long_prompts_stay_alone():
    problem = split_problem(problem_of(), Split(0, 8_192, 0.01, 0.47), (0.96, 0.0))
    builds, _ = enumerate_builds(problem, CATALOGUE)
    groups, _ = templates_of(problem, study_of(problem), builds)
    assert set(groups) == {(0,), (1,)}


def test_periods_hold_for_both_parts():
    problem = problem_of(name="week")
    (split,) = splits_of(problem.demands[0], 0)
    two = split_problem(problem, split, (0.95, 0.95))
    for before, after in zip(problem.calendar.periods, two.calendar.periods, strict=True):
        assert after.level == before.level * 2
    assert sum(d.mean_rps for d in two.demands) == pytest.approx(problem.demands[0].mean_rps)
