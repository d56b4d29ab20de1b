"""The reasons of a plan as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting import relaxations
from planner.reporting.bill_difference import bill_differences
from planner.reporting.format import NONE, amount, count, rate, share, significant, usd
from planner.reporting.layout import grid, heading, lines, plain
from planner.reporting.settings import settings_tables
from planner.reporting.tables import decision, one_less, stands_in_the_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.explanation.why import Why
    from planner.fleet import LimitUse, PriceRange, RunnerUp, SearchStep


def why_tables(why: Why) -> tuple[RenderableType, ...]:
    """Lay out the reasons: what stands in the way, what was decided, what was left out."""
    return tuple(_sections(why))


def _sections(why: Why) -> Iterator[RenderableType]:
    yield from _no_fleet(why)
    if why.chosen:
        yield plain(f"{why.question} is in the plan: {', '.join(why.chosen)}", style="bold")
    if why.verdict:
        yield plain(why.verdict, style="bold")
    if why.decisions:
        yield heading("Decisions")
        yield lines(map(decision, why.decisions))
    yield from bill_differences(why.decisions)
    if why.tight_limits:
        yield heading("Tight limits")
        yield lines(_limit(x) for x in why.tight_limits)
    if why.one_less:
        yield heading("With one unit less")
        yield lines(map(one_less, why.one_less))
    yield from settings_tables(why.settings, every=True)
    yield from _alternatives(why)
    if why.steps:
        yield heading("How the best ratio was closed in on (Dinkelbach), requests per dollar")
        yield grid(
            (">step", ">asked of a dollar", ">goodput", ">per hour", ">found", ">at most"),
            [_step(i, x) for i, x in enumerate(why.steps, start=1)],
        )
    if why.rejected:
        yield heading(f"Left out: {count(len(why.rejected), 'template')}")
        yield grid(
            ("template", "reason", "numbers"),
            [(x.template, x.reason, _numbers(x.numbers)) for x in why.rejected],
        )
    if why.proof_covers:
        yield plain(f"\nThe proof covers: {why.proof_covers}")


def _no_fleet(why: Why) -> Iterator[RenderableType]:
    if why.infeasibility:
        yield plain("No fleet keeps every promise.", style="bold")
        yield lines(f"{stands_in_the_way(x)}. {x.remedy}" for x in why.infeasibility)
    if why.relaxations:
        yield heading(relaxations.HEADING)
        yield lines(map(relaxations.relaxation, why.relaxations))


def _alternatives(why: Why) -> Iterator[RenderableType]:
    if why.runners_up:
        yield heading("Runners-up, by measured operating points")
        yield lines(map(_runner_up, why.runners_up))
    if why.price_ranges:
        yield heading("Prices between which the plan stays the best, by measured points")
        yield grid(
            ("accelerator", ">now", ">from", ">to", "below it", "above it"),
            [_range(x) for x in why.price_ranges],
        )


def _runner_up(x: RunnerUp) -> str:
    if x.usd_per_hour is None or x.loses is None:
        return f"without {x.without}: no fleet within the limits"
    what = f"{usd(x.usd_per_hour)} per hour, {share(x.loses)} worse: {', '.join(x.pools)}"
    return f"without {x.without}: {what}"


def _range(x: PriceRange) -> tuple[str, ...]:
    low = NONE if x.low is None else usd(x.low)
    high = NONE if x.high is None else usd(x.high)
    below, above = ", ".join(x.below) or NONE, ", ".join(x.above) or NONE
    return x.accelerator, usd(x.usd_per_hour), low, high, below, above


def _step(number: int, x: SearchStep) -> tuple[str, ...]:
    cost = x.cost_usd_per_hour
    found = f"{x.goodput_rps * 3600 / cost:,.2f}" if cost else NONE
    most = NONE if x.bound is None else f"{x.bound:,.2f}"
    return str(number), f"{x.theta:,.2f}", rate(x.goodput_rps), usd(cost), found, most


def _limit(x: LimitUse) -> str:
    of = "" if x.limit is None else f" of {amount(x.limit)}"
    price = x.shadow_price_usd_per_hour
    worth = "" if not price else f"; one more is worth {usd(price)} per hour"
    note = f"; {x.note}" if x.note else ""
    return f"{x.name}: {amount(x.used)}{of} used{worth}{note}"


def _numbers(numbers: dict[str, float]) -> str:
    return ", ".join(f"{k} {significant(v)}" for k, v in numbers.items()) or NONE
