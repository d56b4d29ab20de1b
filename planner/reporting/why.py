"""The reasons of a plan as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting import relaxations
from planner.reporting.format import NONE, amount, count, significant, usd
from planner.reporting.layout import grid, heading, lines, plain
from planner.reporting.tables import decision, one_less, stands_in_the_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.explanation.why import Why
    from planner.fleet import LimitUse


def why_tables(why: Why) -> tuple[RenderableType, ...]:
    """Lay out the reasons: what stands in the way, what was decided, what was left out."""
    return tuple(_sections(why))


def _sections(why: Why) -> Iterator[RenderableType]:
    if why.infeasibility:
        yield plain("No fleet keeps every promise.", style="bold")
        yield lines(f"{stands_in_the_way(x)}. {x.remedy}" for x in why.infeasibility)
    if why.relaxations:
        yield heading(relaxations.HEADING)
        yield lines(map(relaxations.relaxation, why.relaxations))
    if why.chosen:
        yield plain(f"{why.question} is in the plan: {', '.join(why.chosen)}", style="bold")
    if why.decisions:
        yield heading("Decisions")
        yield lines(map(decision, why.decisions))
    if why.tight_limits:
        yield heading("Tight limits")
        yield lines(_limit(x) for x in why.tight_limits)
    if why.one_less:
        yield heading("With one unit less")
        yield lines(map(one_less, why.one_less))
    if why.rejected:
        yield heading(f"Left out: {count(len(why.rejected), 'template')}")
        yield grid(
            ("template", "reason", "numbers"),
            [(x.template, x.reason, _numbers(x.numbers)) for x in why.rejected],
        )
    if why.proof_covers:
        yield plain(f"\nThe proof covers: {why.proof_covers}")


def _limit(x: LimitUse) -> str:
    of = "" if x.limit is None else f" of {amount(x.limit)}"
    price = x.shadow_price_usd_per_hour
    worth = "" if not price else f"; one more is worth {usd(price)} per hour"
    return f"{x.name}: {amount(x.used)}{of} used{worth}"


def _numbers(numbers: dict[str, float]) -> str:
    return ", ".join(f"{k} {significant(v)}" for k, v in numbers.items()) or NONE
