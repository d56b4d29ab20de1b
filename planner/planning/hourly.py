"""A fleet for every period: the pools of the fleet for the peak, with as many units as it takes.

Which pools there are was found for the load that is planned for. Here one program over all periods
says how many of their units run in each, and on which terms accelerators are held. Every period's
fleet is then simulated at its busiest; where a promise does not hold, that period is planned for
a little more, and the program solved again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import BillLine, Decision, Infeasibility, SupplyLine
from planner.milp import Term, Terms, choose
from planner.planning.fleet import fleet_of
from planner.planning.periods import in_period, short
from planner.planning.program import instance_of, shared_out
from planner.planning.ramps import ramp_uses
from planner.units import LEAST_RPS

if TYPE_CHECKING:
    from planner.candidates.frontier import Frontier
    from planner.fleet import LimitUse, PeriodResult
    from planner.milp import Choice, Instance
    from planner.planning.answered import Answer
    from planner.planning.clock import Clock
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined, Verified
    from planner.planning.teller import Teller
    from planner.problem.periods import Calendar, Period
    from planner.problem.resolve import Problem, Supply

NOT_ADAPTED: Final = "a limit ended the work before every period had a fleet"
NOT_KEPT: Final = "not every promise is kept in every period by the fleets that were found"
MOST_ROUNDS: Final = 8
MORE: Final = 1.04
"""By which a period is planned for more where a promise is not kept in it."""
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Adapted:
    """Fleets by period, what they attain, and what is paid."""

    choice: Choice
    periods: tuple[PeriodResult, ...]
    """At the mean load of each."""
    kept: bool
    """Whether every promise is kept in the busiest window of every period."""
    supply: tuple[SupplyLine, ...]
    bill: tuple[BillLine, ...]
    decision: Decision
    limits: tuple[LimitUse, ...]
    """How fast it changes, where that is limited."""
    least_usd_per_hour: float
    """No fleets by the hour cost less, by the points of the program; 0 where nothing is proven."""

    @property
    def usd_per_hour(self) -> float:
        """Return the mean over all hours."""
        return self.choice.cost_usd_per_hour

    def rates(self) -> tuple[float, float]:
        """Return what comes and what is compliant of all workloads, req/s, mean over the hours."""
        offered = sum(p.share * w.offered_rps for p in self.periods for w in p.workloads)
        goodput = sum(p.share * w.goodput_rps for p in self.periods for w in p.workloads)
        return offered, goodput


def adapt(answer: Answer, refined: Refined, fleet: Fleet, clock: Clock, tell: Teller) -> Adapted:
    """Choose units and terms for every period, and simulate them.

    Args:
        answer: The question; its fleet is to adapt.
        refined: How the fleet for the peak was found.
        fleet: It.
        clock: The time that is left.
        tell: Told what is being done.

    Raises:
        InfeasibleError: The terms do not let the fleet change as it must.
        LimitReachedError: The time was over before the first fleets were simulated.
    """
    problem, calendar = answer.problem, answer.problem.calendar
    assert calendar is not None  # the scenario was refused without
    own = {p.template.id: refined.frontiers[p.template.id] for p in fleet.pools}
    margin = [1.0] * len(calendar.periods)
    found: Adapted | None = None
    try:
        for _ in range(MOST_ROUNDS):
            clock.check()
            tell("choosing a fleet for every period", 0.9)
            data = _instance(problem, calendar, own, fleet, margin)
            choice = choose(
                data,
                problem.objective,
                time_limit_s=clock.left_s,
                gap=problem.gap,
                seed=problem.seed,
            )
            fleets = [_fleet(problem, own, choice, t) for t in range(len(calendar.periods))]
            broken = _broken(answer, calendar, fleets, clock)
            run = _Run(calendar, data, choice, fleets)
            found = _adapted(answer, fleet, run, kept=not broken)
            if not broken or all(margin[t] >= _most(problem, calendar, t) for t in broken):
                break
            for t in broken:
                margin[t] *= MORE
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        if found is None:
            raise
    assert found is not None  # the first round sets it or raises
    return found


def settled(refined: Refined, shown: Verified, adapted: Adapted) -> Refined:
    """Return how the fleets were found: unproven where some period does not keep its promises."""
    choice = replace(refined.choice, **_proof(refined, adapted))
    if adapted.kept:
        return replace(refined, choice=choice)
    return replace(refined, choice=choice, best=None, last=shown, unsettled=NOT_KEPT)


def _proof(refined: Refined, adapted: Adapted) -> dict[str, Any]:
    bound, gap = adapted.choice.bound, max(refined.choice.gap, adapted.choice.gap)
    status = adapted.choice.status if adapted.choice.status != "optimal" else refined.choice.status
    return {"bound": bound, "gap": gap, "status": status}


def no_terms(error: InfeasibleError) -> tuple[Infeasibility, ...]:
    """Say what of the terms is in the way of a fleet for every period."""
    return (
        Infeasibility(
            limit="terms",
            has="the stock and budget as given",
            needs=str(error).replace("\n", "; "),
            fastest_reachable=None,
            remedy="raise what must give way, or leave traffic.adapt out",
        ),
    )


def _busiest(problem: Problem, period: Period) -> Period:
    """Return the period at what is planned for in it: its busiest window, and what it peaks at."""
    return replace(
        period,
        level=tuple(
            min(most * problem.peak_factor, d.rate_rps / d.mean_rps)
            for most, d in zip(period.most, problem.demands, strict=True)
        ),
    )


def _most(problem: Problem, calendar: Calendar, t: int) -> float:
    """Return the margin at which a period is planned for as the peak is."""
    level = _busiest(problem, calendar.periods[t]).level
    return max(
        d.rate_rps / (d.mean_rps * x) if x > 0 else math.inf
        for d, x in zip(problem.demands, level, strict=True)
    )


def _instance(
    problem: Problem,
    calendar: Calendar,
    own: dict[str, Frontier],
    fleet: Fleet,
    margin: list[float],
) -> Instance:
    """Write down the pools over all periods, at most as many units as for the peak."""
    data = _with_parts(instance_of(problem, own), problem, own)
    names = tuple(str(t) for t in range(len(calendar.periods)))
    demand = {}
    for t, period in enumerate(calendar.periods):
        busiest = _busiest(problem, period)
        for d, level in zip(problem.demands, busiest.level, strict=True):
            rate = min(d.mean_rps * level * margin[t], d.rate_rps)
            demand[d.id, names[t]] = rate if rate >= LEAST_RPS else 0.0
    cycle_hours = len(calendar.slots) * calendar.slot_s / HOUR_S
    return replace(
        data,
        max_units={p.template.id: p.units for p in fleet.pools},
        T=names,
        hours={t: p.share * cycle_hours for t, p in zip(names, calendar.periods, strict=True)},
        demand_in=demand,
        terms=_terms(problem, calendar, data.G),
    )


def _with_parts(data: Instance, problem: Problem, own: dict[str, Frontier]) -> Instance:
    """Let a unit serve but one workload of its mix: another period's mix is another one.

    A unit that takes less than it was measured with is compliant at least as often.
    """
    load, good = dict(data.load_rps), dict(data.goodput_rps)
    points = {j: list(o) for j, o in data.O.items()}
    names = [d.id for d in problem.demands]
    for j, frontier in own.items():
        for o in data.O[j] if len(frontier.template.serves) > 1 else ():
            for w in frontier.template.serves:
                part = f"{o}.{w}"
                points[j].append(part)
                load[j, part, names[w]] = data.load_rps[j, o, names[w]]
                good[j, part, names[w]] = data.goodput_rps[j, o, names[w]]
    whole = {j: tuple(o) for j, o in points.items()}
    return replace(data, O=whole, load_rps=load, goodput_rps=good)


def _terms(problem: Problem, calendar: Calendar, used: tuple[str, ...]) -> Terms:
    of: dict[tuple[str, str], Term] = {}
    share, start, ramp = {}, {}, {}
    for supply in problem.supplies:
        g, asked = supply.accelerator.id, supply.terms
        if g not in used:
            continue
        least_hours = asked.least_time / HOUR_S if asked else 0.0
        of[g, "on-demand"] = Term("on-demand", supply.usd_per_hour, None, least_hours)
        if asked is None:
            continue
        if asked.owned is not None:
            of[g, "owned"] = Term("owned", asked.owned.price, asked.owned.count)
        if asked.reserved is not None:
            of[g, "reserved"] = Term("reserved", asked.reserved.price, asked.reserved.stock)
        if asked.spot is not None:
            of[g, "spot"] = Term("spot", asked.spot.price, asked.spot.stock)
            share[g] = asked.spot.share
        if asked.start_time > 0:
            start[g] = asked.start_time / HOUR_S
        if asked.ramp is not None:
            ramp[g] = asked.ramp
    cycle = tuple(str(slot.period) for slot in calendar.slots)
    return Terms(of, spot_share=share, start_hours=start, ramp=ramp, cycle=cycle)


def _fleet(problem: Problem, own: dict[str, Frontier], choice: Choice, t: int) -> Fleet:
    """Return the fleet of a period, its load shared out as at the load planned for."""
    units = {j: choice.units_in.get((j, "", str(t)), 0) for j in own}
    loads = {j: [0.0] * len(problem.demands) for j in own}
    for (j, o, of), weight in choice.weights_in.items():
        if of != str(t) or o == "idle":
            continue
        point, _, part = o.partition(".")
        load = own[j].points[int(point)].load_rps
        for w in own[j].template.serves:
            if not part or int(part) == w:
                loads[j][w] += weight * load[w]
    templates = {j: frontier.template for j, frontier in own.items()}
    whole = {j: tuple(load) for j, load in loads.items()}
    if any(n and not sum(whole[j]) for j, n in units.items()):  # kept for the next hour's sake
        whole = shared_out(problem, own, units)
    return fleet_of(units, whole, templates, problem.rates_rps)


def _broken(answer: Answer, calendar: Calendar, fleets: list[Fleet], clock: Clock) -> list[int]:
    """Simulate every period at its busiest; list those in which a promise is not kept."""
    broken = []
    for t, (period, fleet) in enumerate(zip(calendar.periods, fleets, strict=True)):
        clock.check()
        size = short(answer.effort)
        while True:
            busiest = _busiest(answer.problem, period)
            result = in_period(answer.problem, answer.study, fleet, busiest, size)
            verdicts = {w.verdict for w in result.workloads}
            if "undecided" not in verdicts or "broken" in verdicts:
                break
            if 2 * size.requests > answer.effort.verify_limit:
                break
            size = size.doubled()
        if verdicts - {"kept"}:
            broken.append(t)
    return broken


@dataclass(frozen=True, slots=True)
class _Run:
    """One solution of the program, and the fleets that it describes."""

    calendar: Calendar
    data: Instance
    choice: Choice
    fleets: list[Fleet]

    def mean_held(self, g: str, term: str) -> float:
        """Return accelerators held on a term, mean over the hours."""
        shares = self.data.shares()
        hired = sum(shares[t] * self.choice.hired.get((g, term, "", t), 0) for t in self.data.T)
        return self.choice.held.get((g, term, ""), 0) + hired

    def mean_starting(self, g: str, term: str) -> float:
        """Return accelerators that are starting on a term, mean over the hours."""
        terms, steps = self.data.terms, self.data.order().steps()
        start_hours = terms.start_hours.get(g, 0.0) if terms else 0.0
        total = sum(self.data.hours.values())
        return sum(
            steps[a, b] * n * start_hours / total
            for (of, c, _, a, b), n in self.choice.started.items()
            if (of, c) == (g, term)
        )

    def least_usd_per_hour(self) -> float:
        """Return the bound on the cost of any fleets, where the best ratio was asked for."""
        first, data = self.choice.steps[0].bound, self.data
        if self.choice.name != "max_goodput_per_usd" or not first > 0:
            return 0.0
        # The first step bounds the ratio by all demand over the least cost.
        return (
            sum(
                share * data.worth(w) * data.demand(w, t)
                for t, share in data.shares().items()
                for w in data.W
            )
            / first
        )

    def most_held(self, g: str, term: str) -> int:
        """Return the most accelerators held on a term at once."""
        hired = [self.choice.hired.get((g, term, "", t), 0) for t in self.data.T]
        return self.choice.held.get((g, term, ""), 0) + max(hired)


def _adapted(answer: Answer, fleet: Fleet, run: _Run, *, kept: bool) -> Adapted:
    size = short(answer.effort)
    periods = tuple(
        in_period(answer.problem, answer.study, own, period, size).model_copy(
            update={"units": {p.template.id: p.units for p in own.pools}}
        )
        for period, own in zip(run.calendar.periods, run.fleets, strict=True)
    )
    lines, bill = _supply(answer.problem, run)
    said = _decision(answer.problem, fleet, run.choice, lines)
    limits = ramp_uses(run.data, run.choice)
    least = run.least_usd_per_hour()
    return Adapted(run.choice, periods, kept, lines, bill, said, limits, least)


def _supply(problem: Problem, run: _Run) -> tuple[tuple[SupplyLine, ...], tuple[BillLine, ...]]:
    """List what is held on each term, at most at once, and what is paid for it in the mean."""
    lines, bill, starting = [], [], 0.0
    for supply in problem.supplies:
        g = supply.accelerator.id
        for term, price in _prices(supply).items():
            paid, starts = run.mean_held(g, term) * price, run.mean_starting(g, term) * price
            count = run.most_held(g, term)
            if not count:
                continue
            starting += starts
            bill.append(BillLine(item=f"{count} {g}, {term}", usd_per_hour=paid))
            lines.append(
                SupplyLine(
                    accelerator=g,
                    domain=None,
                    term=term,
                    count=count,
                    usd_per_hour=paid + starts,
                    price_source=supply.price_source if term == "on-demand" else "scenario",
                )
            )
    if starting > 0:
        bill.append(BillLine(item="accelerators while they start", usd_per_hour=starting))
    return tuple(lines), tuple(bill)


def _prices(supply: Supply) -> dict[str, float]:
    """Return the price of an accelerator by term, USD/h."""
    terms = supply.terms
    prices = {"on-demand": supply.usd_per_hour}
    if terms is not None and terms.owned is not None:
        prices["owned"] = terms.owned.price
    if terms is not None and terms.reserved is not None:
        prices["reserved"] = terms.reserved.price
    if terms is not None and terms.spot is not None:
        prices["spot"] = terms.spot.price
    return prices


def _decision(
    problem: Problem, fleet: Fleet, choice: Choice, lines: tuple[SupplyLine, ...]
) -> Decision:
    """Say what adapting saves against the fleet for the peak, held around the clock."""
    before, after = fleet.usd_per_hour, choice.cost_usd_per_hour
    steady = _reserved(problem, fleet)
    held = ", ".join(f"{x.count} {x.accelerator} {x.term}" for x in lines)
    numbers = {"usd_per_hour": after, "usd_per_hour_for_the_peak_on_demand": before}
    beside = ""
    if steady is not None:
        numbers["usd_per_hour_for_the_peak_reserved"] = steady
        beside = f", or {steady:.2f} USD/h if all of it is reserved"
    return Decision(
        question="one fleet for the peak or one by the hour",
        answer="by the hour",
        because=(
            f"it costs {after:.2f} USD/h in the mean ({held}, at most at once); the fleet for the"
            f" peak costs {before:.2f} USD/h on demand around the clock, {before - after:.2f} USD/h"
            f" more{beside}"
        ),
        numbers=numbers,
    )


def _reserved(problem: Problem, fleet: Fleet) -> float | None:
    """Return what a fleet costs if every accelerator is reserved; None where some cannot be."""
    terms = {s.accelerator.id: s.terms.reserved if s.terms else None for s in problem.supplies}
    total, used = 0.0, dict.fromkeys(terms, 0)
    for pool in fleet.pools:
        for g, count in pool.template.build.devices.items():
            used[g] += pool.units * count
    for g, count in used.items():
        offer = terms[g]
        if count and (offer is None or (offer.stock is not None and offer.stock < count)):
            return None
        total += count * offer.price if offer else 0.0
    return total
