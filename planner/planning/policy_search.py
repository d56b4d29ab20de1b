"""Scheduler settings searched from those that a scenario lists: for replicas that may be chosen.

Each kind of replica (hardware, whom it serves, who is served first) that is not much dearer than
the cheapest climbs by itself from its best listed settings; what it finds is a template like the
rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.columns import HOPE, Column, pool_size
from planner.candidates.frontier import setup_of
from planner.candidates.meanfield import coarse_bounds, moments
from planner.candidates.physics import computed_lengths
from planner.candidates.policy_search import Setting, search
from planner.candidates.screen import Screened
from planner.candidates.serve import longest_requests
from planner.candidates.settings import with_settings
from planner.fleet import Decision
from planner.simulation.capacity import CHORD, SCREENING, falling_root, margin_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planner.candidates.meanfield import CoarseCapacity
    from planner.candidates.template import Build, Template
    from planner.planning.refine import Verified
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

WORTH: Final = 1.25
"""How much dearer per request than the cheapest a kind of replica may be by a search for its
capacity, and still climb: settings seldom give more."""


@dataclass(frozen=True, slots=True)
class Known:
    """A template with listed settings, and what it carries at most, so far as is known."""

    template: Template
    load_rps: float
    """Of one unit."""
    simulated: bool
    """Whether a search or a measurement says so, and not the mean field."""

    @property
    def usd_per_request(self) -> float:
        """Price of a unit over its load."""
        return self.template.build.usd_per_hour / 3600 / self.load_rps


@dataclass(frozen=True, slots=True)
class Peak:
    """The best settings of a kind of replica."""

    template: Template
    bound: CoarseCapacity
    load_rps: float
    """Of one unit, by short runs."""
    begun_at: str
    """Name of the listed template that it began at."""
    begun_rps: float
    """What that carries."""
    looks: int
    """Settings looked at."""


class UnitGround:
    """What one kind of replica carries under any settings, simulated in the pool it would have.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        effort: How much to simulate.
        template: Of the kind.
        check: Called before each run; raises where the time is over.
    """

    def __init__(
        self,
        problem: Problem,
        study: Study,
        effort: Effort,
        template: Template,
        check: Callable[[], None],
    ) -> None:
        self.problem = problem
        self.study = study
        self.effort = effort
        self.template = template
        self.check = check
        self.lengths = computed_lengths(study, template.build, template.mix_rps)
        self.longest = max(longest_requests(problem)[w] for w in template.serves)
        self.size = 1
        """Units of the pool that is simulated: the same for all that are compared."""
        self._made: dict[Setting, tuple[Build, CoarseCapacity] | None] = {}

    def made(self, setting: Setting) -> tuple[Build, CoarseCapacity] | None:
        """Return the replica and its mean-field load; None where it cannot be built."""
        if setting not in self._made:
            own = self.template.build
            build = with_settings(self.problem.policies, own, *setting, self.longest)
            if isinstance(build, str):
                self._made[setting] = None
            else:
                tpot_s = min(self.problem.demands[w].slo.tpot for w in self.template.serves)
                means = moments(*self.lengths, setting.max_num_batched_tokens)
                self._made[setting] = build, coarse_bounds([build], [means], [tpot_s])[0]
        return self._made[setting]

    def bound(self, setting: Setting) -> float:
        """Return the mean-field load of one unit; 0 where it cannot be built."""
        made = self.made(setting)
        return 0.0 if made is None else made[1].load_rps

    def at(self, setting: Setting) -> Template:
        """Return the template with other settings."""
        made = self.made(setting)
        assert made is not None  # its bound is above 0
        return replace(self.template, build=made[0])

    def margin(
        self, setting: Setting, load_rps: float, *, draw: int = 0, share: float = 1.0
    ) -> float:
        """Return attainment less promise at a load of one unit, by one short run."""
        self.check()
        setup = setup_of(self.at(setting).build, self.size, self.problem.policies.router)
        run = self.effort.search
        requests = setup.run_requests(self.effort.screen_requests, run.per_replica)
        n = max(round(requests * share), 1)
        drawn = self.study.draws.get(self.template.mix_rps, n, draw, SCREENING)
        return margin_at(self.study, setup, drawn, load_rps * self.size)

    def capacity(self, setting: Setting, guess_rps: float) -> float:
        """Return the load of one unit that keeps its promises, by a few short runs."""

        def margin(load_rps: float) -> float:
            return self.margin(setting, load_rps)

        return falling_root(margin, guess_rps, step=0.06, tolerance=CHORD, most=12)


def kind_of(template: Template) -> tuple[str, str, str]:
    """Return what templates have in common that differ in limits per step only."""
    return template.build.hardware, template.label, template.build.scheduling_policy


def setting_of(template: Template) -> Setting:
    """Return the limits per step of a template."""
    return Setting(template.build.max_num_batched_tokens, template.build.max_num_seqs)


def climb_all(
    problem: Problem,
    study: Study,
    effort: Effort,
    known: Iterable[Known],
    check: Callable[[], None],
) -> list[Peak]:
    """Climb in every kind of replica that may be worth it; one peak of each.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        effort: How much to simulate.
        known: Templates with listed settings that carry some load.
        check: Called before each run; raises where the time is over.
    """
    kinds: dict[tuple[str, str, str], list[Known]] = {}
    cheapest: dict[str, float] = {}
    for one in known:
        label = one.template.label
        kinds.setdefault(kind_of(one.template), []).append(one)
        if one.simulated:
            cheapest[label] = min(cheapest.get(label, math.inf), one.usd_per_request)
    peaks = []
    for (_, label, _), mine in sorted(kinds.items()):
        mine.sort(key=lambda k: (k.usd_per_request, k.template.id))
        least = cheapest.get(label, math.inf)
        simulated = [k for k in mine if k.simulated]
        near = simulated[0].usd_per_request <= WORTH * least if simulated else False
        hope = not simulated and mine[0].usd_per_request < least
        if near or hope:
            peak = _peak(UnitGround(problem, study, effort, mine[0].template, check), mine)
            peaks += [] if peak is None else [peak]
    return peaks


def _peak(ground: UnitGround, mine: Sequence[Known]) -> Peak | None:
    """Climb from the best of one kind's listed settings."""
    first = next((k for k in mine if k.simulated), mine[0])
    ground.size = pool_size(first.template, first.load_rps)
    start = setting_of(first.template)
    begun = ground.capacity(start, first.load_rps)
    found = search(ground, [start], begun)
    if found is None:
        return None
    made = ground.made(found.best)
    assert made is not None  # it carries a load
    template = ground.at(found.best)
    looks = len(found.looks)
    return Peak(template, made[1], found.load_rps, first.template.id, begun, looks)


