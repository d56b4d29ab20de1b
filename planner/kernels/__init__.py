"""Inner loops over plain numbers. Nothing here knows what a scenario is."""

from planner.kernels.compiled import COMPILED, STATUS
from planner.kernels.pool import Router, simulate_pool
from planner.kernels.records import Law, Limits, Records

__all__ = ["COMPILED", "STATUS", "Law", "Limits", "Records", "Router", "simulate_pool"]
