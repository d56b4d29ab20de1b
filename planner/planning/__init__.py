"""From scenario to plan: candidates, program, verification, refinement, proof.

Names are imported when first used: a plan by measured capacities needs no simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.planning.answer import plan_scenario
    from planner.planning.question import plan_question
    from planner.planning.replay import simulate_plan
    from planner.planning.study import study_of

__all__ = ["plan_question", "plan_scenario", "simulate_plan", "study_of"]

_HOMES: Final = {
    "plan_question": "planner.planning.question",
    "plan_scenario": "planner.planning.answer",
    "simulate_plan": "planner.planning.replay",
    "study_of": "planner.planning.study",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'planner.planning' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
