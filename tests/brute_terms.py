"""A second route to the best fleet over periods and terms: every fleet of every period is tried.

Shares no code with planner/milp: what is hired, started and kept is counted again from the page.
"""

import dataclasses
import itertools

import numpy as np

from planner.milp import Instance
from tests.brute import Best, goodput_of

Fleet = tuple[int, ...]


def brute_over_time(data: Instance) -> Best:
    """The best of each objective; two or three spans, one domain, stock on every term."""
    spans = data.terms.cycle or data.T
    span_hours = [data.hours[t] / spans.count(t) for t in spans]
    hired = [i for i, term in data.terms.of.items() if term.kind in ("on-demand", "spot")]
    steady = [i for i, term in data.terms.of.items() if term.kind in ("owned", "reserved")]
    fleets = {t: _fleets(data, t) for t in data.T}
    found: list[tuple[float, float]] = []
    for held in itertools.product(*(_counts(data.terms.of[i]) for i in steady)):
        base = dict.fromkeys(data.G, 0)
        for (g, _), count in zip(steady, held, strict=True):
            base[g] += count
        states = {t: _states(data, fleets[t], hired, base) for t in data.T}
        fixed = sum(
            data.terms.of[i].usd_per_hour * count for i, count in zip(steady, held, strict=True)
        )
        for choice in itertools.product(*(range(len(states[t])) for t in data.T)):
            run = {t: states[t][k] for t, k in zip(data.T, choice, strict=True)}
            starts = _starts(data, spans, span_hours, hired, base, run)
            if starts is None:
                continue
            total = sum(span_hours)
            hourly = sum(
                hours * data.terms.of[i].usd_per_hour * run[t][1][i]
                for t, hours in zip(spans, span_hours, strict=True)
                for i in hired
            )
            units = sum(
                hours * data.usd_per_hour[j] * n
                for t, hours in zip(spans, span_hours, strict=True)
                for j, n in zip(data.J, run[t][0], strict=True)
                if not any(g == data.accelerator_of[j] for g, _ in data.terms.of)
            )
            cost = fixed + (hourly + units + starts) / total
            good = sum(h * run[t][2] for t, h in zip(spans, span_hours, strict=True)) / total
            budget = data.budget_usd_per_hour
            if budget is None or cost <= budget + 1e-9:
                found.append((cost, good))
    if not found:
        return Best()
    most = max(good for _, good in found)
    return Best(
        min(cost for cost, _ in found),
        most,
        max(good / cost if cost else 0.0 for cost, good in found),
        min(cost for cost, good in found if good >= most * (1 - 1e-9)),
    )


def _counts(term) -> list[int]:
    return [term.stock] if term.kind == "owned" else list(range(term.stock + 1))


def _fleets(data: Instance, t: str) -> list[tuple[Fleet, float]]:
    """Every number of units that keeps the promises of a period, with its highest goodput."""
    silent = not any(data.demand_in[w, t] for w in data.W)  # the day's only workload is away
    now = dataclasses.replace(
        data,
        demand_rps={w: data.demand_in[w, t] or 1.0 for w in data.W},
        T=("",),
        hours={},
        demand_in={},
        terms=None,
    )
    most = [
        min(
            sum(x.stock for (g, _), x in data.terms.of.items() if g == data.accelerator_of[j])
            // data.devices[j],
            data.max_units[j],
        )
        for j in data.J
    ]
    found = []
    for n in itertools.product(*(range(m + 1) for m in most)):
        goodput = 0.0 if silent else goodput_of(now, n)
        if goodput is not None:
            found.append((n, goodput))
    return found


def _used(data: Instance, n: Fleet, g: str) -> int:
    return sum(
        data.devices[j] * count
        for j, count in zip(data.J, n, strict=True)
        if data.accelerator_of[j] == g
    )


def _states(data, fleets, hired, base):
    """Every fleet with every hire that holds it and keeps the share of spot."""
    found = []
    for n, goodput in fleets:
        for counts in itertools.product(*(range(data.terms.of[i].stock + 1) for i in hired)):
            hire = dict(zip(hired, counts, strict=True))
            fine = True
            for g in {g for g, _ in data.terms.of}:
                held = base[g] + sum(c for (of, _), c in hire.items() if of == g)
                spot = sum(
                    c for i, c in hire.items() if i[0] == g and data.terms.of[i].kind == "spot"
                )
                share = data.terms.spot_share.get(g, 1.0)
                fine &= _used(data, n, g) <= held and spot <= share * held + 1e-9
            if fine:
                found.append((n, hire, goodput))
    return found


