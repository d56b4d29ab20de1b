"""Regions in which workloads may be served, and replicas may stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.candidates.template import Build
    from planner.problem.resolve import Problem


def regions_of(problem: Problem, workloads: Iterable[int]) -> frozenset[str] | None:
    """Return the regions in which all of some workloads may be served; None: any."""
    found: frozenset[str] | None = None
    for w in workloads:
        own = problem.demands[w].regions
        if own is not None:
            found = own if found is None else found & own
    return found


def stands_in(problem: Problem, build: Build, regions: frozenset[str] | None) -> bool:
    """Tell whether nodes of some regions hold all accelerators of a build."""
    if regions is None or problem.topology is None:
        return True
    there = {d.shape.accelerator for d in problem.topology.domains if d.region in regions}
    return set(build.devices) <= there
