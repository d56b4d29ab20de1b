"""Column generation: prices of the program say which templates are worth simulating.

Every template starts with the most that a unit of it could carry by the mean field. The
relaxation over those that are measured prices what a unit is worth; one that could pay at its most
is simulated once at the load at which it would just pay. If it breaks its promise there it is
settled, with one run; the best of the others are measured. When no price asks for more, the program
with whole units is solved over all templates, the open ones at their most: what it wants is
searched shortly, then measured, until it wants nothing new. Its bound then holds for every
template.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.columns import HOPE
from planner.errors import InfeasibleError, LimitReachedError
from planner.milp import choose
from planner.milp.pricing import improvement_on, relaxation_of
from planner.planning.across import crosses
from planner.planning.column_lists import (
    capacity_of,
    cheapest,
    kind_of,
    measured_columns,
    unmeasured_columns,
)
from planner.planning.column_prices import (
    break_even_rps,
    cost_of,
    loss_of,
    shortfall,
    undominated,
)
from planner.planning.column_runs import ColumnRuns
from planner.planning.program import instance_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planner.candidates.columns import Column
    from planner.candidates.frontier import Frontier
    from planner.candidates.screen import Screened
    from planner.candidates.template import Removed, Template
    from planner.milp import Choice
    from planner.milp.pricing import Relaxation, UnitPrices
    from planner.planning.clock import Clock
    from planner.planning.teller import Teller
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

MOST_ROUNDS: Final = 60
"""Rounds of pricing; each settles one template at least."""
MOST_LOOKS: Final = 15
"""Templates simulated in a round."""
MOST_MEASURED: Final = 3
"""Templates measured in a round: after that, prices are better."""
SURE: Final = 0.005
"""How far below the promise one run must be for a load to count as refuted."""
NEARLY: Final = 0.5
"""Share of the gap at which a template is looked at: what breaks there promises less than the gap,
and is not looked at again for a rounding."""
SOLVING_S: Final = 5.0
"""Time of one solve over all templates."""

COMPARED: Final = 2
"""Degrees of a kind of template of which the better one is measured for comparison."""
TIME_SHARE: Final = 0.4
"""Of the time limit, after which pricing ends with what it has."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What no fleet of any template is better than, if the open ones carry their most."""

    bound: float
    """In the unit of the program's objective."""
    measured: int
    open: int
    """Templates that were settled without being measured."""


