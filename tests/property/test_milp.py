"""Laws of the choice: it equals brute force, and more to choose from never hurts."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from planner.errors import InfeasibleError
from planner.milp import Instance, NoFleetError, Shortfall, choose, shortfalls
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

    w_ids = ("chat", "code")[: rng.integers(1, 3)]
    j_ids = ("a", "b", "c")[: rng.integers(1, 4)]
    g_ids = ("g", "h")[: rng.integers(1, 3)]
    points = {j: tuple("0123"[: rng.integers(1, 5)]) for j in j_ids}
    load, goodput = {}, {}
    for j in j_ids:
        for o in points[j]:
            for w in w_ids:
                if rng.random() < 0.75:
                    load[j, o, w] = number(1, 6)
                    goodput[j, o, w] = min(number(0, 6), load[j, o, w])
    return Instance(
        W=w_ids,
        J=j_ids,
        G=g_ids,
        O=points,
        demand_rps={w: number(1, 10) for w in w_ids},
        promise={w: float(rng.choice([0.0, 0.25, 0.5, 0.75])) for w in w_ids},
        load_rps=load,
        goodput_rps=goodput,
        devices={j: int(rng.integers(1, 3)) for j in j_ids},
        accelerator_of={j: str(rng.choice(g_ids)) for j in j_ids},
        usd_per_hour={j: number(1, 5) for j in j_ids},
        stock={g: 6 // len(g_ids) for g in g_ids},
        max_units={j_ids[0]: 2} if rng.random() < 0.3 else {},
        shed_limit={w_ids[0]: 0.25} if rng.random() < 0.3 else {},
        value={w: float(rng.choice([0.25, 1.0, 4.0])) for w in w_ids if rng.random() < 0.6},
        budget_usd_per_hour=number(6, 20) if rng.random() < 0.3 else None,
    )


def wild(seed: int) -> Instance:
    """Such an instance with demands of 1e-5 to 1e7 req/s, and units up to 1e8 times a demand."""
    data = tiny(seed)
    rng = np.random.default_rng([seed, 1])
    rate = {w: float(10 ** rng.uniform(-5, 6)) for w in data.W}
    speed = {j: float(rng.choice([1.0, 1e3, 1e8])) for j in data.J}

    def times(rates: Mapping[tuple[str, str, str], float]) -> dict[tuple[str, str, str], float]:
        return {(j, o, w): r * rate[w] * speed[j] for (j, o, w), r in rates.items()}

    return dataclasses.replace(
        data,
        demand_rps={w: d * rate[w] for w, d in data.demand_rps.items()},
        load_rps=times(data.load_rps),
        goodput_rps=times(data.goodput_rps),
    )


def test_the_choice_equals_brute_force_at_any_scale_of_the_numbers() -> None:
    for seed in range(60):
        data = wild(seed)
        best = brute_force(data)
        for objective in OBJECTIVES:
            truth = getattr(best, objective)
            if truth is None:
                with pytest.raises(InfeasibleError):
                    choose(data, objective, gap=0)
                continue
            choice = choose(data, objective, gap=0)
            assert choice.objective == pytest.approx(truth, rel=2e-6), (seed, objective)
            assert choice.status == "optimal", (seed, objective)


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
            if objective == "max_goodput":
                assert choice.cost_usd_per_hour <= best.cost_of_max_goodput * (1 + 1e-9), seed
            n = tuple(choice.units.get(j, 0) for j in data.J)
            worth = sum(data.worth(w) * g for w, g in choice.goodput_rps.items())
            assert worth == pytest.approx(goodput_of(data, n), rel=1e-6), (seed, objective)


def explained(seed: int) -> NoFleetError | None:
    """Why there is no fleet; None if there is one."""
    try:
        choose(tiny(seed), "min_cost")
    except NoFleetError as error:
        return error
    return None


def test_granting_what_is_asked_for_makes_a_fleet_possible() -> None:
    reasons = {seed: explained(seed) for seed in range(60)}
    for seed, error in reasons.items():
        data = tiny(seed)
        if error is None:
            assert shortfalls(data) == ()
        elif any(s.number == "C2" for s in error.together):
            assert error.alone == ()  # no limit is in the way, so none helps
        else:
            assert choose(granted(data, *error.together), "min_cost").units
    assert sum(bool(error and error.alone) for error in reasons.values()) > 5


def test_what_one_limit_must_give_alone_is_enough_and_no_less_is() -> None:
    for seed in range(60):
        error = explained(seed)
        for alone in error.alone if error else ():
            assert choose(granted(tiny(seed), alone), "min_cost").units
            if alone.unit in ("accelerators", "units"):
                less = dataclasses.replace(alone, needs=alone.needs - 1)
            else:
                less = dataclasses.replace(alone, needs=0.02 * alone.limit + 0.98 * alone.needs)
            with pytest.raises(NoFleetError):
                choose(granted(tiny(seed), less), "min_cost")


def granted(data: Instance, *asked: Shortfall) -> Instance:
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
