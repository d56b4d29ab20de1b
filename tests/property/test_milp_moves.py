"""Laws of moves: the choice equals trying every fleet, and one more move never hurts."""

import dataclasses

import numpy as np
import pytest

from planner.errors import InfeasibleError
from planner.milp import Instance, Moves, NoFleetError, choose, relaxation_prices, resolve_prices
from planner.milp.pricing import relaxation_of
from tests.brute import cost_of, fleets, goodput_of
from tests.property.test_milp import OBJECTIVES, tiny


def moved(seed: int) -> Instance:
    """A tiny instance with a fleet of today, of which some may be no template any more."""
    rng = np.random.default_rng([seed, 36])
    data = tiny(seed)
    current = {(j, ""): int(rng.integers(0, 4)) for j in data.J}
    if rng.random() < 0.4:
        current["gone", ""] = int(rng.integers(1, 3))
    most = int(rng.integers(0, 6)) if rng.random() < 0.7 else None
    usd = float(rng.choice([0.25, 1.0, 3.0])) if most is None or rng.random() < 0.5 else 0.0
    return dataclasses.replace(data, moves=Moves(current, most, usd))


def tried(data: Instance) -> dict[str, float]:
    """The best of each objective, by every number of units, moves counted by hand."""
    moves = data.moves
    assert moves is not None
    gone = sum(n for (j, _), n in moves.current.items() if j not in data.J)
    found: list[tuple[float, float]] = []
    free = dataclasses.replace(data, moves=None, budget_usd_per_hour=None)
    for n in fleets(free):
        starts_and_stops = gone + sum(
            abs(count - moves.current.get((j, ""), 0)) for j, count in zip(data.J, n, strict=True)
        )
        cost = cost_of(data, n) + moves.usd_per_hour * starts_and_stops
        budget = data.budget_usd_per_hour
        if moves.most is not None and starts_and_stops > moves.most:
            continue
        if budget is not None and cost > budget + 1e-9:
            continue
        goodput = goodput_of(free, n)
        if goodput is not None:
            found.append((cost, goodput))
    if not found:
        return {}
    return {
        "min_cost": min(cost for cost, _ in found),
        "max_goodput": max(goodput for _, goodput in found),
        "max_goodput_per_usd": max(g / c if c else 0.0 for c, g in found),
    }


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_choice_equals_trying_every_fleet(objective: str) -> None:
    barred = 0
    for seed in range(24):
        data = moved(seed)
        best = tried(data)
        try:
            choice = choose(data, objective, gap=0)
        except InfeasibleError:
            barred += 1
            assert not best, seed
            continue
        assert choice.objective == pytest.approx(best[objective], rel=1e-6), seed
    assert 3 < barred < 21


def test_as_many_moves_as_are_asked_for_make_a_fleet_possible_and_no_fewer() -> None:
    asked = 0
    for seed in range(40):
        data = moved(seed)
        assert data.moves is not None
        try:
            choose(data, "min_cost", gap=0)
        except NoFleetError as error:
            for one in (s for s in error.alone if s.number == "C36"):
                asked += 1
                enough = dataclasses.replace(data.moves, most=round(one.needs))
                assert choose(dataclasses.replace(data, moves=enough), "min_cost").units
                less = dataclasses.replace(data.moves, most=round(one.needs) - 1)
                with pytest.raises(NoFleetError):
                    choose(dataclasses.replace(data, moves=less), "min_cost")
    assert asked > 3


def swap(most: int | None, usd: float = 0.0) -> Instance:
    """Two units of `old` (3 USD/h each) run; two of `new` (2 USD/h each) would do as well."""
    return Instance(
        W=("chat",),
        J=("old", "new"),
        G=("g", "h"),
        O={"old": ("0",), "new": ("0",)},
        demand_rps={"chat": 8.0},
        promise={"chat": 1.0},
        load_rps={("old", "0", "chat"): 4.0, ("new", "0", "chat"): 4.0},
        goodput_rps={("old", "0", "chat"): 4.0, ("new", "0", "chat"): 4.0},
        devices={"old": 1, "new": 1},
        accelerator_of={"old": "g", "new": "h"},
        usd_per_hour={"old": 3.0, "new": 2.0},
        moves=Moves({("old", ""): 2}, most, usd),
    )


def test_moves_are_worth_what_the_cheaper_units_save() -> None:
    """A swap is a stop and a start and saves 1 USD/h, so a move is worth half a dollar, and one
    more than three makes the second swap possible."""
    for most, cost in ((0, 6.0), (1, 6.0), (2, 5.0), (3, 5.0), (4, 4.0), (None, 4.0)):
        choice = choose(swap(most), "min_cost", gap=0)
        assert choice.cost_usd_per_hour == pytest.approx(cost)
    choice = choose(swap(3), "min_cost", gap=0)
    (solved,) = (p for p in resolve_prices(swap(3), choice) if p.number == "C36")
    (relaxed,) = (p for p in relaxation_prices(swap(3), choice) if p.number == "C36")
    assert (solved.unit, solved.usd_per_hour) == ("unit started or stopped", pytest.approx(1.0))
    assert relaxed.usd_per_hour == pytest.approx(0.5)


def test_a_move_is_made_where_it_pays() -> None:
    """A swap saves 1 USD/h: two moves of less than half a dollar pay, of more do not."""
    cheap, dear = (choose(swap(None, usd), "min_cost", gap=0) for usd in (0.4, 0.6))
    assert cheap.units == {"new": 2}
    assert cheap.bill == {"units": pytest.approx(4.0), "moves": pytest.approx(1.6)}
    assert dear.units == {"old": 2}
    assert dear.cost_usd_per_hour == pytest.approx(6.0)


def test_prices_of_new_templates_count_their_start() -> None:
    """A start costs its price, or half of what a swap saves where moves are limited."""
    assert relaxation_of(swap(None, 0.4), "min_cost").prices.start == pytest.approx(0.4)
    assert relaxation_of(swap(3), "min_cost").prices.start == pytest.approx(0.5)
    assert relaxation_of(swap(None), "min_cost").prices.start == 0.0
