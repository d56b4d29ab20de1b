"""One question asked many times, with values of the scenario changed."""

from planner.studies.axes import Axis, axes_of, axis_of
from planner.studies.flips import Bounds, Flip, FlipCell, FlipMap, flip_map

__all__ = ["Axis", "Bounds", "Flip", "FlipCell", "FlipMap", "axes_of", "axis_of", "flip_map"]
