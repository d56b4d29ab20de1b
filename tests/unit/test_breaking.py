"""The demand at which a promise breaks: theory of one queue, and fresh draws of a shipped plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from planner.planning.breaking import LADDER, where_it_breaks
from planner.problem.arrivals import PoissonArrivals
from planner.simulation.draw import Draws
from planner.simulation.effort import Effort, RunSize
from planner.simulation.fleet import FleetPool
from tests.problems import fixed, study
from tests.queues import md1_wait_cdf, one_slot

pytestmark = pytest.mark.minutes_in_plain

SIZE = RunSize(150_000, 4, 1)
EFFORT = Effort(1_000, SIZE, SIZE, 1_000, 1_000, 1)


def broken_at(load: float, late_ms: float, promise: float):
    """One server with services of 10 ms whose promise is on waits of at most ``late_ms``."""
    rate = 100 * load
    base = study(fixed(1, 1), ttft_ms=(10 + late_ms,), tpot_ms=(1e6,), promise=(promise,))
    base = replace(base, draws=Draws(base.draws.laws, 3, (PoissonArrivals(rate),)))
    demand = SimpleNamespace(id="w", slo=SimpleNamespace(attainment=promise), rate_rps=rate)
    problem = SimpleNamespace(
        asked=(SimpleNamespace(parts=(0,), demand=demand),),
        demands=(demand,),
        policies=SimpleNamespace(router="round_robin"),
    )
    fleet = SimpleNamespace(for_simulation=lambda _: [FleetPool(one_slot(10), (rate,))])
    (found,) = where_it_breaks(problem, base, fleet, EFFORT)
    return found


@pytest.mark.parametrize(("load", "late_ms"), [(0.5, 5.0), (0.6, 12.0), (0.4, 12.0), (0.8, 30.0)])
def test_a_queue_with_one_server_breaks_where_theory_says(load, late_ms):
    """Within 2 % of the load at which P(wait <= t) of M/D/1 (Crommelin) falls to the promise."""
    at = 0.92 * load if load == 0.8 else 1.16 * load
    promise = md1_wait_cdf(at, late_ms / 10)
    found = broken_at(load, late_ms, promise)
    assert found.broken_at == pytest.approx(at / load, rel=0.02)
    assert found.kept_at == pytest.approx(found.broken_at - 0.01)
    assert found.attainment.value < promise
    assert found.cause == "queue"


def test_no_demand_is_invented_beyond_what_was_tried():
    assert broken_at(0.01, 1e5, 0.5).broken_at is None
    none = broken_at(0.5, 0.0, 0.999)
    assert (none.kept_at, none.broken_at) == (None, LADDER[0] / 100)


def test_nothing_is_said_where_the_time_is_over():
    assert where_it_breaks_in_no_time() == ()


def where_it_breaks_in_no_time():
    demand = SimpleNamespace(id="w", slo=SimpleNamespace(attainment=0.9), rate_rps=1.0)
    problem = SimpleNamespace(
        asked=(SimpleNamespace(parts=(0,), demand=demand),),
        demands=(demand,),
        policies=SimpleNamespace(router="round_robin"),
    )
    fleet = SimpleNamespace(for_simulation=lambda _: [])
    base = study(fixed(1, 1), ttft_ms=(10,), tpot_ms=(1e6,), promise=(0.9,))
    return where_it_breaks(problem, base, fleet, EFFORT, over=lambda: True)
