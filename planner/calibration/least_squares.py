"""Robust least squares through a simulator, whose answers are a little rough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import least_squares

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STEP: Final = 0.1
"""Difference by which slopes are taken: large against the roughness of simulated means."""


def solved(
    cost: Callable[[Floats], Floats], size: int, rounds: int, most: Floats | None = None
) -> Any:
    """Minimise soft-L1 of residuals over parameters whose prior has mean 0 and unit spread.

    Args:
        cost: Residuals of a parameter vector, the priors' included.
        size: Number of parameters.
        rounds: Most evaluations of the Jacobian.
        most: Upper bounds; default none.

    Returns:
        What ``scipy.optimize.least_squares`` does: ``x``, ``jac``, ``fun``.
    """

    def slopes(x: Floats) -> Floats:
        up = np.array([cost(x + STEP * unit) for unit in np.eye(size)])
        down = np.array([cost(x - STEP * unit) for unit in np.eye(size)])
        return np.asarray((up - down).T / (2 * STEP))

    high = np.full(size, np.inf) if most is None else most
    return least_squares(
        cost,
        np.minimum(np.zeros(size), high - STEP),
        jac=slopes,
        loss="soft_l1",
        bounds=(np.full(size, -np.inf), high),
        max_nfev=rounds,
    )
