"""Fleets as the planner handles them: loads add up, and one unit less shares its load."""

from types import SimpleNamespace

import pytest

from planner.planning.fleet import Fleet, PoolChoice, fleet_of, with_one_less


def template(name: str, usd: float) -> SimpleNamespace:
    return SimpleNamespace(id=name, build=SimpleNamespace(usd_per_hour=usd))


def frontier(capacity: float) -> SimpleNamespace:
    return SimpleNamespace(capacity_rps=SimpleNamespace(value=capacity))


A, B = template("a", 2.0), template("b", 5.0)
TEMPLATES = {"a": A, "b": B}


def test_loads_sum_to_the_demand_exactly():
    fleet = fleet_of({"a": 2, "b": 1}, {"a": (3.0, 0.0), "b": (1.0, 4.0)}, TEMPLATES, (8.0, 4.0))
    assert [p.load_rps for p in fleet.pools] == [(6.0, 0.0), (2.0, 4.0)]
    assert fleet.usd_per_hour == 9.0


def test_units_without_load_are_left_out():
    fleet = fleet_of({"a": 2, "b": 3}, {"a": (3.0,), "b": (0.0,)}, TEMPLATES, (3.0,))
    assert [p.template.id for p in fleet.pools] == ["a"]


def test_one_less_shares_the_load_by_capacity():
    """Two a of capacity 3 and one b of capacity 6: without one a, 9 req/s split as 3 : 6."""
    fleet = Fleet((PoolChoice(A, 2, (4.0,)), PoolChoice(B, 1, (5.0,))))
    less = with_one_less(fleet, 0, {"a": frontier(3.0), "b": frontier(6.0)}, (9.0,))
    assert [(p.units, p.load_rps[0]) for p in less.pools] == [
        (1, pytest.approx(3)),
        (1, pytest.approx(6)),
    ]


def test_the_last_unit_of_the_only_pool_leaves_nobody():
    fleet = Fleet((PoolChoice(A, 1, (4.0,)),))
    assert with_one_less(fleet, 0, {"a": frontier(3.0)}, (4.0,)) is None


def test_a_workload_that_only_one_pool_serves_stays_there():
    fleet = Fleet((PoolChoice(A, 1, (4.0, 0.0)), PoolChoice(B, 2, (0.0, 6.0))))
    less = with_one_less(fleet, 1, {"a": frontier(3.0), "b": frontier(6.0)}, (4.0, 6.0))
    assert [(p.units, p.load_rps) for p in less.pools] == [(1, (4.0, 0.0)), (1, (0.0, 6.0))]
    assert with_one_less(fleet, 0, {"a": frontier(3.0), "b": frontier(6.0)}, (4.0, 6.0)) is None
