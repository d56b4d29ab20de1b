"""A pool whose steps take longer or shorter than its curve says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.kernels import Law
    from planner.simulation.pool import PoolSetup


def slowed(setup: PoolSetup, factor: float, prefill_factor: float | None = None) -> PoolSetup:
    """Return a pool whose every step takes ``factor`` times as long; links and paths stay.

    Args:
        setup: The pool.
        factor: Of its steps; of groups, of those of the decode side.
        prefill_factor: Of the prefill side of groups; ``factor`` if left out.
    """
    group = setup.group
    if group is not None:
        prefill = slowed_law(
            group.prefill_law, factor if prefill_factor is None else prefill_factor
        )
        group = replace(group, prefill_law=prefill)
    return replace(setup, law=slowed_law(setup.law, factor), group=group)


def slowed_law(law: Law, factor: float) -> Law:
    """Return a law whose every coefficient is multiplied, to whole picoseconds again."""
    if factor == 1:
        return law
    table = np.rint(law.tokens_ps * factor).astype(np.int64)
    table[1:] = np.maximum(table[1:], 1)  # the kernels' clock must move
    table.flags.writeable = False
    return law._replace(
        tokens_ps=table,
        square_ps_2p15=round(law.square_ps_2p15 * factor),
        context_ps=round(law.context_ps * factor),
        sequence_ps=round(law.sequence_ps * factor),
        chunk_context_ps=round(law.chunk_context_ps * factor),
    )
