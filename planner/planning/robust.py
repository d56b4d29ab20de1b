"""Plans that keep their promises in most of the cases in which demand and step times may be.

A case is a pair of draws: by how much the demand, and by how much all step times, are off. From
the plain fleet follows how many of the cases a fleet must bear, and which pair of a demand and a
slowness stands for them: that which is likeliest among the cases on the edge. A fleet is planned
for the pair by the whole search, its share of cases is found by simulation at other step times,
and the pair is moved, nearer to what is stated or farther from it, until the least that keeps
enough is known closely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import LimitReachedError
from planner.fleet import Decision, OtherFleet, RobustResult
from planner.planning.chances import demand_multiples, kept_shares, lattice
from planner.planning.margins import margins_of
from planner.planning.scenarios import at_multiples
from planner.planning.study import study_of
from planner.simulation.capacity import SWEEPING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from planner.planning.answered import Answer
    from planner.planning.clock import Clock
    from planner.planning.fleet import Fleet
    from planner.planning.margins import Margin
    from planner.planning.refine import Refined, Verified
    from planner.planning.teller import Teller
    from planner.scenario.uncertainty import Robust

    Floats = NDArray[np.float64]

FRESH: Final = 8
"""Stream of random draws that no choice sees, beside those of ``planner.simulation.capacity``."""
MOST_SEARCHES: Final = 6
NARROW: Final = 0.2
"""Share of the way from what is stated to the first pair, within which the least is left."""
FARTHER: Final = 0.3
"""By how much of that way the pair is moved where too few cases are borne."""
LESS: Final = 0.985
"""Of the demand that a fleet bears, at which it is verified for certain."""
EDGE: Final = 0.02
"""Share of the cases, those nearest to the edge, of which the pair is the mean."""


NOT_KNOWN: Final = (
    "a limit ended the work before it was known in how many cases the fleet keeps its promises"
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A fleet that was planned for a pair, and in how many cases it keeps its promises."""

    answer: Answer
    refined: Refined
    shown: Verified
    multiple: float
    deviations: float
    kept_in: float
    kept_in_fresh: float
    margins: tuple[Margin, ...]


class RobustSearch:
    """Plans for one pair after another; remembers what each showed."""

    def __init__(
        self,
        answer: Answer,
        search: Callable[[Answer], tuple[Answer, Refined] | None],
        clock: Clock,
        tell: Teller,
    ) -> None:
        assert answer.problem.robust is not None  # who asks says how far things may be off
        self.aim: Robust = answer.problem.robust
        self.answer, self.search, self.clock, self.tell = answer, search, clock, tell
        self.searches = 0
        self.too_few: list[Tried] = []
        """Fleets that keep their promises in too few cases."""

    def run(self) -> tuple[Tried | None, Tried | None]:
        """Return the plain fleet and the cheapest that keeps its promises in enough cases.

        Either is None where there is no such fleet, or where the time is over.
        """
        plain = self._tried(1.0, 0.0)
        if plain is None or self._enough(plain):
            return plain, plain
        self.too_few.append(plain)
        log_m, z = first_pair(plain.margins, self.aim)
        best: Tried | None = None
        low, high, at = 0.0, math.inf, 1.0
        try:
            while self.searches < MOST_SEARCHES and high - low > NARROW:
                self.clock.check()
                found = self._tried(math.exp(at * log_m), at * z)
                if found is None:  # no fleet keeps its promises there: nor farther
                    high = at
                    at = (low + high) / 2
                elif self._enough(found):
                    high = at
                    if best is None or cost(found) < cost(best):
                        best = found
                    if cost(found) <= cost(plain) * (1 + 1e-9):
                        break
                    at = (low + high) / 2
                else:
                    self.too_few.append(found)
                    low = at
                    at = at + FARTHER if math.isinf(high) else (low + high) / 2
            if best is not None:
                best = self._with_less(best)
        except (LimitReachedError, KeyboardInterrupt) as error:
            self.clock.stop_on(error)
        return plain, best

    def _with_less(self, best: Tried) -> Tried:
        """Return a cheaper fleet where one with a unit less of a pool keeps enough, too.

        Its cases are found by simulation; a fleet is then planned for what it bears.
        """
        smaller = [fleet for _, fleet, _ in best.shown.one_less if fleet is not None]
        for fleet in sorted(smaller, key=lambda one: one.usd_per_hour):
            self.clock.check()
            both = [self._margins(best.answer, fleet, stream) for stream in (SWEEPING, FRESH)]
            shares = [kept_shares(m, self.aim.demand_cv, best.multiple)[1] for m in both]
            if min(shares) < self.aim.keep_in:
                continue
            at = np.array([best.deviations])
            bears = min(float(m.at(at)[0]) for margins in both for m in margins)
            found = self._tried(LESS * bears * best.multiple, best.deviations)
            if found is not None and self._enough(found) and cost(found) < cost(best):
                return found
        return best

    def _enough(self, tried: Tried) -> bool:
        return min(tried.kept_in, tried.kept_in_fresh) >= self.aim.keep_in

    def _tried(self, multiple: float, deviations: float) -> Tried | None:
        """Plan for a pair; None where no fleet keeps every promise there."""
        self.searches += 1
        problem = self.answer.problem
        if (multiple, deviations) != (1.0, 0.0):
            problem = at_multiples(problem, (multiple,) * len(problem.demands))
            problem = replace(problem, slower_by=deviations)
        self.tell(f"planning for {multiple:.3g} x the demand, steps {deviations:+.2g} deviations")
        study = study_of(problem, self.answer.study.meter)
        found = self.search(replace(self.answer, problem=problem, study=study))
        if found is None or found[1].best is None:
            return None
        answer, refined = found
        shown = refined.best
        assert shown is not None
        both = [self._margins(answer, shown.fleet, stream) for stream in (SWEEPING, FRESH)]
        seen, fresh = (kept_shares(m, self.aim.demand_cv, multiple)[1] for m in both)
        return Tried(answer, refined, shown, multiple, deviations, seen, fresh, both[0])

    def _margins(self, answer: Answer, fleet: Fleet, stream: int) -> tuple[Margin, ...]:
        margins = margins_of(
            answer.problem,
            answer.study,
            fleet,
            answer.effort,
            over=lambda: self.clock.over,
            stream=stream,
        )
        if not margins:
            raise LimitReachedError("the time was over before it was known what a fleet bears")
        return margins


