"""Whether a scenario asks for a fleet by the hour, and what does not go with one."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.errors import Where
    from planner.problem.periods import Calendar
    from planner.scenario.load import LoadedScenario
    from planner.scenario.scenario import Scenario

LEEWAY: Final = 1 + 1e-9
"""Spans come of shares of a cycle: an hour may lack a few bits."""


def adapts(scenario: Scenario) -> bool:
    """Tell whether every period is to have a fleet of its own."""
    return scenario.traffic is not None and scenario.traffic.adapt == "hourly"


def shortest_span_s(calendar: Calendar) -> float:
    """Return how long the shortest stay in a period lasts, seconds."""
    cycle_s = len(calendar.slots) * calendar.slot_s
    times = Counter(slot.period for slot in calendar.slots)
    return min(calendar.periods[t].share * cycle_s / n for t, n in times.items())


def cannot_adapt(
    loaded: LoadedScenario, calendar: Calendar | None
) -> Iterator[tuple[Where | str, str]]:
    """Yield, with its place, what of the scenario a fleet by the hour cannot keep."""
    scenario = loaded.scenario
    if not adapts(scenario):
        for i, offer in enumerate(scenario.accelerators):
            if offer.terms is not None:
                what = "counts only with traffic.adapt: hourly; add that, or leave the terms out"
                yield loaded.at("accelerators", i, "terms"), f"accelerators.{i}.terms: {what}"
        return
    for i, workload in enumerate(scenario.workloads):
        for path, given in (
            (("completion_window",), workload.completion_window),
            (("slo", "attainment_over"), workload.slo.attainment_over),
        ):
            if given is not None:
                what = "does not go with traffic.adapt: hourly yet; leave one of them out"
                place = loaded.at("workloads", i, *path)
                yield place, f"workloads.{i}.{'.'.join(path)}: {what}"
    shortest_s = shortest_span_s(calendar) if calendar is not None else math.inf
    for i, offer in enumerate(scenario.accelerators):
        if offer.terms is not None and offer.terms.start_time > shortest_s * LEEWAY:
            what = (
                f"{offer.terms.start_time:g} s is longer than the shortest window of the traffic"
                f" ({shortest_s:g} s), before which it must have begun; state a shorter one"
            )
            place = loaded.at("accelerators", i, "terms", "start_time")
            yield place, f"accelerators.{i}.terms.start_time: {what}"
    yield from _beside(loaded)


def _beside(loaded: LoadedScenario) -> Iterator[tuple[Where | str, str]]:
    """Yield what stands beside workloads that does not go with a fleet by the hour."""
    scenario = loaded.scenario
    if scenario.uncertainty is not None:
        what = "uncertainty: does not go with traffic.adapt: hourly yet; leave one of them out"
        yield loaded.at("uncertainty"), what
    policy = scenario.policies.disaggregation
    if policy is not None and policy.link is None:
        at = ("policies", "disaggregation")
        what = "groups by the hour (traffic.adapt) need a link of their own; add link"
        yield loaded.at(*at), f"{'.'.join(at)}: {what}"
    for path, counted in (
        (("limits", "moves"), scenario.limits.moves),
        (("move_cost",), scenario.move_cost),
    ):
        if counted is not None:
            what = (
                "a fleet by the hour (traffic.adapt) starts and stops replicas every hour; leave"
                " one of them out"
            )
            yield loaded.at(*path), f"{'.'.join(path)}: {what}"
