"""Tiny instances with answers worked out by hand, and large ones drawn at random."""

import dataclasses

import numpy as np

from planner.milp import Deferral, Instance, Moves, Term, Terms
from planner.milp.links import Links
from planner.milp.nodes import Loss, Nodes, Spare

SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)


def two_by_two(**changes: object) -> Instance:
    """Chat and batch; small (1 x a10, 1 USD/h) serves batch, big (4 x h100, 10 USD/h) both.

    Demand: chat 10 req/s at 95 %, batch 6 req/s at 50 %.

    One big unit carries 8 req/s of chat (7.6 compliant) or 8 req/s of batch, or, in the mix,
    5 and 3 (4.9 and 3); at its overload point it takes 16 of chat and 4 of them comply.
    One small unit carries 1 req/s of batch (all compliant), or 2 (0.8 compliant).
    """
    data = {
        "W": ("chat", "batch"),
        "J": ("small", "big"),
        "G": ("a10", "h100"),
        "O": {"small": ("0", "1"), "big": ("chat", "over", "batch", "mix")},
        "demand_rps": {"chat": 10.0, "batch": 6.0},
        "promise": {"chat": 0.95, "batch": 0.5},
        "load_rps": {
            ("small", "0", "batch"): 1.0,
            ("small", "1", "batch"): 2.0,
            ("big", "chat", "chat"): 8.0,
            ("big", "over", "chat"): 16.0,
            ("big", "batch", "batch"): 8.0,
            ("big", "mix", "chat"): 5.0,
            ("big", "mix", "batch"): 3.0,
        },
        "goodput_rps": {
            ("small", "0", "batch"): 1.0,
            ("small", "1", "batch"): 0.8,
            ("big", "chat", "chat"): 7.6,
            ("big", "over", "chat"): 4.0,
            ("big", "batch", "batch"): 8.0,
            ("big", "mix", "chat"): 4.9,
            ("big", "mix", "batch"): 3.0,
        },
        "devices": {"small": 1, "big": 4},
        "accelerator_of": {"small": "a10", "big": "h100"},
        "usd_per_hour": {"small": 1.0, "big": 10.0},
    }
    return Instance(**(data | changes))  # type: ignore[arg-type]


def day_and_night(**changes: object) -> Deferral:
    """A day and a night of one slot each; 18 requests of ``index`` come by day.

    By day two big units are needed, by night one. A unit lent does 0.001 req/s, 3.6 in a slot
    of an hour; the window is two slots.
    """
    data = {
        "B": ("index",),
        "T": ("day", "night"),
        "S": ("noon", "midnight"),
        "period_of": {"noon": "day", "midnight": "night"},
        "arriving": {("index", "noon"): 18.0},
        "slots_to_wait": {"index": 2},
        "slot_s": 3600.0,
        "lent_rps": {("big", "index"): 0.001},
        "kept": {("big", "day"): 2, ("big", "night"): 1},
    }
    return Deferral(**(data | changes))  # type: ignore[arg-type]


def indexed(data: Instance) -> Instance:
    """Return two_by_two over a day of 16 h and a night of 8, in an east and a west domain.

    By night a tenth of chat comes, and no batch. The a10 stand in the east, the h100 in both,
    eight of them in the west.
    """
    return dataclasses.replace(
        data,
        T=("day", "night"),
        D=("east", "west"),
        hours={"day": 16.0, "night": 8.0},
        demand_in={("chat", "night"): 1.0, ("batch", "night"): 0.0},
        homes={"a10": ("east",)},
        stock_in={("h100", "west"): 8},
    )


def on_terms(**changes: object) -> Terms:
    """Terms for the h100 of two_by_two: 4 are owned, 4 more can be reserved; 30 min to start."""
    data = {
        "of": {
            ("h100", "owned"): Term("owned", 0.5, 4),
            ("h100", "year"): Term("reserved", 1.5, 4),
            ("h100", "on-demand"): Term("on-demand", 2.5, least_hours=2.0),
            ("h100", "spot"): Term("spot", 1.0, 6),
        },
        "spot_share": {"h100": 0.25},
        "start_hours": {"h100": 0.5},
        "ramp": {"h100": 8},
    }
    return Terms(**(data | changes))  # type: ignore[arg-type]


