"""Whether a scenario asks for a fleet by the hour, and what does not go with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.errors import Where
    from planner.scenario.load import LoadedScenario
    from planner.scenario.scenario import Scenario


def adapts(scenario: Scenario) -> bool:
    """Tell whether every period is to have a fleet of its own."""
    return scenario.traffic is not None and scenario.traffic.adapt == "hourly"


def cannot_adapt(loaded: LoadedScenario) -> Iterator[tuple[Where | str, str]]:
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
    if scenario.uncertainty is not None:
        what = "does not go with traffic.adapt: hourly yet; leave one of them out"
        yield loaded.at("uncertainty"), f"uncertainty: {what}"
