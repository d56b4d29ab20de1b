"""From scenario to plan: candidates, program, verification, refinement, proof."""

from planner.planning.answer import plan_scenario, study_of
from planner.planning.replay import simulate_plan

__all__ = ["plan_scenario", "simulate_plan", "study_of"]
