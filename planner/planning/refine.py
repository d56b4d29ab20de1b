"""Solve, verify, refine: until what the program promises is what a fleet simulation shows.

The program works with operating points per unit, measured in pools of some size. A chosen
fleet has other sizes and mixes. So each chosen pool is measured again at its own size, the
program solved again, and the whole fleet simulated on fresh draws; where simulation and points
disagree, the points give way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.frontier import Frontier, measure_frontier
from planner.candidates.meanfield import CoarseCapacity
from planner.candidates.screen import Screened
from planner.errors import InfeasibleError, LimitReachedError
from planner.milp import choose, relaxation_prices
from planner.planning.beliefs import Beliefs
from planner.planning.failures import Survived, survives, try_failures
from planner.planning.fitting import with_cuts
from planner.planning.fleet import Fleet, PoolChoice, with_one_less
from planner.planning.goals import goals_of
from planner.planning.housing import without_one
from planner.planning.moves import with_moves, within_moves
from planner.planning.one_side_less import with_one_side_less
from planner.planning.periods import judge_over_time
from planner.planning.program import fleet_of_choice, instance_of
from planner.simulation.capacity import VERIFYING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import Judgement, judge_fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.milp import Choice
    from planner.planning.clock import Clock
    from planner.planning.pricing import Proof
    from planner.planning.teller import Teller
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

MOST_ROUNDS: Final = 24
LIMIT_ENDED: Final = "a limit ended the search before promise and evidence agreed"
INTERRUPTED: Final = "an interrupt ended the work before all of it was done"
ROUNDS_ENDED: Final = (
    f"promise and evidence did not agree within {MOST_ROUNDS} rounds of measuring and solving"
)
HASTE_S: Final = 5.0
"""Time that the program may take, in seconds, when there is none left."""
NUDGE: Final = 0.002
"""How far past a refuted load a belief moves at least."""
STEEPNESS: Final = 4.0
"""Attainment falls by 1 to 3 per unit of log load near the promise; a steeper guess makes a
smaller step, and another round follows if it was too small."""
LARGEST_STEP: Final = 0.1


@dataclass(frozen=True, slots=True)
class Verified:
    """A fleet with its verdicts, and what the fleets with one unit less showed."""

    fleet: Fleet
    judgement: Judgement
    values: tuple[float, ...]
    """Worth of a compliant request of each workload."""
    one_less: tuple[tuple[str, Fleet | None, Judgement | None], ...] = ()
    """By pool: template id, the smaller fleet (None if a workload would be served by nobody),
    and its verdicts."""
    failures: tuple[Survived, ...] = ()
    """What is left after each failure that the fleet must survive."""
    one_side_less: tuple[tuple[str, Judgement], ...] = ()
    """By side of a pool of groups: its id, and the verdicts with one replica less there."""

    @property
    def goodput_rps(self) -> float:
        """Compliant requests per second, simulated."""
        return self._weighted([1.0] * len(self.judgement.intervals))

    @property
    def worth_rps(self) -> float:
        """Compliant requests per second, simulated, weighted by the value of each workload."""
        return self._weighted(self.values)

    @property
    def worth_per_usd(self) -> float:
        """Compliant requests per dollar, weighted by the value of each workload."""
        return self.worth_rps * 3600 / self.fleet.usd_per_hour

    def _weighted(self, values: Sequence[float]) -> float:
        loads = [sum(p.load_rps[w] for p in self.fleet.pools) for w in range(len(values))]
        paces: list[float] = self.judgement.sample.paces().tolist()
        return sum(
            value * load * pace * interval.value
            for value, load, pace, interval in zip(
                values, loads, paces, self.judgement.intervals, strict=True
            )
        )


@dataclass(frozen=True, slots=True)
class Refined:
    """What the loop ended with."""

    best: Verified | None
    """The best fleet whose promises are all kept; None if none was found."""
    last: Verified | None
    """The last fleet that was simulated, kept or not."""
    choice: Choice
    """The last solution of the program."""
    frontiers: dict[str, Frontier]
    unsettled: str
    """What ended the loop before promise and evidence agreed; empty if they agree."""
    proof: Proof | None = None
    """What no fleet is better than that has templates which were not measured."""


class Refinement:
    """The loop, with its memory of fleets that were already simulated."""

    def __init__(
        self,
        problem: Problem,
        study: Study,
        effort: Effort,
        clock: Clock,
        tell: Teller,
    ) -> None:
        self.problem = problem
        self.study = study
        self.effort = effort
        self.clock = clock
        self.tell = tell
        self.beliefs = Beliefs()
        self._judged: dict[object, Judgement] = {}
        self._sides: dict[object, tuple[tuple[str, Judgement], ...]] = {}
        self._smaller: set[str] = set()

    # -- measuring --------------------------------------------------------------------------

    def measure_all(self, screened: list[Screened]) -> None:
        """Measure every screened template coarsely, in a pool that would serve all its demand."""
        fine = self.effort.search
        short = RunSize(max(fine.requests // 2, 5_000), 2, max(fine.per_replica // 2, 1_500))
        quick = replace(self.effort, search=short)
        for i, one in enumerate(screened):
            self.clock.check()
            done = 0.15 + 0.35 * i / len(screened)
            self.tell(f"measuring {one.template.id} ({i + 1} of {len(screened)})", done)
            demand = sum(one.template.mix_rps)
            size = max(1, round(demand / (1.15 * one.capacity_rps)))
            self._measure(one.template.id, one, size, one.capacity_rps, quick)

    def _measure(
        self, j: str, source: Screened | Frontier, size: int, guess_rps: float, effort: Effort
    ) -> None:
        frontier = measure_frontier(
            self.study,
            source.template,
            self.problem.policies.router,
            size,
            guess_rps,
            effort,
            self.clock.check,
        )
        if frontier is not None:
            self.beliefs.frontiers[j] = frontier
        else:
            self.beliefs.frontiers.pop(j, None)

    def _measure_finely(self, j: str, size: int) -> None:
        self.clock.check()
        self.tell(f"measuring {j} in a pool of {size}")
        guess = self.beliefs.capacity(j)
        self.beliefs.correction.pop(j, None)
        self.beliefs.fine.add((j, size))
        self._measure(j, self.beliefs.frontiers[j], size, guess, self.effort)

    # -- judging ----------------------------------------------------------------------------

    def judge(self, fleet: Fleet) -> Judgement:
        """Simulate a fleet on draws that no search has seen; remembered."""
        if fleet.key not in self._judged:
            self.clock.check()
            self.tell(f"verifying {', '.join(f'{p.units} x {p.template.id}' for p in fleet.pools)}")
            judged = judge_fleet(
                self.study,
                fleet.for_simulation(self.problem.policies.router),
                effort=self.effort,
                stream=VERIFYING,
                over=lambda: self.clock.over,
            )
            self._judged[fleet.key] = judge_over_time(
                self.problem, self.study, fleet, self.effort, judged
            )
        return self._judged[fleet.key]

    def judge_one_less(
        self, fleet: Fleet
    ) -> tuple[tuple[str, Fleet | None, Judgement | None], ...]:
        """Simulate the fleet with one unit less of each pool."""
        believed = self.beliefs.believed()
        results = []
        for position, pool in enumerate(fleet.pools):
            less = with_one_less(fleet, position, believed, self.problem.rates_rps)
            less = less and without_one(self.problem, fleet, less, pool.template.id)
            less = less and with_moves(self.problem, less)
            results.append((pool.template.id, less, self.judge(less) if less else None))
        return tuple(results)

    def _with_failures(self, one: Verified) -> Verified | None:
        """Add what failures leave of a fleet; None, and less belief, where a promise broke."""
        if one.judgement.verdict != "kept":
            self._believe_less(one.fleet, one.judgement, self.study.promise)
            return None
        failures = self._survived(one.fleet)
        return None if failures is None else replace(one, failures=failures)

    # -- the loop ---------------------------------------------------------------------------

    def run(self, best: Verified | None = None, *, enough: bool = False) -> Refined:
        """Refine until the chosen fleet keeps its promises as its points said.

        Args:
            best: A fleet that keeps all, from before.
            enough: The first fleet that keeps every promise will do.

        Raises:
            InfeasibleError: The program has no solution with the points measured.
            LimitReachedError: The time is over before the first fleet was simulated.
        """
        last: Verified | None = None
        choice: Choice | None = None
        unsettled = ROUNDS_ENDED
        try:
            for _ in range(MOST_ROUNDS):
                choice = self._solve()
                fleet = fleet_of_choice(self.problem, self.beliefs.believed(), choice)
                if self._measured_anew(fleet):
                    continue
                last = Verified(fleet, self.judge(fleet), self.problem.values)
                kept = self._with_failures(last)
                if kept is None:
                    continue
                last = kept
                best = before = self._better(best, last)
                if enough:
                    break
                last = replace(last, one_less=self.judge_one_less(fleet))
                best = last if before.fleet is fleet else best
                more = self._smaller_fleet_keeps(last) or self._rivals_measured(fleet, choice)
                if more or self._smaller_groups(fleet):
                    continue
                unsettled = ""
                break
        except (LimitReachedError, KeyboardInterrupt) as error:
            self.clock.stop_on(error)
            if enough or choice is None or last is None:
                raise
            unsettled = LIMIT_ENDED
        except InfeasibleError:
            if best is None:  # else there is a fleet, whatever finer measurements say of others
                raise
        assert choice is not None  # the first round sets it or raises
        return Refined(self._with_sides(best), last, choice, self.beliefs.believed(), unsettled)

    def hasty(self) -> Refined | None:
        """Return the fleet that the measurements so far give, simulated once.

        For when the time is over, or somebody stops the work, before the loop has a fleet: a
        rough plan that says so is worth more than none.

        Returns:
            None if not even that is possible: a workload that no template measured so far
            serves, or limits that leave no fleet.
        """
        believed = self.beliefs.believed()
        if not believed:
            return None
        data = instance_of(self.problem, believed)
        try:
            choice = choose(
                data, self.problem.objective, time_limit_s=HASTE_S, gap=self.problem.gap
            )
        except (InfeasibleError, LimitReachedError):
            return None
        fleet = fleet_of_choice(self.problem, believed, choice)
        once = replace(self.effort, verify_limit=self.effort.verify.requests)
        router = self.problem.policies.router
        judged = judge_fleet(
            self.study, fleet.for_simulation(router), effort=once, stream=VERIFYING
        )
        judged = judge_over_time(self.problem, self.study, fleet, once, judged)
        last = Verified(fleet, judged, self.problem.values)
        untried = self.problem.sites.spare is not None
        best = last if judged.verdict == "kept" and not untried else None
        return Refined(best, last, choice, believed, LIMIT_ENDED)

    def _solve(self) -> Choice:
        self.clock.check()
        self.tell("solving the program")
        return self._choose(self.beliefs.believed())

    def _choose(self, frontiers: dict[str, Frontier]) -> Choice:
        """Solve the program, again with the rows of a fleet that has no place on the nodes."""
        while True:
            choice = choose(
                instance_of(self.problem, frontiers),
                self.problem.objective,
                time_limit_s=self.clock.left_s,
                gap=self.problem.gap,
                seed=self.problem.seed,
                solver=self.problem.solver,
                goals=goals_of(self.problem, frontiers),
            )
            fleet = fleet_of_choice(self.problem, frontiers, choice)
            more = with_cuts(self.problem, fleet)
            if more is None:
                return choice
            self.problem = more
            self.clock.check()

    def _measured_anew(self, fleet: Fleet) -> bool:
        """Measure the pools of a fleet at their own size, where that was not done; tell if any."""
        stale = [p for p in fleet.pools if not self.beliefs.is_fine(p.template.id, p.units)]
        for pool in stale:
            self._measure_finely(pool.template.id, pool.units)
        return bool(stale)

    def _survived(self, fleet: Fleet) -> tuple[Survived, ...] | None:
        """Simulate what failures leave; None, and less is believed, if a floor does not hold."""
        tried = try_failures(
            self.problem,
            self.study,
            self.beliefs.believed(),
            fleet,
            self.effort,
            lambda: self.clock.over,
        )
        for one in tried:
            if one.judgement is not None and not one.kept:
                self._believe_less(one.left, one.judgement, one.floors)
                return None
        return tried

    def _believe_less(self, fleet: Fleet, judgement: Judgement, promise: Sequence[float]) -> None:
        """Lower the belief in the pool that failed most, below the load that refuted it."""
        failed = [w for w, verdict in enumerate(judgement.verdicts) if verdict != "kept"]

        def worst(position: int) -> float:
            runs = judgement.sample.runs[position]
            served = [w for w in failed if fleet.pools[position].load_rps[w] > 0]
            spare = [
                sum(float(run.attainment[w]) for run in runs) / len(runs) - promise[w]
                for w in served
            ]
            return min(spare, default=1.0)

        position = min(range(len(fleet.pools)), key=worst)
        pool = fleet.pools[position]
        self.beliefs.believe_below(pool.template.id, pool.load_per_unit, _step(-worst(position)))

    def _smaller_fleet_keeps(self, verified: Verified) -> bool:
        """Raise the belief in a pool of which one unit less is a better fleet; tell if any.

        Better means that every promise is kept and the objective improves: under goodput per
        dollar a unit that the promises do not need may still pay for itself.
        """
        raised = False
        for j, less, judgement in verified.one_less:
            if less is None or judgement is None or judgement.verdict != "kept":
                continue
            if self._better(verified, Verified(less, judgement, self.problem.values)) is verified:
                continue
            if not survives(self.problem, self.beliefs.believed(), less):
                continue
            if not within_moves(self.problem, less):
                continue
            pool = _pool_of(less, j)
            spare = [
                i.value - p for i, p in zip(judgement.intervals, self.study.promise, strict=True)
            ]
            # Where the pool is gone, those that took its load carried more than was believed.
            for carried in (pool,) if pool is not None else less.pools:
                self.beliefs.believe_above(
                    carried.template.id, carried.load_per_unit, _step(min(spare))
                )
                raised = True
        return raised

    def _smaller_groups(self, fleet: Fleet) -> bool:
        """Simulate the fleet with one replica less per side; measure what keeps; tell if any."""
        sides, found = [], False
        for pool, template, less in with_one_side_less(fleet):
            judged = self.judge(less)
            sides.append((pool, judged))
            if judged.verdict == "kept" and template.id not in self._smaller:
                self._smaller.add(template.id)
                load = sum(next(p.load_rps for p in less.pools if p.template is template))
                source = Screened(template, CoarseCapacity(load, "decode"), load)
                self._measure(template.id, source, 1, load, self.effort)
                self.beliefs.fine.add((template.id, 1))
                found = found or template.id in self.beliefs.frontiers
        self._sides[fleet.key] = tuple(sides)
        return found

    def _with_sides(self, best: Verified | None) -> Verified | None:
        """Add what one replica less on a side showed."""
        sides = self._sides.get(best.fleet.key, ()) if best is not None else ()
        return replace(best, one_side_less=sides) if best is not None and sides else best

    def _rivals_measured(self, fleet: Fleet, choice: Choice) -> bool:
        """Measure finely the templates that might still beat the fleet; tell if any was.

        The program's duals say what a request per second of each workload is worth. A rival is
        a template, so far measured coarsely, whose unit is worth more than it costs if its
        capacity is at the hopeful end of its interval, and requests are worth what the fleet
        really pays for them (whole units cost more than the relaxation's fractions).
        """
        believed = self.beliefs.believed()
        worth = self._worth_of_requests(believed, choice)
        relaxed = sum(v * rate for v, rate in zip(worth, self.problem.rates_rps, strict=True))
        scale = max(fleet.usd_per_hour / relaxed, 1.0) if relaxed > 0 else 1.0
        rivals = []
        for j, frontier in believed.items():
            if any(k == j for k, _ in self.beliefs.fine):
                continue
            capacity = frontier.capacity_rps
            hope = min(capacity.high / capacity.value, 1.1)
            load = frontier.points[-1].load_rps
            unit = sum(v * x for v, x in zip(worth, load, strict=True)) * scale * hope
            if unit > frontier.template.build.usd_per_hour:
                rivals.append((j, frontier.pool_size))
        for j, size in rivals:
            self._measure_finely(j, size)
        return bool(rivals)

    def _worth_of_requests(
        self, believed: dict[str, Frontier], choice: Choice
    ) -> tuple[float, ...]:
        """Return USD/h that one more request per second of each workload costs to serve."""
        data = instance_of(self.problem, believed)
        least = choice
        if self.problem.objective != "min_cost":
            least = choose(data, "min_cost", time_limit_s=self.clock.left_s, gap=0.01)
        costs = dict.fromkeys((d.id for d in self.problem.demands), 0.0)
        for price in relaxation_prices(data, least, time_limit_s=self.clock.left_s):
            if price.number in ("C2", "C3") and price.usd_per_hour is not None:
                w = price.index[0]
                share = 1.0 if price.number == "C2" else data.promise[w]
                costs[w] -= price.usd_per_hour * share
        return tuple(max(costs[d.id], 0.0) for d in self.problem.demands)

    def _better(self, best: Verified | None, one: Verified) -> Verified:
        """Return the better of two fleets that keep every promise; the first of equals."""
        if best is None:
            return one

        return one if rank(self.problem, one) > rank(self.problem, best) else best


def rank(problem: Problem, fleet: Verified) -> tuple[float, float]:
    """Return what a fleet that keeps every promise is judged by: more is better."""
    worth = fleet.worth_rps
    if problem.objective == "min_cost":
        return -fleet.fleet.usd_per_hour, worth
    if problem.objective == "max_goodput":
        return worth, -fleet.fleet.usd_per_hour
    return fleet.worth_per_usd, worth


def _step(spare: float) -> float:
    """Return by which share a belief moves for attainment that much off the promise."""
    return min(max(spare / STEEPNESS, NUDGE), LARGEST_STEP)


def _pool_of(fleet: Fleet, j: str) -> PoolChoice | None:
    return next((p for p in fleet.pools if p.template.id == j), None)