def _starts(data, spans, span_hours, hired, base, run):  # noqa: C901
    """What starts cost over the cycle, USD; None where a rule is broken.

    Each hired accelerator is followed by itself, oldest given back first. Extra accelerators may
    be started beside those that are held, if what starts has no room otherwise.
    """
    terms, cost, n_spans = data.terms, 0.0, len(spans)
    begun = {i: [0] * n_spans for i in hired}
    extras = []
    for k in range(n_spans):
        if k == 0 and not terms.cyclic:
            continue
        before, now = run[spans[k - 1]], run[spans[k]]
        for g in {g for g, _ in terms.of}:
            change = _used(data, now[0], g) - _used(data, before[0], g)
            if abs(change) > terms.ramp.get(g, 10**6):
                return None
            grown = {i: max(now[1][i] - before[1][i], 0) for i in hired if i[0] == g}
            for i, count in grown.items():
                begun[i][k] = count
            if terms.start_hours.get(g, 0) > 0 and spans[k] != spans[k - 1]:
                new = sum(
                    data.devices[j] * max(b - a, 0)
                    for j, a, b in zip(data.J, before[0], now[0], strict=True)
                    if data.accelerator_of[j] == g
                )
                room = base[g] + sum(before[1][i] for i in grown) + sum(grown.values())
                short = _used(data, before[0], g) + new - room
                if short > 0:
                    extras.append((k, g, short, list(grown)))
    # Extra starts: every way to divide them among the hired terms of the accelerator.
    best = None
    for ways in itertools.product(*(_divided(short, len(of)) for _, _, short, of in extras)):
        all_begun = {i: list(row) for i, row in begun.items()}
        for (k, _, _, of), way in zip(extras, ways, strict=True):
            for i, count in zip(of, way, strict=True):
                all_begun[i][k] += count
        if any(not _stays(data, spans, span_hours, i, all_begun[i], run) for i in hired):
            continue
        cost = sum(
            terms.start_hours.get(i[0], 0.0) * terms.of[i].usd_per_hour * sum(row)
            for i, row in all_begun.items()
        )
        best = cost if best is None else min(best, cost)
    return best


def _divided(count: int, parts: int) -> list[tuple[int, ...]]:
    return [way for way in itertools.product(range(count + 1), repeat=parts) if sum(way) == count]


def _stays(data, spans, span_hours, i, begun, run) -> bool:
    """Follow the ages of the accelerators through some cycles; the oldest go first."""
    least, n = data.terms.of[i].least_hours, len(spans)
    ages = [1e9] * run[spans[0]][1][i]
    for round_ in range(4 if data.terms.cyclic else 1):
        for k in range(n):
            wanted = run[spans[k]][1][i]
            started = begun[k] if (k > 0 or (data.terms.cyclic and round_ > 0)) else 0
            if k > 0 or round_ > 0:
                kept = wanted - started
                if kept < 0 or kept > len(ages):
                    return False
                ages.sort()
                going = ages[kept:]
                if any(age < least - 1e-9 for age in going):
                    return False
                ages = ages[:kept] + [0.0] * started
            ages = [age + span_hours[k] for age in ages]
    return True


def day(seed: int) -> Instance:
    """Two or three periods, one or two templates, up to four accelerators, two to four terms."""
    rng = np.random.default_rng([seed, 5])
    from planner.milp import Term, Terms

    periods = ("dawn", "noon", "night")[: rng.integers(2, 4)]
    three = len(periods) == 3
    j_ids = ("a",) if three and rng.random() < 0.5 else ("a", "b")
    points = {j: tuple("01"[: rng.integers(1, 3)]) for j in j_ids}
    load = {(j, o, "chat"): float(rng.integers(2, 6)) for j in j_ids for o in points[j]}
    good = {i: float(rng.integers(int(rate) - 1, int(rate) + 1)) for i, rate in load.items()}
    of = {("g", "year"): Term("reserved", float(rng.integers(1, 4)), int(rng.integers(1, 3)))}
    if rng.random() < 0.4:
        of["g", "own"] = Term("owned", float(rng.integers(0, 2)), 1)
    of["g", "hour"] = Term(
        "on-demand",
        float(rng.integers(2, 7)),
        int(rng.integers(1, 4 if not three else 3)),
        least_hours=float(rng.choice([0.0, 0.0, 2.0, 5.0])),
    )
    if not three and rng.random() < 0.6:
        of["g", "spot"] = Term("spot", float(rng.integers(1, 3)), int(rng.integers(1, 3)))
    cycle = ()
    if not three and rng.random() < 0.3:
        cycle = (periods[0], periods[1], periods[0], periods[1], periods[1])
    terms = Terms(
        of,
        spot_share={"g": float(rng.choice([0.0, 0.25, 0.5]))} if rng.random() < 0.6 else {},
        start_hours={"g": float(rng.choice([0.25, 0.4]))} if rng.random() < 0.5 else {},
        ramp={"g": int(rng.integers(1, 3))} if rng.random() < 0.3 else {},
        cycle=cycle,
        cyclic=bool(rng.random() < 0.7),
    )
    return Instance(
        W=("chat",),
        J=j_ids,
        G=("g",),
        O=points,
        demand_rps={"chat": 8.0},
        promise={"chat": float(rng.choice([0.25, 0.5, 0.75]))},
        load_rps=load,
        goodput_rps=good,
        devices={j: 1 + int(j == "b") for j in j_ids},
        accelerator_of=dict.fromkeys(j_ids, "g"),
        usd_per_hour=dict.fromkeys(j_ids, 100.0),
        max_units=dict.fromkeys(j_ids, 3),
        budget_usd_per_hour=float(rng.integers(6, 20)) if rng.random() < 0.3 else None,
        T=periods,
        hours={t: float(rng.integers(1, 5)) * (6 if cycle else 1) for t in periods},
        demand_in={("chat", t): float(rng.choice([0.0, 2.0, 5.0, 8.0])) for t in periods},
        terms=terms,
    )
