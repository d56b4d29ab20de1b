"""Why a plan is as it is."""

from __future__ import annotations

from typing import Final

from planner.fleet.bill import BillLine
from planner.spec import Spec

TOGETHER: Final = "together with the others"
"""In the remedy of a limit that does not help alone."""


class SplitPart(Spec):
    """Short or long prompts of a workload."""

    id: str
    """Appears in the ids of the pools that serve it."""
    share: float
    """Of the workload's requests."""
    promise: float
    """Attainment that the search promised to this part so that the whole keeps its own."""


class SplitByLength(Spec):
    """A workload whose long prompts are routed to pools of their own."""

    workload: str
    up_to: int
    """Longest prompt, in tokens, that goes to the pools of the first part."""
    parts: tuple[SplitPart, ...]
    """Short prompts, then long ones."""


class Decision(Spec):
    """A question that the plan answers, and why so."""

    question: str
    answer: str
    because: str
    numbers: dict[str, float]
    lines: tuple[BillLine, ...] = ()
    """Where two ways are compared by their bills: what the difference is made of, summing to it."""


class Rejected(Spec):
    """A template that is not in the plan, and why."""

    template: str
    reason: str
    numbers: dict[str, float]


class LimitUse(Spec):
    """How much of a limit the plan uses, and what one more would be worth."""

    name: str
    used: float
    limit: float | None
    shadow_price_usd_per_hour: float | None
    by_relaxation_usd_per_hour: float | None = None
    """The same by the dual of the linear relaxation, in which fractions of units may be had."""
    note: str = ""
    """How the price was found, and where the relaxation misleads."""
    simulated: float | None = None
    """Of a link that groups share: what the simulation of the plan sent over it."""


class Infeasibility(Spec):
    """A limit or deadline that stands in the way.

    Read as ``limit: has ..., needs ...: fastest_reachable``, then the remedy.
    """

    limit: str
    has: str
    """A noun: what there is."""
    needs: str
    """A noun: what there would have to be."""
    fastest_reachable: str
    """The physical reason or another, where there is one."""
    remedy: str
    """What would mend it, alone."""


class Relaxation(Spec):
    """The smallest change of one lever that makes a fleet possible; planned for, and simulated."""

    lever: str
    """Dotted path of the scenario's value; several, where none is enough alone."""
    has: str
    needs: str
    settings: tuple[str, ...]
    """What ``--set`` takes to have a plan."""
    not_enough: tuple[tuple[str, ...], ...]
    """Settings of the next smaller change, with which there is no plan; one for each value that
    changes. Empty where something is allowed or not, and so has no size."""
