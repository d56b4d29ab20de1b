"""The data of one solve, under the names that docs/formulation.md gives them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.milp import fit, indices, moves, terms
from planner.milp import nodes as whole_nodes
from planner.milp.deferral import Deferral, mistakes_of
from planner.milp.indices import ALONE
from planner.milp.links import Links, link_mistakes
from planner.milp.terms import NONE, Order, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

IDLE: Final = "idle"
"""The operating point without load that every template has beside its own points."""

_ID: Final = re.compile(r"[A-Za-z0-9@.:-]+")
"""No underscore (PuLP writes ``-`` as ``_``, and two names must not meet), no comma, no bracket."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Sets in capitals, parameters in words; an index tuple reads template, point, workload.

    Rates that are absent are zero: a template lists the workloads that it serves. Every
    template also has the operating point :data:`IDLE`, which is not listed in ``O``.

    Raises:
        InputError: A number or an id cannot be used; the message names every one, a line each.
    """

    W: tuple[str, ...]
    """Workloads w."""
    J: tuple[str, ...]
    """Templates j: how a unit is built, which workloads it serves, in which mix."""
    G: tuple[str, ...]
    """Accelerators g."""
    O: Mapping[str, tuple[str, ...]]  # noqa: E741 - the set's name on the page
    """O_j: operating points o of template j, the idle one not listed."""

    demand_rps: Mapping[str, float]
    """D_w: offered load of w, req/s, above zero."""
    promise: Mapping[str, float]
    """alpha_w: share of w's requests that must be compliant."""
    load_rps: Mapping[tuple[str, str, str], float]
    """lambda_jow: load of w on one unit of j at point o, req/s."""
    goodput_rps: Mapping[tuple[str, str, str], float]
    """g_jow: compliant rate of w from one unit of j at point o, req/s; at most lambda_jow."""
    devices: Mapping[str, int]
    """k_j: accelerators in one unit of j."""
    accelerator_of: Mapping[str, str]
    """g_j: the accelerator that j is built from."""
    usd_per_hour: Mapping[str, float]
    """c_j: price of one unit of j, USD/h."""

    beside: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """k_jg: accelerators of another type g in one unit of j; absent means none."""
    stock: Mapping[str, int] = field(default_factory=dict)
    """R_g: accelerators that can be had; an accelerator that is absent is not limited."""
    max_units: Mapping[str, int] = field(default_factory=dict)
    """m_j: most units of j; a template that is absent is not limited."""
    shed_limit: Mapping[str, float] = field(default_factory=dict)
    """s_w: share of w's demand that may be turned away; absent means none."""
    value: Mapping[str, float] = field(default_factory=dict)
    """v_w: what a compliant request of w is worth in the goodput objectives; absent means 1."""
    budget_usd_per_hour: float | None = None
    """B: most that the fleet may cost, USD/h; None means no limit."""
    goodput_floor_rps: float | None = None
    """F: least compliant goodput of all workloads, weighted by v_w; None means no floor."""
    min_units: Mapping[str, int] = field(default_factory=dict)
    """l_j: fewest units of j; absent means none."""
    deferral: Deferral | None = None
    """Work that may wait; None means that there is none."""

    T: tuple[str, ...] = (ALONE,)
    """Periods t, in order; one without a name unless the load changes."""
    D: tuple[str, ...] = (ALONE,)
    """Domains d; one without a name unless it matters where units stand."""
    hours: Mapping[str, float] = field(default_factory=dict)
    """h_t: weight of period t, hours; absent means 1."""
    demand_in: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """D_wt: offered load of w in period t, req/s, may be 0; absent means ``demand_rps[w]``."""
    homes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """D_g: domains in which accelerators g stand; absent means every one."""
    stock_in: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """R_gd: accelerators g that can be had in domain d; absent means no limit."""
    nodes: whole_nodes.Nodes | None = None
    """Domains that consist of whole nodes, and what failures take; None means that none does."""
    moves: moves.Moves | None = None
    """Units of today, and what moves may come to; None means that moves do not count."""
    terms: Terms | None = None
    """How accelerators are held and paid; units of those without terms cost ``usd_per_hour``."""
    fits: tuple[fit.Fit, ...] = ()
    """f: what the nodes have room for, as far as a placement showed it."""
    links: Links | None = None
    """Links that units share; None means that none is."""

    def __post_init__(self) -> None:
        mistakes = [*_sets(self)]
        mistakes = mistakes or [*_numbers(self), *_rates(self), *indices.mistakes_of(self)]
        if self.deferral is not None:
            mistakes += [*_ids("B", self.deferral.B), *_ids("T", self.deferral.T)]
            mistakes += [*_ids("S", self.deferral.S), *mistakes_of(self.deferral, self.J)]
        if self.nodes is not None and not mistakes:
            mistakes += whole_nodes.mistakes_of(self)
        if self.fits and not mistakes:
            mistakes += [*_ids("fits", tuple(f.id for f in self.fits)), *fit.mistakes_of(self)]
        if self.moves is not None:
            mistakes += moves.mistakes_of(self.moves)
        if self.links is not None and not mistakes:
            mistakes += link_mistakes(self)
        if self.terms is not None:
            mistakes += [*terms.mistakes_of(self.terms, self.G, self.T, self.hours)]
            mistakes += [*_partly_on_terms(self)]
        if mistakes:
            raise InputError("\n".join(mistakes))

    def points_of(self, j: str) -> tuple[str, ...]:
        """List the operating points of template ``j``, the idle one first."""
        return (IDLE, *self.O[j])

    def held(self, j: str, g: str) -> int:
        """Return k_jg, the accelerators of type ``g`` in one unit of ``j``."""
        own = self.devices[j] if self.accelerator_of[j] == g else 0
        return int(own + self.beside.get((j, g), 0))

    def users_of(self, g: str) -> dict[str, float]:
        """Return k_jg of the templates that hold accelerators ``g``, by template."""
        return {j: float(k) for j in self.J if (k := self.held(j, g))}

    def kinds_of(self, j: str) -> tuple[str, ...]:
        """List the accelerators that a unit of ``j`` holds, its own first."""
        return (self.accelerator_of[j], *(g for of, g in self.beside if of == j))

    def worth(self, w: str) -> float:
        """Return v_w, the worth of one compliant request of ``w`` (1 unless given)."""
        return self.value.get(w, 1.0)

    def demand(self, w: str, t: str) -> float:
        """Return D_wt, the offered load of ``w`` in period ``t``, req/s."""
        return self.demand_in.get((w, t), self.demand_rps[w])

    def scale(self, w: str, t: str) -> float:
        """Return what rows about ``w`` in ``t`` are divided by: D_wt, or D_w where that is 0."""
        return self.demand(w, t) or self.demand_rps[w]

    def shares(self) -> dict[str, float]:
        """Return h_t over the sum of all, by period."""
        hours = {t: float(self.hours.get(t, 1.0)) for t in self.T}
        total = sum(hours.values())
        return {t: h / total for t, h in hours.items()}

    def domains_of(self, j: str) -> tuple[str, ...]:
        """List the domains in which units of ``j`` can stand."""
        return self.homes_of(self.accelerator_of[j])

    def homes_of(self, g: str) -> tuple[str, ...]:
        """List the domains in which accelerators ``g`` stand."""
        return self.homes.get(g, self.D)

    def order(self) -> Order:
        """Return the periods as they follow each other."""
        return Order.of(self.terms or NONE, self.T, self.hours)

    def least_usd_per_hour(self, j: str) -> float:
        """Return the least that a unit of ``j`` costs while it runs, on its cheapest term."""
        if self.terms is not None and self.terms.priced(self.accelerator_of[j]):
            each = self.terms.least_usd_per_hour
            return sum(self.held(j, g) * each(g) for g in self.kinds_of(j))
        return float(self.usd_per_hour[j])


