"""Which templates are worth measuring: physics first, then cost by a coarse capacity.

Nothing is dropped for a bad guess alone. A template goes only if even its optimistic
mean-field bound costs more per request than another template's simulated capacity does, and
the best few of every accelerator stay whatever they cost, so that "why not X?" has an answer.
So do those of which the load at hand takes the cheapest whole replicas: a large replica may be the
cheapest per request at its capacity and far too much for a small load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.candidates.frontier import setup_of
from planner.candidates.meanfield import coarse_bounds, moments
from planner.candidates.physics import computed_lengths
from planner.candidates.template import Removed, Template
from planner.simulation.capacity import coarse_capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from planner.candidates.meanfield import CoarseCapacity
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

MARGIN: Final = 1.15
"""How much dearer per request, by its optimistic bound, a template must be to be left out."""
FEW_PER_ACCELERATOR: Final = 2
"""Templates of each accelerator that stay for comparison."""
CLOSE: Final = 1.5
"""How much dearer per request, alone in a pool of one, a template may be and go on."""
POLICIES_PER_HARDWARE: Final = 2
"""Policies of the same accelerator and degree that go on, of those that schedule alike; more if
they cannot be told apart."""
COARSE_ERROR: Final = 1.06
"""Policies of the same hardware whose coarse costs differ by less cannot be told apart yet."""
MOST: Final = 10
"""Templates for the same workloads that go on to be measured, beside those for comparison."""
KEEPS_AT_NO_LOAD: Final = "keeps the promise at no load"
"""Why a template is left out whose promise a simulated replica breaks however small the load."""


@dataclass(frozen=True, slots=True)
class Screened:
    """A template with its coarse capacity, requests per second of one replica alone."""

    template: Template
    bound: CoarseCapacity
    capacity_rps: float

    @property
    def usd_per_request(self) -> float:
        """Price of a replica over its coarse capacity."""
        return self.template.build.usd_per_hour / 3600 / self.capacity_rps

    @property
    def usd_per_hour(self) -> float:
        """Price of the whole replicas that carry the template's load at its coarse capacity."""
        return _whole_usd(self.template, self.capacity_rps)


def _whole_usd(template: Template, capacity_rps: float) -> float:
    return math.ceil(sum(template.mix_rps) / capacity_rps) * template.build.usd_per_hour


def bounds_of(
    study: Study, templates: Sequence[Template], tpot_s: Sequence[float]
) -> list[CoarseCapacity]:
    """Return the optimistic mean-field load of one replica of each template.

    Args:
        study: Draws of the problem.
        templates: All serve the same workloads in the same mix.
        tpot_s: TPOT deadline of each workload of the problem.
    """
    if not templates:
        return []
    prompt, output = computed_lengths(study, templates[0].build, templates[0].mix_rps)
    budgets = {t.build.max_num_batched_tokens for t in templates}
    means = {budget: moments(prompt, output, budget) for budget in budgets}
    return coarse_bounds(
        [t.build for t in templates],
        [means[t.build.max_num_batched_tokens] for t in templates],
        [min(tpot_s[w] for w in t.serves) for t in templates],
    )


def screen(
    study: Study,
    templates: Sequence[Template],
    tpot_s: Sequence[float],
    router: Routing,
    effort: Effort,
    check: Callable[[], None] = lambda: None,
    stays: Collection[str] = (),
) -> tuple[list[Screened], list[Removed]]:
    """Choose the templates to measure among those that serve the same workloads.

    Args:
        study: Draws, deadlines and promises of the problem.
        templates: All serve the same workloads in the same mix.
        tpot_s: TPOT deadline of each workload of the problem.
        router: Kept for the pool that is simulated; one replica needs none.
        effort: How much to simulate.
        check: Called before each run; raises where the time is over.
        stays: Names of templates that are measured however dear they are.

    Returns:
        Those that stay, cheapest first, and those left out with the reason.
    """
    removed: list[Removed] = []
    bounded: list[tuple[float, Template, CoarseCapacity]] = []
    for template, bound in zip(templates, bounds_of(study, templates, tpot_s), strict=True):
        if bound.load_rps <= 0:
            removed.append(Removed(template.id, f"{bound.limited_by} allows no load at all", {}))
            continue
        bounded.append((template.build.usd_per_hour / 3600 / bound.load_rps, template, bound))
    bounded.sort(key=lambda item: (item[0], item[1].id))
    best = least = float("inf")
    seen: dict[str, int] = {}
    kept: list[Screened] = []
    for usd, template, bound in bounded:
        check()
        accelerator = template.build.accelerator
        dear = usd > best * MARGIN and _whole_usd(template, bound.load_rps) >= least
        few = seen.get(accelerator, 0) < FEW_PER_ACCELERATOR or template.id in stays
        if dear and not few:
            removed.append(_dearer(template, usd, best))
            continue
        setup = setup_of(template.build, 1, router)
        found = coarse_capacity(
            study, setup, template.mix_rps, 0.75 * bound.load_rps, effort.screen_requests, check
        )
        if found <= 0:
            removed.append(Removed(template.id, KEEPS_AT_NO_LOAD, {}))
            continue
        one = Screened(template, bound, found)
        kept.append(one)
        seen[accelerator] = seen.get(accelerator, 0) + 1
        best, least = min(best, one.usd_per_request), min(least, one.usd_per_hour)
    return _the_best(kept, removed, stays), removed


def _dearer(template: Template, usd: float, best: float) -> Removed:
    return Removed(
        template.id,
        f"at best {usd / best - 1:.0%} dearer per request than another template",
        {"usd_per_thousand_at_best": usd * 1e3, "usd_per_thousand_of_the_best": best * 1e3},
    )


def _the_best(
    kept: list[Screened], removed: list[Removed], stays: Collection[str]
) -> list[Screened]:
    """Keep the cheapest per request, the few of each accelerator, and every smaller unit."""
    kept.sort(key=lambda s: (s.usd_per_request, s.template.id))
    chosen: list[Screened] = []
    counts: dict[str, int] = {}
    hardware: dict[tuple[str, str], int] = {}
    cheapest: dict[tuple[str, str], float] = {}
    least = min((one.usd_per_hour for one in kept), default=0.0)
    for one in kept:
        build = one.template.build
        kind = build.hardware, build.scheduling_policy
        per_accelerator = counts.get(build.accelerator, 0)
        same = hardware.get(kind, 0)
        close = one.usd_per_request <= CLOSE * kept[0].usd_per_request or one.usd_per_hour <= least
        fresh = per_accelerator < FEW_PER_ACCELERATOR and not same
        first = cheapest.setdefault(kind, one.usd_per_request)
        rival = same < POLICIES_PER_HARDWARE or one.usd_per_request <= COARSE_ERROR * first
        wanted = len(chosen) < MOST and close and rival
        if fresh or wanted or one.template.id in stays:
            chosen.append(one)
            counts[build.accelerator] = per_accelerator + 1
            hardware[kind] = same + 1
        else:
            removed.append(
                Removed(
                    one.template.id,
                    f"{one.usd_per_request / kept[0].usd_per_request - 1:.0%} dearer per request"
                    " by a coarse simulation of one replica, or another policy of the same"
                    " hardware is better",
                    {
                        "usd_per_thousand": one.usd_per_request * 1e3,
                        "usd_per_thousand_of_the_best": kept[0].usd_per_request * 1e3,
                    },
                )
            )
    return chosen
