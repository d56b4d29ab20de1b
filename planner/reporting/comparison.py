"""The comparison of two fleets as tables: the verdict first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, rate, share, significant, usd
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from planner.explanation.compare import Comparison, Side


def comparison_tables(comparison: Comparison) -> tuple[RenderableType, ...]:
    """Lay out a comparison: verdict, the two sides, the rule, what would flip it."""
    one, two = comparison.one, comparison.two
    if comparison.winner == "neither":
        verdict = f"Neither wins: {comparison.because}.\n"
    else:
        best = one if comparison.winner == "one" else two
        verdict = f"{best.row.name} wins: {comparison.because}.\n"
    parts: list[RenderableType] = [plain(verdict, style="bold"), _sides(one, two)]
    parts.append(plain(f"\n{_rule(comparison)}"))
    if comparison.flips:
        parts += [heading("What would flip it"), lines(f.sentence for f in comparison.flips)]
    return tuple(parts)


def _sides(one: Side, two: Side) -> Table:
    rows = (
        ("compliant goodput", [rate(s.goodput_rps) for s in (one, two)]),
        ("USD per thousand compliant", [_price(s) for s in (one, two)]),
        ("compliant requests per USD", [_per_usd(s) for s in (one, two)]),
        ("attainment", [share(s.row.attainment) for s in (one, two)]),
        ("raw throughput", [rate(s.row.rate_rps) for s in (one, two)]),
        ("cost per hour", [usd(s.row.cost_usd_per_hour) for s in (one, two)]),
        ("MFU (reported, decides nothing)", [share(s.row.mfu) for s in (one, two)]),
    )
    headers = ("", f">{one.row.name}", f">{two.row.name}")
    return grid(headers, [(name, *values) for name, values in rows])


def _price(side: Side) -> str:
    price = side.usd_per_thousand_compliant
    return "∞ (none is compliant)" if price is None else usd(price)


def _per_usd(side: Side) -> str:
    if side.goodput_rps == 0:
        return "0"
    per_usd = side.compliant_requests_per_usd
    return "∞ (free)" if per_usd is None else significant(per_usd)


def _rule(comparison: Comparison) -> str:
    one, two = comparison.one.row.name, comparison.two.row.name
    ratio, level = comparison.attainment_ratio, comparison.break_even_ratio
    a = NONE if ratio is None else f"{ratio:.4f}"
    b = NONE if level is None else f"{level:.4f}"
    return (
        f"Rule: {two} loses to {one} while s2/s1 < (R1/R2)(C2/C1), R being the raw throughput, "
        f"s the attainment and C the cost. Here s2/s1 is {a} and the break-even {b}."
    )