def _partly_on_terms(data: Instance) -> Iterator[str]:
    """Say which units would be paid twice or half: by their price and by terms."""
    for j, g in data.beside:
        if data.terms is not None and data.terms.priced(g) != data.terms.priced(
            data.accelerator_of.get(j, g)
        ):
            yield f"beside[{j},{g}]: give terms to every accelerator of the unit, or to none"


def _sets(data: Instance) -> Iterator[str]:
    sets = (("W", data.W), ("J", data.J), ("G", data.G), ("T", data.T), ("D", data.D))
    for name, ids in sets:
        yield from _ids(name, ids)
    if not data.W:
        yield "W: is empty; a plan needs a workload"
    for j in data.J:
        if j not in data.O:
            yield f"O[{j}]: is missing; list the operating points of every template"
        else:
            yield from _ids(f"O[{j}]", data.O[j])
            if IDLE in data.O[j]:
                yield f"O[{j}]: {IDLE!r} is there without being listed; take it out"


def _ids(name: str, ids: tuple[str, ...]) -> Iterator[str]:
    if len(set(ids)) < len(ids):
        twice = sorted({i for i in ids if ids.count(i) > 1})
        yield f"{name}: {', '.join(twice)} stands there twice; keep one"
    for i in ids:
        if i != ALONE and not _ID.fullmatch(i):
            yield f"{name}: {i!r} is no id; use letters, digits and . : @ - only"


