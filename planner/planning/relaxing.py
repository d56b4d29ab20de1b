"""The smallest single change that makes a question answerable, by each lever.

Each value that is told was planned with, simulation and all, as was the next smaller one. So
``--set`` with the value gives a plan, and with one per cent less (one less of what is counted)
it gives none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.catalogue import Catalogue
from planner.errors import InputError, LimitReachedError
from planner.fleet import Relaxation
from planner.planning.answer import first_fleet
from planner.planning.clock import Clock
from planner.planning.levers import levers_of, options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.fleet import FleetPlan, Infeasibility
    from planner.planning.fleet import Fleet
    from planner.planning.levers import Lever, Option
    from planner.scenario.load import LoadedScenario
    from planner.simulation.effort import Effort

MOST_TRIALS: Final = 120
"""Questions that are planned for to find out what would mend one."""


@dataclass(slots=True)
class Trials:
    """The question with settings changed, each planned for until a fleet is known or none."""

    loaded: LoadedScenario
    catalogue: Catalogue
    effort: Effort | None
    clock: Clock
    tell: Callable[[str, float], None] | None = None
    left: int = MOST_TRIALS
    known: dict[tuple[str, ...], Fleet | None] = field(default_factory=dict)

    def fleet(self, *settings: str) -> Fleet | None:
        """Return a fleet that keeps every promise of the changed question; None if none is found.

        Raises:
            LimitReachedError: Time or trials are used up.
        """
        key = tuple(sorted(settings))
        if key not in self.known:
            if self.left == 0:
                raise LimitReachedError(f"{MOST_TRIALS} changes were tried")
            self.left -= 1
            if self.tell is not None:
                done = 0.5 + 0.5 * (1 - self.left / MOST_TRIALS)
                self.tell(f"trying {', '.join(settings)}", done)
            self.known[key] = self._plan(settings)
        return self.known[key]

    def _plan(self, settings: Sequence[str]) -> Fleet | None:
        try:
            changed = self.loaded.changed(settings)
            return first_fleet(changed, self.catalogue, self.effort, self.clock)
        except InputError:  # a change that the scenario cannot have
            return None


def with_relaxations(
    loaded: LoadedScenario,
    plan: FleetPlan,
    *,
    clock: Clock | None = None,
    catalogue: Catalogue | None = None,
    effort: Effort | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> FleetPlan:
    """Add to a plan without a fleet what would make one possible, each change alone.

    Where no change is enough alone, those that are together: none of them can be left out, and
    none can be smaller while the others stay.

    Args:
        loaded: The question.
        plan: Its answer; returned as it is unless it is ``infeasible``.
        clock: The time that is left; the scenario's time limit where left out.
        catalogue: Facts; the shipped ones if left out.
        effort: How much to simulate; as for the plan.
        progress: Told what is being tried.
    """
    if plan.status != "infeasible":
        return plan
    catalogue = catalogue or Catalogue()
    clock = clock or Clock(loaded.scenario.solver.time_limit)
    trials = Trials(loaded, catalogue, effort, clock, progress)
    levers, found, vain = levers_of(loaded.scenario), [], []
    useful: list[Lever] = []
    ended = ""
    try:
        options = options_of(loaded.scenario, catalogue)
        for option in options:
            found += _allow(option, trials) if option.first else []
        for lever in levers:
            if trials.fleet(lever.setting(lever.most), *lever.beside) is None:
                vain.append(lever.path)
            else:
                useful.append(lever)
        for option in options:
            found += [] if option.first else _allow(option, trials)
        for lever in useful:
            found.append(_least(lever, trials))
        if not found:
            found += _together(levers, trials)
    except (LimitReachedError, KeyboardInterrupt):
        ended = "; a limit ended the search, so others may do too"
    order = [lever.path for lever in levers]
    found.sort(key=lambda one: order.index(one.lever) if one.lever in order else len(order))
    notes = [f"{len(trials.known)} changed questions were planned for{ended}"]
    if vain:
        notes.append(f"no value of these alone makes a fleet possible: {', '.join(vain)}")
    evidence = plan.evidence.model_copy(update={"notes": (*plan.evidence.notes, *notes)})
    reasons = tuple(_corrected(reason, found) for reason in plan.infeasibility)
    return plan.model_copy(
        update={"relaxations": tuple(found), "evidence": evidence, "infeasibility": reasons}
    )


def _allow(option: Option, trials: Trials) -> list[Relaxation]:
    """Return the first way of an option that makes a fleet possible, if one does."""
    for what, settings in option.ways:
        if trials.fleet(*settings) is not None:
            return [
                Relaxation(
                    lever=option.name,
                    has=option.has,
                    needs=f"{what} besides",
                    settings=settings,
                    not_enough=(),
                )
            ]
    return []


def _least(lever: Lever, trials: Trials, *beside: str) -> Relaxation:
    """Find the smallest change of a lever that is enough, when its farthest one is."""
    far = trials.fleet(lever.setting(lever.most), *lever.beside, *beside)
    short, enough = lever.has, lever.most
    guess = _used(lever, far)
    while not lever.is_tight(short, enough):
        value = guess if guess is not None else lever.between(short, enough)
        value = (
            value
            if min(short, enough) < value < max(short, enough)
            else lever.between(short, enough)
        )
        if trials.fleet(lever.setting(value), *beside) is None:
            short, guess = value, None
        else:
            enough = value
            guess = lever.just_less(value) if guess is not None else None
    return Relaxation(
        lever=lever.path,
        has=lever.shown(lever.has),
        needs=lever.shown(enough),
        settings=(lever.setting(enough), *beside),
        not_enough=((lever.setting(short), *beside),),
    )


def _used(lever: Lever, fleet: Fleet | None) -> float | None:
    """Return what a fleet uses of a limit: where to look first."""
    if fleet is None:
        return None
    if lever.accelerator is not None:
        return float(
            sum(p.units * p.template.build.devices.get(lever.accelerator, 0) for p in fleet.pools)
        )
    if lever.site is not None:
        return float(sum(held.nodes for held in fleet.held if held.site == lever.site))
    if lever.path == "limits.moves":
        return float(fleet.moves)
    return round(fleet.usd_per_hour + 5e-5, 4) if lever.path == "limits.budget" else None


def _together(levers: Sequence[Lever], trials: Trials) -> list[Relaxation]:
    """Find changes that are enough together, when none is alone.

    All levers at their farthest; then each is left out that need not move, the last first; then
    each that is left is brought back as far as it goes.
    """
    moved = list(levers)

    def at_most(some: Sequence[Lever]) -> list[str]:
        return list(dict.fromkeys(s for x in some for s in (x.setting(x.most), *x.beside)))

    if trials.fleet(*at_most(moved)) is None:
        return []
    for lever in reversed(levers):
        rest = [x for x in moved if x is not lever]
        if trials.fleet(*at_most(rest)) is not None:
            moved = rest
    settings: list[str] = []
    not_enough: list[tuple[str, ...]] = []
    told = []
    for position, lever in enumerate(moved):
        others = (*settings, *at_most(moved[position + 1 :]))
        one = _least(lever, trials, *others)
        settings.append(one.settings[0])
        not_enough.append((one.not_enough[0][0], *others))
        told.append(one)
    return [
        Relaxation(
            lever=" and ".join(x.path for x in moved),
            has=" and ".join(x.has for x in told),
            needs=" and ".join(x.needs for x in told),
            settings=tuple(settings),
            not_enough=tuple(not_enough),
        )
    ]


def _corrected(reason: Infeasibility, found: Sequence[Relaxation]) -> Infeasibility:
    """Let what was planned with stand where coarse measurements only promised."""
    for one in found:
        kind, _, name = reason.limit.rpartition(" ")
        if kind == "stock of" and one.lever == f"accelerators.{name}.stock":
            word = "accelerator" if one.needs == "1" else "accelerators"
            needs = f"{one.needs} {word}"
            return reason.model_copy(
                update={"needs": needs, "remedy": f"a stock of {needs}, alone"}
            )
        if reason.limit == one.lever == "limits.moves":
            needs = f"{one.needs} units started or stopped"
            remedy = f"limits.moves of {one.needs}, {int(one.needs) - int(one.has)} more, alone"
            return reason.model_copy(update={"needs": needs, "remedy": remedy})
        if reason.limit == one.lever == "limits.budget":
            update = {"needs": one.needs, "remedy": f"a budget of {one.needs}, alone"}
            return reason.model_copy(update=update)
        workload, _, what = reason.limit.partition(": ")
        if what == "slo.attainment" and one.lever == f"workloads.{workload}.slo.attainment":
            needs = f"one of at most {one.needs}"
            remedy = f"an attainment of {one.needs}, if fewer may meet their deadlines, alone"
            return reason.model_copy(update={"needs": needs, "remedy": remedy})
    return reason
