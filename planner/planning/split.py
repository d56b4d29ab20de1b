"""Whether long prompts should go to replicas of their own: priced, and said either way.

The fleet in which all prompts of a workload share replicas is found first. Each threshold at
which a workload could be split is then priced by a coarse search of its two parts; the cheapest
gets a search of its own if its price promises to be better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.groups import screen_groups, together
from planner.candidates.screen import screen
from planner.candidates.serve import templates_of
from planner.candidates.split import cannot_split, promises_of, split_problem, splits_of
from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision
from planner.milp import NoFleetError, choose
from planner.planning.infeasible import explain_limits
from planner.planning.program import instance_of
from planner.planning.refine import Refinement, rank
from planner.planning.results import misses_up_to
from planner.planning.study import study_of

if TYPE_CHECKING:
    from planner.candidates.split import Split
    from planner.candidates.template import Build
    from planner.fleet import Infeasibility
    from planner.planning.answered import Answer
    from planner.planning.clock import Clock
    from planner.planning.refine import Refined
    from planner.planning.teller import Teller
    from planner.problem.resolve import Problem

PRICING_S: Final = 5.0
"""Time of the program that prices a split."""
FEW: Final = 3
"""Templates of each part that are measured to price a split."""


@dataclass(frozen=True, slots=True)
class Option:
    """A workload split at one threshold."""

    split: Split
    problem: Problem | None
    """With the parts as workloads; None where short prompts would be promised too much."""
    usd_per_hour: float | None
    """Of the cheapest fleet that coarse measurements give; None if they give none."""
    barred: NoFleetError | None = None
    """Which limits are in the way of a fleet by coarse measurements, where they are."""


@dataclass(frozen=True, slots=True)
class Priced:
    """What was considered for the workloads whose prompts are short and long."""

    options: tuple[Option, ...]
    refused: tuple[tuple[int, str], ...]
    """Workloads that cannot be split, and why."""
    usd_whole: float | None
    """Price of the fleet without a split; None if there is no such fleet."""

    @property
    def cheapest(self) -> Option | None:
        """The option with the lowest price, if any has one."""
        priced = [o for o in self.options if o.usd_per_hour is not None]
        return min(priced, key=lambda o: o.usd_per_hour or 0.0, default=None)

    def worth_a_search(self) -> Problem | None:
        """Return the problem of the cheapest option, if it is cheaper than no split."""
        best = self.cheapest
        if best is None or best.usd_per_hour is None:
            return None
        cheaper = self.usd_whole is None or best.usd_per_hour < self.usd_whole
        return best.problem if cheaper else None


def price_splits(
    answer: Answer, whole: Refined | None, clock: Clock, tell: Teller
) -> Priced | None:
    """Price every split that is worth a thought; None if there is none, or no time.

    Args:
        answer: The question.
        whole: The fleet without a split; None if there is none.
        clock: The time that is left.
        tell: Told what is being done.
    """
    problem = answer.problem
    if problem.policies.sharing == "shared":
        return None
    refused: list[tuple[int, str]] = []
    considered: list[Split] = []
    for w, demand in enumerate(problem.demands):
        why = cannot_split(demand)
        splits = splits_of(demand, w)
        if splits and why is not None:
            refused.append((w, why))
        elif splits:
            considered += splits
    if not considered and not refused:
        return None
    builds, _ = enumerate_builds(problem, answer.catalogue)
    options = []
    try:
        for split in considered:
            tell(f"pricing a split at prompts of {split.at_tokens} tokens", 0.85)
            options.append(_priced(answer, split, builds, clock, tell))
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
    shown = whole.best or whole.last if whole is not None else None
    usd = shown.fleet.usd_per_hour if shown is not None else None
    return Priced(tuple(options), tuple(refused), usd)


def _priced(
    answer: Answer, split: Split, builds: list[Build], clock: Clock, tell: Teller
) -> Option:
    """Measure the best few templates of each part coarsely, and ask the program for a price."""
    promises = promises_of(answer.problem.demands[split.workload], split, builds)
    if promises is None:
        return Option(split, None, None)
    problem = split_problem(answer.problem, split, promises)
    study = study_of(problem, answer.study.meter)
    groups, _ = templates_of(problem, study, builds, clock.check)
    tpot_s = [d.slo.tpot for d in problem.demands]
    chosen = []
    for _, templates in sorted(groups.items()):
        router = problem.policies.router
        kept, _ = screen(study, templates, tpot_s, router, answer.effort, clock.check)
        chosen += kept[:FEW]
    paired = screen_groups(problem, study, builds, groups, answer.effort, clock.check)
    chosen = together(problem, chosen, paired.screened)
    refinement = Refinement(problem, study, answer.effort, clock, tell)
    refinement.measure_all(chosen)
    believed = refinement.beliefs.believed()
    if not believed:
        return Option(split, problem, None)
    try:
        found = choose(instance_of(problem, believed), "min_cost", time_limit_s=PRICING_S, gap=1e-3)
    except NoFleetError as error:
        return Option(split, problem, None, error)
    except (InfeasibleError, LimitReachedError):
        return Option(split, problem, None)
    return Option(split, problem, found.cost_usd_per_hour)


def limits_of_a_split(answer: Answer, priced: Priced) -> tuple[Infeasibility, ...]:
    """Say what limits would have to be for a split, where they are in the way of every fleet.

    Of several thresholds, that at which a limit has to give least.
    """
    barred = [(o, o.barred) for o in priced.options if o.barred is not None and o.barred.alone]
    if not barred:
        return ()
    option, error = min(barred, key=lambda pair: _step(pair[1]))
    split = option.split
    where = (
        f"with prompts of {answer.problem.demands[split.workload].id} over {split.at_tokens:,}"
        " tokens in replicas of their own, by coarse measurements"
    )
    return tuple(
        reason.model_copy(update={"remedy": f"{reason.remedy}, {where}"})
        for reason in explain_limits(answer.problem, error)
    )


def _step(error: NoFleetError) -> float:
    """Return by which share of itself the limit that gives least has to give."""
    return min(abs(s.needs - s.limit) / max(abs(s.limit), 1e-300) for s in error.alone)


def is_better(problem: Problem, one: Refined, other: Refined | None) -> bool:
    """Tell whether a fleet that was found keeps its promises and is better than another."""
    if one.best is None:
        return False
    if other is None or other.best is None:
        return True
    return rank(problem, one.best) > rank(problem, other.best)


def split_decisions(
    answer: Answer, priced: Priced, whole: Refined | None, found: Refined | None
) -> tuple[Decision, ...]:
    """Say what was decided on each workload that could be split.

    Args:
        answer: The question, not split.
        priced: What was considered.
        whole: The fleet without a split; None if there is none.
        found: The fleet of the cheapest split, if it was searched for.
    """
    chosen = found is not None and is_better(answer.problem, found, whole)
    said = []
    for w in sorted({o.split.workload for o in priced.options}):
        mine = [o for o in priced.options if o.split.workload == w]
        said.append(_decision(answer, priced, mine, whole, found, chosen=chosen))
    for w, why in priced.refused:
        question = f"split {answer.problem.demands[w].id} by prompt length"
        said.append(Decision(question=question, answer="no", because=why, numbers={}))
    return tuple(said)


def _decision(
    answer: Answer,
    priced: Priced,
    options: list[Option],
    whole: Refined | None,
    found: Refined | None,
    *,
    chosen: bool,
) -> Decision:
    numbers: dict[str, float] = {}
    words = []
    best = priced.cheapest
    if priced.usd_whole is None:
        words.append("no fleet that serves all prompts alike was found")
    else:
        numbers["usd_per_hour_one_pool"] = priced.usd_whole
        words.append(f"without it the fleet costs {priced.usd_whole:.2f} USD/h")
    answered = "no"
    for option in options:
        at, usd, how = option.split.at_tokens, option.usd_per_hour, "by coarse measurements"
        if option is best and found is not None and found.best is not None:
            usd, how = found.best.fleet.usd_per_hour, "verified"
            answered = f"at {at:,} tokens" if chosen else "no"
        numbers[f"share_over_{at}"] = option.split.share
        numbers[f"prompt_tokens_over_{at}"] = option.split.tokens
        what = (
            f"prompts over {at:,} tokens ({option.split.share:.2%} of the requests,"
            f" {option.split.tokens:.0%} of the prompt tokens) in replicas of their own"
        )
        if usd is None:
            why = "no fleet" if option.problem else "short prompts would have to make up too much"
            words.append(f"{what}: {why}")
        else:
            numbers[f"usd_per_hour_split_at_{at}"] = usd
            words.append(f"{what}: {usd:.2f} USD/h, {how}")
    shown = whole.best or whole.last if whole is not None else None
    split = next((o.split for o in options if o is best), options[0].split)
    missed = (
        misses_up_to(answer, shown.fleet, split.workload, split.at_tokens)
        if shown is not None
        else None
    )
    if missed is not None:
        total = sum(missed.model_dump().values())
        waited = missed.queue + missed.prefill_interference + missed.decode_interference
        numbers["short_requests_missed_in_one_pool"] = total
        numbers["short_requests_missed_by_waiting_for_prefills_in_one_pool"] = waited
        words.append(
            f"without it {total:.2%} of the requests up to {split.at_tokens:,} tokens miss,"
            f" {waited:.2%} for waiting behind the prefills of others"
        )
    return Decision(
        question=f"split {answer.problem.demands[options[0].split.workload].id} by prompt length",
        answer=answered,
        because="; ".join(words),
        numbers=numbers,
    )
