"""Inner loops over plain numbers. Nothing here knows what a scenario is."""

from planner.kernels.clients import simulate_capped, simulate_closed_loop, simulate_users
from planner.kernels.compiled import COMPILED, STATUS
from planner.kernels.pool import Router, simulate_pool
from planner.kernels.records import ClientRecords, Gaps, Law, Limits, Records, Sources, Stages
from planner.kernels.stream import Stream
from planner.kernels.tally import ClassSummary, Deadlines, Histogram, StreamSummary

__all__ = [
    "COMPILED",
    "STATUS",
    "ClassSummary",
    "ClientRecords",
    "Deadlines",
    "Gaps",
    "Histogram",
    "Law",
    "Limits",
    "Records",
    "Router",
    "Sources",
    "Stages",
    "Stream",
    "StreamSummary",
    "simulate_capped",
    "simulate_closed_loop",
    "simulate_pool",
    "simulate_users",
]