def _numbers(data: Instance) -> Iterator[str]:
    """Check every parameter that has one index."""
    one, count = (0.0, 1.0), (0.0, math.inf)
    yield from _each("demand_rps", data.demand_rps, data.W, count, above=True)
    yield from _each("promise", data.promise, data.W, one)
    yield from _each("usd_per_hour", data.usd_per_hour, data.J, count)
    yield from _each("devices", data.devices, data.J, count, above=True, whole=True)
    for j in data.J:
        if data.accelerator_of.get(j) not in data.G:
            yield f"accelerator_of[{j}]: {data.accelerator_of.get(j)!r} is not in G"
    for (j, g), count_of in data.beside.items():
        if j not in data.J or g not in data.G or g == data.accelerator_of.get(j):
            yield f"beside[{j},{g}]: no such template, or no other accelerator"
        elif not 0 < count_of < math.inf or count_of != int(count_of):
            yield f"beside[{j},{g}]: must be a whole number above 0; got {count_of:g}"
    yield from _each("stock", data.stock, _known(data.stock, data.G), count, whole=True)
    yield from _each("max_units", data.max_units, _known(data.max_units, data.J), count, whole=True)
    yield from _each("min_units", data.min_units, _known(data.min_units, data.J), count, whole=True)
    yield from _each("shed_limit", data.shed_limit, _known(data.shed_limit, data.W), one)
    yield from _each("value", data.value, _known(data.value, data.W), count)
    for name, given, known in (
        ("stock", data.stock, data.G),
        ("max_units", data.max_units, data.J),
        ("min_units", data.min_units, data.J),
        ("shed_limit", data.shed_limit, data.W),
        ("value", data.value, data.W),
    ):
        for i in sorted(set(given) - set(known)):
            yield f"{name}[{i}]: no such id"
    for name, number in (
        ("budget_usd_per_hour", data.budget_usd_per_hour),
        ("goodput_floor_rps", data.goodput_floor_rps),
    ):
        if number is not None:
            yield from _each(name, {"": number}, ("",), count)


def _known(given: Mapping[str, object], known: tuple[str, ...]) -> list[str]:
    return [i for i in known if i in given]


def _each(
    name: str,
    given: Mapping[str, float],
    over: Iterable[str],
    between: tuple[float, float],
    *,
    above: bool = False,
    whole: bool = False,
) -> Iterator[str]:
    """Say which numbers are missing, not finite, out of range or not whole."""
    low, high = between
    for i in over:
        where = f"{name}[{i}]" if i else name
        number = given.get(i)
        if number is None:
            yield f"{where}: is missing"
        elif not math.isfinite(number):
            yield f"{where}: must be finite; got {number}"
        elif not low <= number <= high or (above and number == low):
            word = "above" if above else "at least"
            most = "" if math.isinf(high) else f" and at most {high:g}"
            yield f"{where}: must be {word} {low:g}{most}; got {number:g}"
        elif whole and number != int(number):
            yield f"{where}: must be a whole number; got {number:g}"


def _rates(data: Instance) -> Iterator[str]:
    """Check that loads and compliant rates belong to known points and fit together."""
    points = {(j, o) for j in data.J for o in data.O[j]}
    workloads = set(data.W)
    for name, rates in (("load_rps", data.load_rps), ("goodput_rps", data.goodput_rps)):
        for (j, o, w), rate in rates.items():
            if (j, o) not in points or w not in workloads:
                yield f"{name}[{j},{o},{w}]: no such template, point or workload"
            elif not math.isfinite(rate) or rate < 0:
                yield f"{name}[{j},{o},{w}]: must be finite and at least 0; got {rate}"
    for (j, o, w), goodput in data.goodput_rps.items():
        load = data.load_rps.get((j, o, w), 0.0)
        if goodput > load:
            yield (
                f"goodput_rps[{j},{o},{w}]: {goodput:g} is more than the load of {load:g}; "
                "a compliant request is an offered one"
            )