def fleet_problem(
    demand: float = 1.0,
    templates: int = 250,
    workloads: int = 20,
    accelerators: int = 5,
    seed: int = 7,
) -> Instance:
    """Templates of 1 to 8 devices that serve 1 to 3 workloads in a fixed mix, at five loads."""
    rng = np.random.default_rng(seed)
    w_ids = tuple(f"w{i}" for i in range(workloads))
    j_ids = tuple(f"t{i}" for i in range(templates))
    g_ids = tuple(f"g{i}" for i in range(accelerators))
    speed = {g: float(rng.uniform(1, 6)) for g in g_ids}
    price = {g: speed[g] * float(rng.uniform(0.8, 1.2)) for g in g_ids}
    load, goodput, devices, of = {}, {}, {}, {}
    for i, j in enumerate(j_ids):
        of[j], devices[j] = str(rng.choice(g_ids)), int(2 ** rng.integers(0, 4))
        mix = rng.choice(workloads, size=rng.integers(1, 4), replace=False)
        mix = np.unique(np.append(mix[1:], i % workloads))  # every workload is served
        weight = rng.dirichlet(np.ones(len(mix)))
        capacity_rps = speed[of[j]] * devices[j] ** 0.9 * float(rng.uniform(0.7, 1.0))
        for o, share in enumerate(SHARES):
            for w, part in zip(mix, weight, strict=True):
                rate = capacity_rps * share * float(part)
                load[j, str(o), w_ids[w]] = rate
                goodput[j, str(o), w_ids[w]] = rate * (1 - 0.08 * share**6)
    return Instance(
        W=w_ids,
        J=j_ids,
        G=g_ids,
        O={j: tuple(str(o) for o in range(len(SHARES))) for j in j_ids},
        demand_rps={w: float(rng.uniform(20, 400)) * demand for w in w_ids},
        promise=dict.fromkeys(w_ids, 0.95),
        load_rps=load,
        goodput_rps=goodput,
        devices=devices,
        accelerator_of=of,
        usd_per_hour={j: price[of[j]] * devices[j] for j in j_ids},
        stock={g: int(600 * demand) for g in g_ids},
    )


def three_racks(**changes: object) -> Instance:
    """Chat and batch of :func:`two_by_two`, with two racks of 8 h100 a node, and one of 4 a10.

    On the a10 also ``duo`` and ``trio``, of 2 and 3 devices: their sizes are no chain. The fleet
    must survive the loss of a rack of h100, and of a node with a big unit in rack ``left``.
    """
    base = two_by_two()
    where = Nodes(
        accelerator_of={"left": "h100", "right": "h100", "old": "a10"},
        node_devices={"left": 8, "right": 8, "old": 4},
        usd_per_hour={"left": 20.0, "right": 22.0, "old": 4.0},
        stock={"left": 3, "old": 5},
        free={"right": (6, 3), "old": (3, 3)},
        node_watts={"left": 14e3, "right": 14e3},
        power={"hall": (("left", "right"), 56e3)},
        barred=frozenset({("trio", "old")}),
        spare=Spare(
            count=1,
            floor={"chat": 0.9, "batch": 0.25},
            shed={"batch": 0.5},
            groups={"left": ("left",), "right": ("right",)},
        ),
        losses=(
            Loss("left", ("left",)),
            Loss("node", (), {("big", "left"): 2}),
            Loss("full", devices={"old": 2}),
        ),
    )
    data = {
        "J": ("small", "duo", "trio", "big"),
        "O": {**base.O, "duo": ("0",), "trio": ("0",)},
        "load_rps": {**base.load_rps, ("duo", "0", "batch"): 2.0, ("trio", "0", "batch"): 3.5},
        "goodput_rps": {**base.goodput_rps, ("duo", "0", "batch"): 2.0},
        "devices": {**base.devices, "duo": 2, "trio": 3},
        "accelerator_of": {**base.accelerator_of, "duo": "a10", "trio": "a10"},
        "usd_per_hour": dict.fromkeys(("small", "duo", "trio", "big"), 0.0),
        "D": ("left", "right", "old"),
        "homes": {"a10": ("old",), "h100": ("left", "right")},
        "nodes": where,
        "moves": Moves(current={("big", "left"): 2}, most=5, usd_per_hour=0.5),
    }
    return dataclasses.replace(base, **(data | changes))  # type: ignore[arg-type]


