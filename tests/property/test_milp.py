"""Laws of the choice: it equals brute force, and more to choose from never hurts."""

import dataclasses

import numpy as np
import pytest

from planner.errors import InfeasibleError
from planner.milp import Instance, NoFleetError, choose, shortfalls
from planner.milp.objective import Objective
from tests.brute import brute_force, goodput_of

OBJECTIVES: tuple[Objective, ...] = ("min_cost", "max_goodput", "max_goodput_per_usd")


def tiny(seed: int) -> Instance:
    """At most 3 templates, 6 accelerators, 2 workloads, 4 points; every other one in whole
    numbers, where ties and tight rows abound."""
    rng = np.random.default_rng(seed)
    whole = bool(seed % 2)

    def number(low: float, high: float) -> float:
        return float(rng.integers(low, high + 1)) if whole else float(rng.uniform(low, high))

    W = ("chat", "code")[: rng.integers(1, 3)]
    J = ("a", "b", "c")[: rng.integers(1, 4)]
    G = ("g", "h")[: rng.integers(1, 3)]
    O = {j: tuple("0123"[: rng.integers(1, 5)]) for j in J}  # noqa: E741
    load, goodput = {}, {}
    for j in J:
        for o in O[j]:
            for w in W:
                if rng.random() < 0.75:
                    load[j, o, w] = number(1, 6)
                    goodput[j, o, w] = min(number(0, 6), load[j, o, w])
    return Instance(
        W=W,
        J=J,
        G=G,
        O=O,
        demand_rps={w: number(1, 10) for w in W},
        promise={w: float(rng.choice([0.0, 0.25, 0.5, 0.75])) for w in W},
        load_rps=load,
        goodput_rps=goodput,
        devices={j: int(rng.integers(1, 3)) for j in J},
        accelerator_of={j: str(rng.choice(G)) for j in J},
        usd_per_hour={j: number(1, 5) for j in J},
        stock={g: 6 // len(G) for g in G},
        max_units={J[0]: 2} if rng.random() < 0.3 else {},
        shed_limit={W[0]: 0.25} if rng.random() < 0.3 else {},
        value={W[0]: 2.0} if rng.random() < 0.3 else {},
        budget_usd_per_hour=number(6, 20) if rng.random() < 0.3 else None,
    )


@pytest.mark.parametrize("batch", range(10))
def test_the_choice_equals_brute_force(batch: int) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        data = tiny(seed)
        best = brute_force(data)
        for objective in OBJECTIVES:
            truth = getattr(best, objective)
            if truth is None:
                with pytest.raises(InfeasibleError):
                    choose(data, objective, gap=0)
                continue
            choice = choose(data, objective, gap=0)
            assert choice.objective == pytest.approx(truth, rel=1e-6), (seed, objective)
            assert choice.bound == pytest.approx(truth, rel=2e-6), (seed, objective)
            assert choice.status == "optimal", (seed, objective)
            n = tuple(choice.units.get(j, 0) for j in data.J)
            worth = sum(data.worth(w) * g for w, g in choice.goodput_rps.items())
            assert worth == pytest.approx(goodput_of(data, n), rel=1e-6), (seed, objective)


def test_granting_what_is_asked_for_makes_a_fleet_possible() -> None:
    explained = 0
    for seed in range(60):
        data = tiny(seed)
        try:
            choose(data, "min_cost")
        except NoFleetError as error:
            if any(s.number == "C2" for s in error.together):
                assert not error.alone
                continue
            explained += 1
            assert choose(granted(data, *error.together), "min_cost").units
            for alone in error.alone:
                assert choose(granted(data, alone), "min_cost").units
                almost = dataclasses.replace(alone, needs=0.02 * alone.limit + 0.98 * alone.needs)
                if alone.unit not in ("accelerators", "units"):
                    with pytest.raises(InfeasibleError):
                        choose(granted(data, almost), "min_cost")
        else:
            assert shortfalls(data) == ()
    assert explained > 5


def granted(data: Instance, *asked: object) -> Instance:
    """The instance with limits moved to what was asked for, and a hair beyond."""
    fields = {"C3": "promise", "C5": "shed_limit", "C6": "stock", "C7": "max_units"}
    for one in asked:
        needs = one.needs * (1 + 1e-5) if one.needs > one.limit else one.needs * (1 - 1e-5)
        if one.number == "C8":
            data = dataclasses.replace(data, budget_usd_per_hour=needs)
        else:
            needs = round(one.needs) if one.number in ("C6", "C7") else min(needs, 1.0)
            name = fields[one.number]
            changed = {**getattr(data, name), one.index[0]: needs}
            data = dataclasses.replace(data, **{name: changed})
    return data


def test_more_stock_never_costs_more_and_never_serves_less() -> None:
    better = {"min_cost": -1, "max_goodput": 1, "max_goodput_per_usd": 1}
    for seed in range(40):
        data = tiny(seed)
        more = dataclasses.replace(data, stock={g: n + 1 for g, n in data.stock.items()})
        for objective in OBJECTIVES:
            try:
                before = choose(data, objective, gap=0).objective
            except InfeasibleError:
                continue
            after = choose(more, objective, gap=0).objective
            assert better[objective] * (after - before) >= -1e-6 * abs(before)


def test_order_of_the_ids_changes_nothing() -> None:
    for seed in range(0, 40, 2):
        data = tiny(seed)
        turned = dataclasses.replace(data, W=data.W[::-1], J=data.J[::-1], G=data.G[::-1])
        for objective in OBJECTIVES:
            try:
                value = choose(data, objective, gap=0).objective
            except InfeasibleError:
                with pytest.raises(InfeasibleError):
                    choose(turned, objective, gap=0)
                continue
            assert choose(turned, objective, gap=0).objective == pytest.approx(value, rel=1e-6)


def test_equal_arguments_give_equal_answers() -> None:
    data = tiny(4)
    assert choose(data, "max_goodput_per_usd") == choose(data, "max_goodput_per_usd")
