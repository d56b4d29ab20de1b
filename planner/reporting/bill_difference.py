"""What the difference between two bills is made of, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.reporting.layout import grid, heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.fleet import Decision

MEANINGS: Final = {
    "whole_units_together": "together, units cannot be cut",
    "interference_removed": "gaps and prefills that others no longer stretch",
    "stranded_prefill_compute": "prefill replicas idle while prompts are few",
    "stranded_decode_compute": "decode steps without prompts to fill them",
    "suited_builds": "accelerator, degree and policy to suit one side",
    "stranded_prefill_hbm": "idle cache of the prefill side that decode lacks",
    "stranded_decode_hbm": "idle cache of the decode side that prefill lacks",
    "weight_replication": "the prefill side's weights lie where decode lacks cache",
    "ratio_rounding": "whole replicas on both sides are never quite in balance",
    "joint_deadlines": "two sides share the deadlines of a request",
    "hand_off": "from the end of prefill to the queue of decode",
    "exposed_transfer": "KV on its way, part of every TTFT",
    "whole_units_apart": "apart, groups cannot be cut",
}


def bill_differences(decisions: Sequence[Decision]) -> Iterator[RenderableType]:
    """Lay out the lines of every decision that has some; lines of nothing are left out."""
    for made in decisions:
        if not made.lines:
            continue
        total = sum(line.usd_per_hour for line in made.lines)
        rows = [
            (_words(line.item), signed(line.usd_per_hour), MEANINGS.get(line.item, ""))
            for line in made.lines
            if signed(line.usd_per_hour) != signed(0.0)
        ]
        rows.append(("difference", signed(total), ""))
        yield heading(f"{made.question[0].upper()}{made.question[1:]}: the difference per hour")
        yield grid(("line", ">USD/h", "why"), rows)


def signed(usd_per_hour: float) -> str:
    """Write a difference with its sign and two digits; no sign where that is nothing."""
    text = f"{usd_per_hour:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text


def _words(item: str) -> str:
    return item.replace("_", " ").replace("hbm", "HBM").replace("hand off", "hand-off")