def cost(tried: Tried) -> float:
    """Return what a fleet costs, USD per hour."""
    return tried.shown.fleet.usd_per_hour


def first_pair(margins: Sequence[Margin], aim: Robust) -> tuple[float, float]:
    """Return the log of the multiple, and the deviations of step times, to plan for at first.

    Each case is worth the demand that the fleet would have to bear with step times as stated. At
    the quantile that is to be kept lies the edge; the pair is the mean of the cases next to it.

    Args:
        margins: Of a fleet that was planned for what is stated.
        aim: Spreads, and the share to keep.
    """
    z, normal = lattice()
    log_m = np.log(demand_multiples(normal, aim.demand_cv))
    at_zero = np.array([m.at(np.zeros(1))[0] for m in margins])
    with np.errstate(divide="ignore"):
        lost = np.max(
            [np.log(b) - np.log(m.at(z)) for m, b in zip(margins, at_zero, strict=True)], axis=0
        )
    worth: Floats = log_m + lost
    worth[np.isnan(worth)] = np.inf
    edge = float(np.quantile(worth, aim.keep_in, method="inverted_cdf"))
    if math.isinf(edge):  # too slow steps at any demand: by the steps alone
        return float(np.quantile(log_m, aim.keep_in)), float(np.quantile(z, aim.keep_in))
    near = np.argsort(np.abs(worth - edge), kind="stable")[: round(EDGE * worth.size)]
    return max(float(log_m[near].mean()), 0.0), max(float(z[near].mean()), 0.0)


def robust_result(search: RobustSearch, plain: Tried, found: Tried) -> RobustResult:
    """Return the document of a plan for most cases."""
    aim = search.aim
    cheaper = [tried for tried in search.too_few if cost(tried) < cost(found)]
    return RobustResult(
        keep_in=aim.keep_in,
        demand_cv=aim.demand_cv,
        curve_error=aim.curve_error,
        planned_multiple=found.multiple,
        planned_deviations=found.deviations,
        kept_in=found.kept_in,
        kept_in_fresh=found.kept_in_fresh,
        plain=_document(plain),
        too_few=_document(max(cheaper, key=cost)) if cheaper else None,
        price_usd_per_hour=cost(found) - cost(plain),
        searches=search.searches,
    )


def _document(tried: Tried) -> OtherFleet:
    return OtherFleet(
        usd_per_hour=cost(tried),
        pools=tuple(f"{p.units} x {p.template.id}" for p in tried.shown.fleet.pools),
        kept_in=tried.kept_in,
        kept_in_fresh=tried.kept_in_fresh,
    )


def price_of_robustness(result: RobustResult) -> Decision:
    """Say what it costs to keep the promises in most cases."""
    price, plain = result.price_usd_per_hour, result.plain
    return Decision(
        question=f"what does it cost to keep every promise in {result.keep_in:.0%} of the cases?",
        answer=f"{price:.2f} USD/h ({price / plain.usd_per_hour:+.1%})",
        because=(
            f"the fleet for what is stated costs {plain.usd_per_hour:.2f} USD/h and"
            f" keeps every promise in {plain.kept_in_fresh:.1%} of the cases; this one, planned for"
            f" {result.planned_multiple:.3g} times the demand and steps"
            f" {result.planned_deviations:.2g} standard deviations longer, in"
            f" {result.kept_in_fresh:.1%}, on fresh draws"
        ),
        numbers={
            "price_usd_per_hour": price,
            "plain_usd_per_hour": plain.usd_per_hour,
            "plain_kept_in": plain.kept_in_fresh,
            "kept_in": result.kept_in_fresh,
        },
    )


def not_robust(result: RobustResult, over: bool) -> str:
    """Say why a plan is the plain one all the same."""
    why = "before the time was over" if over else f"by {result.searches} searches"
    return (
        f"no fleet was found {why} that keeps every promise in {result.keep_in:.0%} of the cases of"
        " demand and step times; this is the one for what is stated"
    )
