"""From scenario to plan: candidates, program, verification, refinement, proof."""

from planner.planning.answer import plan_scenario, study_of

__all__ = ["plan_scenario", "study_of"]
