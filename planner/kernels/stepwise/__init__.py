"""The serving engine, step by step: one loop iteration per engine step, every option.

A literal simulator of the engines that the planner plans for. It is the oracle of the fast
kernel, and the path for whatever that cannot skip over. Time is a whole number of ticks of
any length; nothing here knows units, files or randomness. ``docs/simulation.md`` states the
semantics as numbered laws.
"""

from planner.kernels.stepwise.law import StepLaw, StepWork, affine
from planner.kernels.stepwise.options import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
)
from planner.kernels.stepwise.records import Outcome, Record
from planner.kernels.stepwise.request import Job
from planner.kernels.stepwise.run import StepLimitError, simulate
from planner.kernels.stepwise.stages import Stages

__all__ = [
    "Colocated",
    "Disaggregated",
    "EngineOptions",
    "Job",
    "LinkOptions",
    "Outcome",
    "Record",
    "RouterOptions",
    "Stages",
    "StepLaw",
    "StepLimitError",
    "StepWork",
    "affine",
    "simulate",
]
