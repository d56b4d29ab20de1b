"""An interrupt ends all of a plan, and the fleet in hand is kept and said to be unproven."""

from __future__ import annotations

import pytest

from planner.errors import LimitReachedError
from planner.planning.answer import plan_scenario
from planner.planning.clock import Clock
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from tests.unit.test_points import LITTLE, SCENARIO

RUNS = RunSize(8_000, 4, 1_000)
ENOUGH = Effort(2_000, RUNS, RUNS, 64_000, 2_000, 4)
"""For promise and evidence to agree."""
ANSWER = "planner.planning.answer."


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return load_scenario(path, ())


def test_a_clock_is_stopped_by_an_interrupt_and_by_no_limit():
    clock = Clock(1e6)
    clock.stop_on(LimitReachedError("of a part"))
    clock.check()
    assert not clock.over
    clock.stop_on(KeyboardInterrupt())
    assert clock.over
    assert clock.interrupted
    assert 0 < clock.left_s < 1
    with pytest.raises(LimitReachedError, match="interrupted"):
        clock.check()


def test_an_interrupt_while_splits_are_priced_is_not_swallowed(scenario, monkeypatch):
    def interrupted(_answer, _refined, clock, _tell):
        clock.stop_on(KeyboardInterrupt())

    monkeypatch.setattr(ANSWER + "price_splits", interrupted)
    plan = plan_scenario(scenario, effort=ENOUGH)
    assert plan.pools
    assert plan.status == "feasible"
    assert "interrupt" in plan.evidence.unproven
    assert plan.evidence.demand_sweep == ()


def test_a_second_interrupt_ends_at_once(scenario, monkeypatch):
    def again(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        ANSWER + "price_splits", lambda _a, _r, c, _t: c.stop_on(KeyboardInterrupt())
    )
    monkeypatch.setattr(ANSWER + "plan_document", again)
    assert plan_scenario(scenario, effort=LITTLE).status == "unknown"
