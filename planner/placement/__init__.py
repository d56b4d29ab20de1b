"""Which devices of which node run every replica."""

from planner.placement.check import broken_promises
from planner.placement.place import place, refusal
from planner.placement.wanted import NotPlaced, Placed, Placement, Short, Wanted

__all__ = [
    "NotPlaced",
    "Placed",
    "Placement",
    "Short",
    "Wanted",
    "broken_promises",
    "place",
    "refusal",
]
