"""Plan LLM inference fleets: the most compliant goodput per dollar.

Names are imported when first used, so that ``import planner`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.api import (
        capacity,
        compare,
        diff,
        explain,
        load,
        load_table,
        plan,
        remembering,
        report,
        simulate,
    )
    from planner.errors import (
        InfeasibleError,
        InputError,
        LimitReachedError,
        PlannerError,
        SolverError,
    )
    from planner.fleet import FleetPlan
    from planner.scenario.scenario import Scenario

__all__ = [
    "FleetPlan",
    "InfeasibleError",
    "InputError",
    "LimitReachedError",
    "PlannerError",
    "Scenario",
    "SolverError",
    "capacity",
    "compare",
    "diff",
    "explain",
    "load",
    "load_table",
    "plan",
    "remembering",
    "report",
    "simulate",
]

_HOMES: Final = {
    "FleetPlan": "planner.fleet",
    "InfeasibleError": "planner.errors",
    "InputError": "planner.errors",
    "LimitReachedError": "planner.errors",
    "PlannerError": "planner.errors",
    "Scenario": "planner.scenario.scenario",
    "SolverError": "planner.errors",
    "capacity": "planner.api",
    "compare": "planner.api",
    "diff": "planner.api",
    "explain": "planner.api",
    "load": "planner.api",
    "load_table": "planner.api",
    "plan": "planner.api",
    "remembering": "planner.api",
    "report": "planner.api",
    "simulate": "planner.api",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
