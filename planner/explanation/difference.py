"""Two plans of one service: what the bill, the fleet, the promises and the question do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from planner.fleet import Infeasibility
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from planner.fleet import FleetPlan, Pool

REST: Final = "everything else"
"""On the bill beside what is rented."""
OWN: Final = ("capacity_rps", "offered_rps", "busy_share", "mfu", "curve", "prefix_hits", "groups")
"""Figures of a pool that follow from the others, and its size, which is told by itself."""


class Amount(Spec):
    """A figure of both plans; null where a plan has none."""

    of: str
    old: float | None
    new: float | None


class Line(Spec):
    """A part of the bill, USD per hour; the lines sum to the difference of the bills."""

    item: str
    old_count: int
    new_count: int
    old_usd_per_hour: float
    new_usd_per_hour: float


class Moved(Spec):
    """A pool whose size or settings differ; 0 replicas where a plan lacks it."""

    pool: str
    old_replicas: int
    new_replicas: int
    fields: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """What else differs, old and new as text."""


class Promise(Spec):
    """One workload in both plans; null where a plan lacks it, or holds no fleet."""

    workload: str
    figures: tuple[Amount, ...]


class Asked(Spec):
    """A value of the scenario that differs, as text; null where a plan lacks it."""

    path: str
    old: str | None
    new: str | None


class Difference(Spec):
    """What a new plan does differently from an old one; everything that is equal is left out."""

    old_status: str
    new_status: str
    old_reasons: tuple[Infeasibility, ...] = ()
    new_reasons: tuple[Infeasibility, ...] = ()
    """Why a plan holds no fleet."""
    totals: tuple[Amount, ...]
    """Cost first; the ones that both plans lack are left out."""
    bill: tuple[Line, ...]
    pools: tuple[Moved, ...]
    promises: tuple[Promise, ...]
    question: tuple[Asked, ...]
    same: bool
    """Whether fleet, bill and question are all equal."""


def difference(old: FleetPlan, new: FleetPlan) -> Difference:
    """Compare two plans, cost first; either may hold no fleet.

    Returns:
        Lines of the bill sum to the difference of the bills, but for rounding.
    """
    bill, pools, question = _bill(old, new), _pools(old, new), tuple(_asked(old, new))
    return Difference(
        old_status=old.status,
        new_status=new.status,
        old_reasons=old.infeasibility,
        new_reasons=new.infeasibility,
        totals=tuple(_totals(old, new)),
        bill=bill,
        pools=pools,
        promises=tuple(_promises(old, new)),
        question=question,
        same=not (bill or pools or question) and old.status == new.status,
    )


def _totals(old: FleetPlan, new: FleetPlan) -> Iterator[Amount]:
    names = (
        "cost_usd_per_hour",
        "usd_per_thousand_compliant",
        "goodput_rps",
        "offered_rps",
        "attainment",
        "accelerators",
        "nodes",
        "power_w",
        "mfu",
    )
    for name in names:
        one, two = (getattr(p.totals, name) if p.totals else None for p in (old, new))
        if one is not None or two is not None:
            yield Amount(of=name, old=one, new=two)


def _bill(old: FleetPlan, new: FleetPlan) -> tuple[Line, ...]:
    """Tell what is rented by accelerator, place and term, and the rest of the bill."""
    before, after = _rented(old), _rented(new)
    nothing = (0, 0.0)
    found = [
        Line(
            item=key,
            old_count=before.get(key, nothing)[0],
            new_count=after.get(key, nothing)[0],
            old_usd_per_hour=before.get(key, nothing)[1],
            new_usd_per_hour=after.get(key, nothing)[1],
        )
        for key in (*before, *(k for k in after if k not in before))
    ]
    return tuple(
        line
        for line in found
        if line.old_count != line.new_count
        or not _near(line.old_usd_per_hour, line.new_usd_per_hour)
    )


def _rented(plan: FleetPlan) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for line in plan.supply:
        term = "" if line.term == "stated" else f", {line.term.replace('_', ' ')}"
        key = f"{line.accelerator}{term}" + (f" in {line.domain}" if line.domain else "")
        count, usd = found.get(key, (0, 0.0))
        found[key] = (count + line.count, usd + line.usd_per_hour)
    total = plan.totals.cost_usd_per_hour if plan.totals else 0.0
    rest = total - sum(usd for _, usd in found.values())
    if not _near(total, total - rest):
        found[REST] = (0, rest)
    return found


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def _pools(old: FleetPlan, new: FleetPlan) -> tuple[Moved, ...]:
    before, after = {p.id: p for p in old.pools}, {p.id: p for p in new.pools}
    sizes = {
        name: (
            before[name].replicas if name in before else 0,
            after[name].replicas if name in after else 0,
        )
        for name in (*before, *(k for k in after if k not in before))
    }
    for i, plan in enumerate((old, new)):
        for unit in plan.capacity_table.units if plan.capacity_table else ():
            there = list(sizes.get(unit.template, (0, 0)))
            there[i] += unit.units
            sizes[unit.template] = (there[0], there[1])
    moved = [
        Moved(
            pool=name,
            old_replicas=a,
            new_replicas=b,
            fields=_fields(before[name], after[name]) if name in before and name in after else {},
        )
        for name, (a, b) in sizes.items()
    ]
    return tuple(m for m in moved if m.old_replicas != m.new_replicas or m.fields)


def _fields(old: Pool, new: Pool) -> dict[str, tuple[str, str]]:
    a, b = old.model_dump(mode="json"), new.model_dump(mode="json")
    return {
        key: (_text(a[key]), _text(b[key]))
        for key in a
        if key not in ("id", "replicas", *OWN) and a[key] != b[key]
    }


def _promises(old: FleetPlan, new: FleetPlan) -> Iterator[Promise]:
    before, after = ({w.id: w for w in plan.workloads} for plan in (old, new))
    breaks = [{b.workload: b.kept_at for b in p.evidence.breaks_at} for p in (old, new)]
    reads: dict[str, Callable[[Any], float | None]] = {
        "promise": lambda w: w.promise,
        "offered_rps": lambda w: w.offered_rps,
        "attainment": lambda w: w.attainment.value,
        "ttft_p99_s": lambda w: w.ttft_s.p99 if w.ttft_s else None,
        "tpot_p99_s": lambda w: w.tpot_s.p99 if w.tpot_s else None,
    }
    for name in (*before, *(k for k in after if k not in before)):
        sides = (before.get(name), after.get(name))
        figures = [
            Amount(of=what, old=one, new=two)
            for what, read in reads.items()
            for one, two in [tuple(None if w is None else read(w) for w in sides)]
        ]
        figures.append(Amount(of="kept_at", old=breaks[0].get(name), new=breaks[1].get(name)))
        told = tuple(f for f in figures if f.old is not None or f.new is not None)
        if any(f.old != f.new for f in told):
            yield Promise(workload=name, figures=told)


def _asked(old: FleetPlan, new: FleetPlan) -> Iterator[Asked]:
    before, after = (dict(_leaves(plan.scenario.document, "")) for plan in (old, new))
    for path in (*before, *(k for k in after if k not in before)):
        one, two = before.get(path), after.get(path)
        if one != two:
            yield Asked(path=path, old=one, new=two)


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Name every value of a document by its path; parts of lists by their ids."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and value and all(isinstance(x, dict) for x in value):
        for name, part in zip(_names(value), value, strict=True):
            yield from _leaves({k: v for k, v in part.items() if k != "id"} or "", f"{path}.{name}")
    elif value is not None:
        yield path, _text(value)


def _names(parts: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the ids of parts, or their numbers where ids are missing or given twice."""
    ids = [str(part["id"]) for part in parts if "id" in part]
    return ids if len(set(ids)) == len(parts) else [str(i) for i in range(len(parts))]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
