"""How fast a fleet by the hour may change: what it uses of that, and what one more is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import LimitUse
from planner.milp import choose

if TYPE_CHECKING:
    from planner.milp import Choice, Instance

PRICING_S: Final = 10.0
"""For one solve with a ramp of one more."""


def ramp_uses(data: Instance, choice: Choice) -> tuple[LimitUse, ...]:
    """List the ramps of a solved program over periods; one that is used up has a price.

    Args:
        data: The instance, with its terms.
        choice: The fleets by period that were chosen.
    """
    terms = data.terms
    if terms is None:
        return ()
    uses = []
    for g, most in terms.ramp.items():
        used = max(
            (
                abs(_used(data, choice, g, b) - _used(data, choice, g, a))
                for a, b in data.order().steps()
            ),
            default=0,
        )
        price = _one_more(data, choice, g) if used >= most else None
        uses.append(
            LimitUse(
                name=f"ramp of {g}, accelerators from a window to the next",
                used=float(used),
                limit=float(most),
                shadow_price_usd_per_hour=price,
                note="" if price is None else "priced by solving again with one more",
            )
        )
    return tuple(uses)


def _used(data: Instance, choice: Choice, g: str, t: str) -> int:
    """Return accelerators in use in a period."""
    return sum(n * data.held(j, g) for (j, _, of), n in choice.units_in.items() if of == t)


def _one_more(data: Instance, choice: Choice, g: str) -> float | None:
    """Return USD/h that one more accelerator per window saves; None if that is not known."""
    terms = data.terms
    assert terms is not None  # it has ramps
    looser = replace(data, terms=replace(terms, ramp={**terms.ramp, g: terms.ramp[g] + 1}))
    try:
        other = choose(looser, choice.name, time_limit_s=PRICING_S, gap=1e-4)
    except (InfeasibleError, LimitReachedError):
        return None
    if choice.name == "max_goodput_per_usd" and other.objective > 0:
        return max(choice.cost_usd_per_hour * (1 - choice.objective / other.objective), 0.0)
    return max(choice.cost_usd_per_hour - other.cost_usd_per_hour, 0.0)