class Pricing:
    """The loop, with what it knows of every template.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        effort: How much to simulate of a template that is measured.
        clock: Ends the work.
        tell: Told what is being done.
        columns: Every template.
    """

    gap: float
    """By which share a fleet must be better to count; the problem's own unless set."""

    def __init__(
        self,
        problem: Problem,
        study: Study,
        effort: Effort,
        clock: Clock,
        tell: Teller,
        columns: Mapping[str, Column],
    ) -> None:
        self.problem = problem
        self.study = study
        self.effort = effort
        self.clock = clock
        self.tell = tell
        self.columns = dict(columns)
        self.gap = problem.gap
        self.proof: Proof | None = None
        self.runs = ColumnRuns(study, problem.policies.router, effort, clock, tell)
        self._chosen: dict[object, Choice] = {}

    def measured(self) -> dict[str, Frontier]:
        """Return the frontiers of the templates that were measured."""
        return {j: c.frontier for j, c in self.columns.items() if c.frontier is not None}

    def run(self) -> None:
        """Measure what the program might want, until it wants nothing that is not measured.

        Raises:
            LimitReachedError: The time is over; what was measured until then stays.
        """
        self._seed()
        self.resume()

    def resume(self) -> None:
        """Go on measuring, as :meth:`run` does; for when templates were added."""
        for _ in range(MOST_ROUNDS):
            self.clock.check()
            if self.clock.spent > TIME_SHARE and self.measured():
                break
            if not (self._wanted_by_prices() or self.wanted_by_whole_units(self.measured())):
                break

    def compare(self) -> None:
        """Measure the most promising template of each kind of which none is, for comparison.

        A kind is an accelerator, whom it serves, who is served first, and whether its replicas lie
        over several scale-up domains. Number formats (and what
        else a template's name says) are kinds too, on the accelerator where they cost least.
        """
        kinds: dict[tuple[object, ...], list[str]] = {}
        variants: dict[tuple[str, ...], list[str]] = {}
        for j, column in self.columns.items():
            build, label = column.template.build, column.template.label
            over = crosses(self.problem, build)
            kind = build.accelerator, label, build.scheduling_policy, over
            kinds.setdefault(kind, []).append(j)
            variants.setdefault((label, build.variant), []).append(j)
        for members in kinds.values():
            if not any(self.columns[j].frontier for j in members):
                self._compare_one(members)
        for members in variants.values():
            live = [self.columns[j] for j in members if not self.columns[j].dead]
            if len(variants) > 1 and live and cheapest(live)[0].frontier is None:
                self._compare_one(members)

    def _compare_one(self, members: Sequence[str]) -> None:
        """Measure the most promising of some templates."""
        few: dict[str, str] = {}
        for column in cheapest(self.columns[j] for j in members if self.columns[j].open):
            few.setdefault(column.template.build.hardware, column.template.id)
        names = list(few.values())[:COMPARED]
        self._search([j for j in names if not self.columns[j].searched])
        live = cheapest(self.columns[j] for j in names if self.columns[j].open)
        self._measure_one([c.template.id for c in live])

    def serving(self) -> dict[tuple[int, ...], list[Template]]:
        """Return the templates that keep their promise at some load, by the workloads served."""
        found: dict[tuple[int, ...], list[Template]] = {}
        for column in self.columns.values():
            if not column.dead:
                found.setdefault(column.template.serves, []).append(column.template)
        return found

    def screened(self) -> list[Screened]:
        """Return the templates that were measured, cheapest per request first."""
        return measured_columns(self.columns.values())

    def removed(self) -> list[Removed]:
        """Return the templates that were not measured, each with the most it could carry."""
        return unmeasured_columns(self.columns.values())

    # -- what to simulate -------------------------------------------------------------------

    def _seed(self) -> None:
        """Measure one template for each set of workloads: the best of each accelerator's best."""
        self._measure(sorted(self.problem.stays & self.columns.keys()))
        groups: dict[tuple[int, ...], dict[str, list[Column]]] = {}
        for column in self.columns.values():
            template = column.template
            own = groups.setdefault(template.serves, {})
            own.setdefault(template.build.accelerator, []).append(column)
        self._search(
            [cheapest(kind)[0].template.id for own in groups.values() for kind in own.values()]
        )
        for serves in groups:
            self._measure_one(self._promising(serves))

    def _promising(self, serves: tuple[int, ...]) -> list[str]:
        """Return templates for the same workloads that a search found to carry some load."""
        mine = [c for c in self.columns.values() if c.template.serves == serves]
        if not any(c.open and c.searched for c in mine):
            self._search([c.template.id for c in mine if c.open])
            mine = [self.columns[c.template.id] for c in mine]
        return [c.template.id for c in cheapest(c for c in mine if c.open and c.searched)]

    def _measure_one(self, order: Sequence[str]) -> None:
        """Measure templates one by one until one keeps its promise at some load."""
        for j in order:
            self._measure([j])
            if self.columns[j].frontier is not None:
                return

    def _wanted_by_prices(self) -> bool:
        """Settle templates that the relaxation would want; tell if there were any."""
        every = self._relaxation({j: c.hopeful() for j, c in self.columns.items() if not c.dead})
        if every is None:
            return False
        trusted = self._relaxation(self.measured())
        if trusted is None:
            return self._measure(self._open(every.used)[:MOST_MEASURED])
        short = shortfall(self.problem.objective, trusted.value, every.value)
        if short <= self.gap:
            return False
        return self._look(trusted.prices)

    def _look(self, prices: UnitPrices) -> bool:
        """Simulate the best open templates where they would just pay; measure the best of these."""
        priced: list[tuple[float, str, float]] = []
        for j, column in self.columns.items():
            cost = cost_of(prices, column)
            loss = loss_of(self.problem, prices, column) if column.open else 0.0
            if loss < -self.gap * cost:
                # A template that carries no more than this improves by less than the gap.
                at = break_even_rps(self.problem, prices, column) * (1 + self.gap * NEARLY)
                priced.append((loss / cost, j, min(at, column.most_rps)))
        best = sorted(priced)[:MOST_LOOKS]
        margins = self.runs.margins([(self.columns[j].template, at) for _, j, at in best])
        held = []
        for (_, j, at), margin in zip(best, margins, strict=True):
            if margin < -SURE:
                why = f"a run at {at:.4g} req/s breaks its promise"
                self.columns[j] = self.columns[j].at_most(at, why)
            else:
                held.append((-margin, j))
        firsts: dict[tuple[str, str], str] = {}
        for _, j in sorted(held):  # one of those that differ by policy: it prices the others
            firsts.setdefault(kind_of(self.columns[j]), j)
        few = list(firsts.values())[:MOST_MEASURED]
        self._search([j for j in few if not self.columns[j].searched])
        self._measure(self._open(few))
        return bool(best)

    def wanted_by_whole_units(self, known: Mapping[str, Frontier]) -> bool:
        """Settle open templates that a program with whole units would want; tell if any.

        Args:
            known: What is believed of the measured templates. If nothing is wanted, the
                program's bound is kept as :attr:`proof`.
        """
        rates = tuple((j, f.capacity_rps.value) for j, f in known.items())
        key = (self.problem.cuts, rates)
        trusted = self._chosen.get(key) or self._choice(known)
        if trusted is not None:
            self._chosen[key] = trusted
        rivals = undominated(c for c in self.columns.values() if c.open)
        everything = {**{c.template.id: c.hopeful() for c in rivals}, **known}
        relaxed = self._relaxation(everything)
        if relaxed is None:
            return False
        if trusted is not None:
            rivals = [c for c in rivals if self._may_improve(c, relaxed, trusted)]
            everything = {**{c.template.id: c.hopeful() for c in rivals}, **known}
        if trusted is None:
            every = self._choice(everything)
            wanted = self._open(every.units) if every is not None else []
        else:
            # A fleet with a template that was let go is no better than the one at hand by the gap.
            aim, share = self.problem.objective, self.gap
            to_beat = trusted.objective * (1 - share if aim == "min_cost" else 1 + share)
            left_s = min(self.clock.left_s, SOLVING_S)
            data = instance_of(self.problem, everything)
            found = improvement_on(data, aim, to_beat, left_s, near=share / 2)
            wanted = self._open(found.used)
            if not wanted:
                bound = to_beat if found.proven else relaxed.value
                count = sum(c.open for c in self.columns.values())
                self.proof = Proof(bound, len(known), count)
        if not wanted:
            return False
        fresh = [j for j in wanted if not self.columns[j].searched]
        if fresh:
            return self._search(self._alike(fresh))
        return self._no_better_than_alike(wanted) or self._measure(wanted)

    def _no_better_than_alike(self, names: Sequence[str]) -> bool:
        """Settle templates that carry no more than a measured one like them; tell if any was.

        A short search leaves a template more than it found, so the program would want every policy
        of the same hardware in turn, though most carry the same: one run tells.
        """
        most: dict[tuple[str, str], float] = {}
        for column in self.columns.values():
            if column.frontier is not None:
                most[kind_of(column)] = max(most.get(kind_of(column), 0.0), capacity_of(column))
        jobs = []
        for j in names:
            at = most.get(kind_of(self.columns[j]), 0.0) * (1 + self.gap * NEARLY)
            if 0 < at < self.columns[j].most_rps * (1 - 1e-9):
                jobs.append((j, at))
        settled = False
        margins = self.runs.margins([(self.columns[j].template, at) for j, at in jobs])
        for (j, at), margin in zip(jobs, margins, strict=True):
            if margin < -SURE:
                why = f"a run at {at:.4g} req/s breaks its promise"
                self.columns[j] = self.columns[j].at_most(at, why, searched=True)
                settled = True
        return settled

    def _alike(self, names: Sequence[str]) -> list[str]:
        """Add to templates those not searched on the same hardware for the same workloads.

        They differ by policy and have nearly the same most, so the program would want them next.
        """
        kinds = {kind_of(self.columns[j]) for j in names}
        more = (
            c for c in self.columns.values() if c.open and not c.searched and kind_of(c) in kinds
        )
        return [*names, *sorted(c.template.id for c in more if c.template.id not in names)]

    def _may_improve(self, column: Column, relaxed: Relaxation, trusted: Choice) -> bool:
        """Tell whether a fleet with a unit of a template may beat one at hand by the gap.

        Each unit moves the relaxation's value by its reduced cost at least.
        """
        objective = self.problem.objective
        loss = loss_of(self.problem, relaxed.prices, column)
        if objective == "max_goodput_per_usd":
            worth = sum(d.rate_rps * d.value for d in self.problem.demands)
            loss *= trusted.objective / worth  # no better fleet costs more than all worth / ratio
        at_best = relaxed.value + (loss if objective == "min_cost" else -loss)
        return shortfall(objective, trusted.objective, at_best) > self.gap

    def _open(self, names: Iterable[str]) -> list[str]:
        return sorted(j for j in names if j in self.columns and self.columns[j].open)

    def _relaxation(self, frontiers: Mapping[str, Frontier]) -> Relaxation | None:
        """Solve the relaxation over templates; None if it has no solution."""
        if not frontiers:
            return None
        data = instance_of(self.problem, frontiers)
        try:
            return relaxation_of(data, self.problem.objective, self.clock.left_s)
        except InfeasibleError:
            return None

    def _choice(self, frontiers: Mapping[str, Frontier]) -> Choice | None:
        """Solve the program over templates; None if it has no solution, or none was found."""
        if not frontiers or self._relaxation(frontiers) is None:
            return None
        self.tell("pricing templates that were not measured")
        try:
            return choose(
                instance_of(self.problem, frontiers),
                self.problem.objective,
                time_limit_s=min(self.clock.left_s, SOLVING_S),
                gap=self.gap / 2,
                seed=self.problem.seed,
            )
        except (InfeasibleError, LimitReachedError):
            return None

    # -- simulating -------------------------------------------------------------------------

    def _search(self, names: Sequence[str]) -> bool:
        """Find the capacity of templates by a short search each; tell if there were any."""
        if names:
            self.tell(f"searching {len(names)} templates, {names[0]} first")
        columns = [self.columns[j] for j in names]
        found = self.runs.searched_rps([(c.template, 0.8 * c.most_rps) for c in columns])
        for j, column, rate in zip(names, columns, found, strict=True):
            self.columns[j] = (
                column.at_most(rate * HOPE, "a short search", searched=True)
                if rate > 0
                else replace(column, dead=True)
            )
        return bool(names)

    def _measure(self, names: Sequence[str]) -> bool:
        """Measure templates; tell if there were any."""
        columns = [self.columns[j] for j in names]
        guesses = [(c.template, c.most_rps / HOPE * (1.0 if c.searched else 0.85)) for c in columns]
        for j, frontier in zip(names, self.runs.frontiers(guesses), strict=True):
            self.columns[j] = replace(self.columns[j], frontier=frontier, dead=frontier is None)
        return bool(names)