def known_of(columns: Iterable[Column]) -> list[Known]:
    """Return what is known of templates that carry a load."""
    found = []
    for column in columns:
        if column.dead or column.template.build.group is not None:
            continue
        if column.frontier is not None:
            found.append(Known(column.template, column.frontier.capacity_rps.value, simulated=True))
        else:
            hope = HOPE if column.searched else 1.0
            found.append(Known(column.template, column.most_rps / hope, simulated=column.searched))
    return found


def added_to(columns: dict[str, Column], peaks: Sequence[Peak]) -> bool:
    """Add the peaks that no column stands for; tell if there were any."""
    fresh = [peak for peak in peaks if peak.template.id not in columns]
    for peak in fresh:
        most = peak.load_rps * HOPE
        columns[peak.template.id] = Column(
            peak.template, peak.bound, most, "a climb over its settings", searched=True
        )
    return bool(fresh)


def with_peaks(screened: Sequence[Screened], peaks: Sequence[Peak]) -> list[Screened]:
    """Return screened templates, and the peaks that are none of them."""
    names = {one.template.id for one in screened}
    fresh = [Screened(p.template, p.bound, p.load_rps) for p in peaks if p.template.id not in names]
    return [*screened, *fresh]


def settings_decision(peaks: Sequence[Peak], shown: Verified) -> tuple[Decision, ...]:
    """Say what the search for settings found for the pools of a fleet."""
    if not peaks:
        return ()
    looks = sum(peak.looks for peak in peaks)
    kinds = "one kind of replica" if len(peaks) == 1 else f"{len(peaks)} kinds of replicas"
    numbers = {"kinds_of_replicas": float(len(peaks)), "settings_looked_at": float(looks)}
    own = {kind_of(peak.template): peak for peak in peaks}
    words, chosen = [], []
    for pool in shown.fleet.pools:
        build, peak = pool.template.build, own.get(kind_of(pool.template))
        if build.group is not None:
            continue
        chosen.append(
            f"max_num_batched_tokens {build.max_num_batched_tokens},"
            f" max_num_seqs {build.max_num_seqs}"
        )
        if peak is None:
            continue
        best, begun = peak.template.build.id, peak.begun_at.partition("@")[0]
        numbers |= {f"load_rps_of_{begun}": peak.begun_rps, f"load_rps_of_{best}": peak.load_rps}
        said = f"by short runs a unit of {begun} carries {peak.begun_rps:.4g} req/s"
        if best != begun:
            said += f", of {best} {peak.load_rps:.4g} ({peak.load_rps / peak.begun_rps - 1:+.1%})"
        if build.id not in (best, begun):
            said += f"; {build.id} is as good in whole units"
        elif build.id == begun != best:
            said += ", which saves no whole unit"
        words.append(said)
    return (
        Decision(
            question="which scheduler settings",
            answer="; ".join(dict.fromkeys(chosen)) or "those of groups",
            because=f"{looks} settings of {kinds} were looked at, from the"
            f" best listed ones on; {'; '.join(words) or 'kinds that were not searched won'}",
            numbers=numbers,
        ),
    )
