"""Laws of places: packing equals trying, and the cheapest fleet that survives equals a search."""

import dataclasses

import numpy as np
import pytest

from planner.errors import InfeasibleError
from planner.milp import Instance, Moves, choose, highs
from planner.milp.alike import merged
from planner.milp.dominated import without_dominated
from planner.milp.formulation import model_of
from planner.milp.highs import Settings
from planner.milp.nodes import Nodes, Spare
from planner.milp.packing import fillings, is_chain, place, room
from planner.milp.surviving import not_survived
from tests.brute_domains import fewest_nodes, fits, least_cost
from tests.instances import many_racks

CHAIN = (1, 2, 4, 8)


def test_one_row_per_size_is_exact_on_partly_used_nodes() -> None:
    """The rows hold if and only if the groups can be packed; the plain sum is wrong often."""
    rng = np.random.default_rng(8)
    plain_is_wrong = 0
    for _ in range(600):
        free = rng.integers(0, 9, size=rng.integers(1, 6)).tolist()
        left = sum(free)
        groups: list[int] = []
        while (size := int(rng.choice(CHAIN))) <= left:
            groups.append(size)
            left -= size
        by_rows = all(
            sum(g for g in groups if g >= size) <= sum(room(f, size) for f in free)
            for size in CHAIN
        )
        truth = fits(free, groups)
        assert by_rows == truth, (free, groups)
        homes = place(free, groups)
        assert (homes is not None) == truth
        if homes is not None:
            used = [
                sum(g for g, at in zip(groups, homes, strict=True) if at == v)
                for v in range(len(free))
            ]
            assert all(u <= f for u, f in zip(used, free, strict=True))
        plain_is_wrong += not truth  # the sum of all devices fits by construction
    assert plain_is_wrong > 100


def packed(free: list[int], stock: int, devices: int, counts: dict[int, int]) -> Instance:
    """An instance that must hold so many units of each size, in nodes that cost 1 each."""
    sizes = {f"s{size}": size for size in counts}
    points = dict.fromkeys(sizes, ("0",))
    return Instance(
        W=("w",),
        J=tuple(sizes),
        G=("g",),
        O=points,
        demand_rps={"w": 1.0},
        promise={"w": 0.0},
        load_rps={(j, "0", "w"): 1.0 for j in sizes},
        goodput_rps={},
        devices=sizes,
        accelerator_of=dict.fromkeys(sizes, "g"),
        usd_per_hour=dict.fromkeys(sizes, 0.0),
        min_units={f"s{size}": n for size, n in counts.items()},
        max_units={f"s{size}": n for size, n in counts.items()},
        D=("d",),
        nodes=Nodes(
            accelerator_of={"d": "g"},
            node_devices={"d": devices},
            usd_per_hour={"d": 1.0},
            stock={"d": stock},
            free={"d": tuple(free)},
        ),
    )


@pytest.mark.parametrize(
    ("sizes", "devices"),
    [(CHAIN, 8), ((1, 2, 3, 4, 6), 8), ((3, 4, 5), 8), ((2, 3, 8), 8), ((16, 24, 32), 72)],
)
def test_the_fewest_nodes_equal_trying(sizes: tuple[int, ...], devices: int) -> None:
    rng = np.random.default_rng(devices + len(sizes))
    impossible = 0
    for _ in range(40):
        free = rng.integers(0, devices + 1, size=rng.integers(0, 4)).tolist()
        stock = int(rng.integers(0, 4))
        counts = {size: int(rng.integers(0, 4)) for size in sizes}
        if not sum(counts.values()):
            continue
        counts = {size: n for size, n in counts.items() if n}
        groups = [size for size, n in counts.items() for _ in range(n)]
        fewest = fewest_nodes(free, devices, groups, stock)
        data = packed(free, stock, devices, counts)
        if fewest is None:
            impossible += 1
            with pytest.raises(InfeasibleError):
                choose(data, "min_cost", gap=0)
            continue
        assert choose(data, "min_cost", gap=0).nodes.get("d", 0) == fewest
    assert impossible


def test_ways_to_fill_a_node_are_full_and_all() -> None:
    ways = fillings(8, (3, 2))
    assert ways == [(2, 1), (1, 2), (0, 4)]
    assert not is_chain((2, 3))
    assert is_chain((8, 2, 2, 4))


