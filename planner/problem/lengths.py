"""Length laws as numbers: what a draw of requests is made from.

Two forms. A joint law is a list of cells, each a rectangle of (prompt, output) lengths with a
weight; a trace is the case in which every cell is one point. An independent law has two
marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class JointLengths:
    """Cells of (prompt, output) lengths in tokens; bounds are inclusive. Arrays of shape (m,).

    Raises:
        ValueError: There is no cell with a weight.
    """

    prompt_low: NDArray[np.int64]
    prompt_high: NDArray[np.int64]
    output_low: NDArray[np.int64]
    output_high: NDArray[np.int64]
    weight: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.weight.size == 0 or not self.weight.sum() > 0:
            raise ValueError("there are no requests in it")


@dataclass(frozen=True, slots=True)
class LengthMarginal:
    """One length: lognormal with this mean (tokens) and coefficient of variation; 0 is fixed."""

    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class IndependentLengths:
    """Prompt and output lengths that know nothing of each other."""

    prompt: LengthMarginal
    output: LengthMarginal


LengthLaw = JointLengths | IndependentLengths
