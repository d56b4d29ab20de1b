"""What every question states beside its traffic: what is wanted, and how hard to try."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planner.spec import Spec
from planner.units import Seconds, Share

Objective = Literal["max_goodput_per_usd", "min_cost", "max_goodput"]

Goal = Literal["fewest_pools", "fewest_moves", "lowest_power"]
"""``fewest_pools``: templates in the plan; ``fewest_moves``: units that differ from the current
plan; ``lowest_power``: board power of all accelerators."""


def version_as_text(value: Any) -> Any:
    """Take ``1.0`` for ``"1.0"``: a version without quotation marks is read as a number."""
    return str(value) if isinstance(value, float) else value


class Solver(Spec):
    """How hard to try."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of every random draw; same seed, same plan."""

    gap: Annotated[Share, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.001
    """Relative gap to the best bound at which the program counts as solved."""

    name: Annotated[str, Field(min_length=1, max_length=40)] = "highs"
    """Which solver: ``highs``, or one that PuLP knows and that is installed, such as
    ``PULP_CBC_CMD``. Whatever it answers is checked."""

    time_limit: Seconds = 300.0
    """When to stop with the best plan so far."""

    evidence: Literal["full", "brief"] = "full"
    """What is found out beside fleet, proof and promises: ``full`` also plans and simulates what
    else could have been (other demand, arrivals and settings, rivals, prices, a hit rate of 0);
    ``brief`` leaves that out, for studies of many plans. The fleet is the same."""