def scattered(seed: int) -> Instance:
    """At most 2 templates, 2 workloads, 3 domains; what must be survived, powered, or moved."""
    rng = np.random.default_rng(seed)
    w_ids = ("chat", "code")[: rng.integers(1, 3)]
    j_ids = ("a", "b")[: rng.integers(1, 3)]
    d_ids = ("x", "y", "z")[: 3 if len(j_ids) == 1 else 2]
    load, goodput = {}, {}
    for j in j_ids:
        for o in "01":
            for w in w_ids:
                if rng.random() < 0.8:
                    load[j, o, w] = float(rng.integers(2, 8))
                    goodput[j, o, w] = min(float(rng.integers(1, 8)), load[j, o, w])
    devices = 4 if rng.random() < 0.7 else 6
    of = {d: "g" if len(j_ids) == 1 or rng.random() < 0.7 else "h" for d in d_ids}
    accelerators = {j: str(rng.choice(sorted(set(of.values())))) for j in j_ids}
    groups = {d: (d,) for d in d_ids}
    if len(d_ids) == 3 and rng.random() < 0.3:
        groups = {"left": d_ids[:2], "right": d_ids[2:]}
    spare = Spare(
        count=2 if rng.random() < 0.2 else 1,
        floor={w: float(rng.choice([0.25, 0.5, 0.75])) for w in w_ids},
        shed={w: 0.5 for w in w_ids if rng.random() < 0.5},
        groups=groups if rng.random() < 0.5 else None,
    )
    some = rng.random(6)
    return Instance(
        W=w_ids,
        J=j_ids,
        G=("g", "h"),
        O=dict.fromkeys(j_ids, ("0", "1")),
        demand_rps={w: float(rng.integers(2, 7)) for w in w_ids},
        promise={w: float(rng.choice([0.0, 0.25, 0.5])) for w in w_ids},
        load_rps=load,
        goodput_rps=goodput,
        devices={j: int(rng.choice([1, 2, 3, 4])) for j in j_ids},
        accelerator_of=accelerators,
        usd_per_hour=dict.fromkeys(j_ids, float(rng.integers(0, 2))),
        D=d_ids,
        homes={g: tuple(d for d in d_ids if of[d] == g) for g in "gh"},
        nodes=Nodes(
            accelerator_of=of,
            node_devices=dict.fromkeys(d_ids, devices),
            usd_per_hour={d: float(rng.integers(2, 8)) for d in d_ids},
            stock={d: int(rng.integers(1, 4)) for d in d_ids},
            free={d_ids[0]: (int(rng.integers(1, devices)),)} if some[0] < 0.3 else {},
            node_watts=dict.fromkeys(d_ids, 100.0),
            power={"hall": (d_ids[:2], 300.0)} if some[1] < 0.3 else {},
            barred=frozenset({(j_ids[0], d_ids[0])}) if some[2] < 0.3 else frozenset(),
            spare=spare if some[5] < 0.8 else None,
        ),
        moves=Moves(
            current={(j_ids[0], d_ids[1]): 2},
            most=int(rng.integers(2, 7)) if some[3] < 0.3 else None,
            usd_per_hour=0.25 if some[4] < 0.3 else 0.0,
        ),
    )


@pytest.mark.parametrize("batch", range(8))
def test_the_cheapest_fleet_that_survives_equals_a_search(batch: int) -> None:
    for seed in range(15 * batch, 15 * batch + 15):
        data = scattered(seed)
        most = 3 if len(data.J) == 2 else 5
        data = dataclasses.replace(data, max_units={})
        truth = least_cost(data, most)
        try:
            choice = choose(data, "min_cost", gap=0)
        except InfeasibleError:
            assert truth is None, seed
            continue
        if any(n > most for n in choice.units_in.values()):
            continue  # beyond what was searched
        assert choice.cost_usd_per_hour == pytest.approx(truth, rel=1e-6), seed
        assert choice.bound == pytest.approx(truth, rel=1e-5), seed


def test_nodes_are_held_in_every_period_and_survive_in_each() -> None:
    """Two periods: what each needs by a search over placements, nodes for the most of both."""
    tried = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 7])
        d_ids, size = ("x", "y"), int(rng.choice([1, 2]))
        rate = {t: float(rng.integers(1, 7)) for t in ("day", "night")}
        price = {d: float(rng.integers(2, 6)) for d in d_ids}
        floor = float(rng.choice([0.25, 0.5, 1.0]))
        data = Instance(
            W=("w",),
            J=("j",),
            G=("g",),
            O={"j": ("0",)},
            demand_rps={"w": 1.0},
            promise={"w": 1.0},
            load_rps={("j", "0", "w"): 2.0},
            goodput_rps={("j", "0", "w"): 2.0},
            devices={"j": size},
            accelerator_of={"j": "g"},
            usd_per_hour={"j": 0.0},
            T=("day", "night"),
            hours={"day": 8.0, "night": 16.0},
            demand_in={("w", t): r for t, r in rate.items()},
            D=d_ids,
            homes={"g": d_ids},
            nodes=Nodes(
                accelerator_of=dict.fromkeys(d_ids, "g"),
                node_devices=dict.fromkeys(d_ids, 2),
                usd_per_hour=price,
                spare=Spare(1, {"w": floor}, {"w": 1 - floor}, {d: (d,) for d in d_ids}),
            ),
        )
        per_node = 2 // size
        least = min(
            price["x"] * a + price["y"] * b
            for a in range(8)
            for b in range(8)
            if all(2 * per_node * (a + b) >= r for r in rate.values())
            and all(2 * per_node * min(a, b) >= floor * r for r in rate.values())
        )
        choice = choose(data, "min_cost", gap=0)
        assert choice.cost_usd_per_hour == pytest.approx(least, rel=1e-6), seed
        tried += 1
    assert tried == 60


def test_what_is_left_out_and_put_together_changes_no_optimum() -> None:
    """Dominated templates and equal racks: the relaxation without them is as good as with them."""
    data = many_racks(templates=330, workloads=3, domains=12, accelerators=2, zones=2)
    few, sets = merged(without_dominated(data))
    assert len(few.J) < len(data.J)
    assert sets
    whole, small = (
        highs.run(model_of(one).cost_program().relaxed(), Settings()).bound for one in (data, few)
    )
    assert small == pytest.approx(whole, rel=1e-7)


def test_racks_that_were_put_together_get_their_own_nodes_and_units() -> None:
    data = many_racks(templates=330, workloads=3, domains=12, accelerators=2, zones=2, spare=True)
    where = data.nodes
    assert where is not None
    choice = choose(data, "min_cost", gap=0.003)
    for d, nodes in choice.nodes.items():
        assert nodes <= where.stock[d]
        groups = [
            data.devices[j]
            for (j, of, _), n in choice.units_in.items()
            for _ in range(n)
            if of == d
        ]
        assert place([8] * nodes, groups) is not None
    paid = sum(where.usd_per_hour[d] * n for d, n in choice.nodes.items())
    assert paid == pytest.approx(choice.cost_usd_per_hour)
    for j, n in choice.units.items():
        assert sum(m for (i, _, _), m in choice.units_in.items() if i == j) == n
    assert not_survived(data, choice.units_in) == []