def many_racks(
    templates: int = 5000,
    workloads: int = 20,
    domains: int = 200,
    accelerators: int = 5,
    zones: int = 4,
    seed: int = 3,
    demand: float = 1.0,
    **changes: object,
) -> Instance:
    """Policies of every build for every workload, on racks of whole nodes in several zones.

    Racks of one zone and accelerator have one price, within 10 % of the accelerator's, and each
    4 to 12 nodes of 8, times ``demand``.
    """
    rng = np.random.default_rng(seed)
    w_ids = tuple(f"w{i}" for i in range(workloads))
    g_ids = tuple(f"g{i}" for i in range(accelerators))
    d_ids = tuple(f"d{i}" for i in range(domains))
    speed = {g: float(rng.uniform(1, 6)) for g in g_ids}
    fit = {(g, w): float(rng.uniform(0.7, 1.3)) for g in g_ids for w in w_ids}
    small = {w: int(rng.integers(0, 3)) for w in w_ids}  # the least degree that holds its model
    kinds = [
        (g, size, w) for w in w_ids for g in g_ids for size in (1, 2, 4, 8)[small[w] : small[w] + 2]
    ]
    j_ids, load, goodput, devices, of = [], {}, {}, {}, {}
    for i in range(templates):
        g, size, w = kinds[i % len(kinds)]
        j = f"t{i}"
        j_ids.append(j)
        of[j], devices[j] = g, size
        # A policy trades capacity for compliance below it; most are worse than some other.
        eager = float(rng.choice([0.0, 1.0]))
        skill = 1.0 if i < len(kinds) else float(rng.uniform(0.6, 1.0))
        capacity_rps = speed[g] * fit[g, w] * size**0.95 * (0.85 + 0.15 * eager) * skill
        for o, share in enumerate(SHARES):
            load[j, str(o), w] = capacity_rps * share
            goodput[j, str(o), w] = load[j, str(o), w] * (1 - (0.02 + 0.05 * eager) * share**4)
    accelerator_of = {d: g_ids[i % accelerators] for i, d in enumerate(d_ids)}
    dear = [float(rng.uniform(0.9, 1.1)) for _ in range(zones)]
    nodes = Nodes(
        accelerator_of=accelerator_of,
        node_devices=dict.fromkeys(d_ids, 8),
        usd_per_hour={
            d: 8 * speed[accelerator_of[d]] * dear[i // accelerators % zones]
            for i, d in enumerate(d_ids)
        },
        stock={d: int(demand * rng.integers(4, 13)) for d in d_ids},
    )
    if changes.pop("spare", False):
        groups = {
            f"zone{z}": tuple(d for i, d in enumerate(d_ids) if i // accelerators % zones == z)
            for z in range(zones)
        }
        spare = Spare(1, dict.fromkeys(w_ids, 0.9), dict.fromkeys(w_ids, 0.1), groups)
        nodes = dataclasses.replace(nodes, spare=spare)
    return Instance(
        W=w_ids,
        J=tuple(j_ids),
        G=g_ids,
        O={j: tuple(str(o) for o in range(len(SHARES))) for j in j_ids},
        demand_rps={w: float(rng.uniform(20, 400)) * demand for w in w_ids},
        promise=dict.fromkeys(w_ids, 0.95),
        load_rps=load,
        goodput_rps=goodput,
        devices=devices,
        accelerator_of=of,
        usd_per_hour=dict.fromkeys(j_ids, 0.0),
        D=d_ids,
        homes={g: tuple(d for d in d_ids if accelerator_of[d] == g) for g in g_ids},
        nodes=nodes,
        **changes,  # type: ignore[arg-type]
    )


def two_ways(**changes: object) -> Links:
    """Links for the big units of two_by_two over two racks: prefill in one, decode in the other.

    Three h100 stand where it prefills, one where it decodes. A unit sends 4 GB/s at its point of
    chat; rack 1 lets 6 GB/s out and in, rack 2 12 GB/s.
    """
    data = {
        "carries": {"r1:out": 6e9, "r1:in": 6e9, "r2:out": 12e9, "r2:in": 12e9},
        "ways": {"big": ("there", "back")},
        "over": {("big", "there"): ("r1:out", "r2:in"), ("big", "back"): ("r2:out", "r1:in")},
        "sent": {
            ("big", "chat"): 4e9,
            ("big", "over"): 8e9,
            ("big", "batch"): 1e9,
            ("big", "mix"): 3e9,
        },
        "held": {
            ("big", "there"): {("h100", "r1"): 3, ("h100", "r2"): 1},
            ("big", "back"): {("h100", "r1"): 1, ("h100", "r2"): 3},
        },
        "room": {("h100", "r1"): 6, ("h100", "r2"): 8},
    }
    return Links(**(data | changes))  # type: ignore[arg-type]
