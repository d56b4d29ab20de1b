"""Owning against renting as tables: the verdict first, cash beside present value."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from planner.reporting.format import NONE, significant
from planner.reporting.layout import grid, heading, plain
from planner.reporting.svg import Axis, Line, line_chart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.studies.owning import Owned

WORDS = {"own": "own", "rent": "rent", "neither": "a toss-up"}


def owning_tables(found: Owned) -> Iterator[RenderableType]:
    """Lay out the answer, readable at 100 columns."""
    yield plain(f"{found.name}: {WORDS[found.verdict]}\n", style="bold")
    yield plain(f"{found.because}.\n")
    plainly, discounted = found.break_even_utilisation, found.break_even_utilisation_discounted
    rows = (
        ("owning, all of it", _usd(found.own_total_usd), ""),
        ("renting", _usd(found.rent_total_usd), ""),
        ("saved by owning", _usd(found.saving_usd), _usd(found.npv_usd)),
        ("verdict", WORDS[found.cash_verdict], WORDS[found.verdict]),
        ("owning pays above a utilisation of", _share(plainly), _share(discounted)),
        ("paid back after, years", _number(found.payback_years), ""),
        ("internal rate of return", "", _share(found.internal_rate)),
        ("owning, USD per hour of use", "", significant(found.own_usd_per_used_hour)),
    )
    yield grid(("", ">cash", ">present value"), rows)
    yield heading("Year by year, USD")
    yield grid(
        (">year", ">renting", ">running own", ">sold", ">saved so far", ">at present value"),
        [
            (
                str(y.year),
                _usd(y.rent_usd),
                _usd(y.run_usd),
                _usd(y.residual_usd),
                _usd(y.cumulative_usd),
                _usd(y.discounted_usd),
            )
            for y in found.years
        ],
    )
    yield heading("Each assumption a fifth lower and higher: present value of owning, USD")
    yield grid(
        ("assumption", ">now", ">- 20 %", ">+ 20 %", ">flips at"),
        [
            (
                a.path,
                significant(a.now),
                _usd(a.low_npv_usd),
                _usd(a.high_npv_usd),
                "never" if a.flips_at is None else significant(a.flips_at, 4),
            )
            for a in found.tornado
        ],
    )


def owning_csv(found: Owned) -> str:
    """Write a row per year."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    names = list(type(found.years[0]).model_fields)
    rows.writerow(names)
    for year in found.years:
        rows.writerow([getattr(year, name) for name in names])
    return text.getvalue()


def owning_svg(found: Owned) -> str:
    """Draw what owning has saved, year by year, in cash and at present value."""
    cash = [(0.0, -found.capex_usd), *((float(y.year), y.cumulative_usd) for y in found.years)]
    worth = [(0.0, -found.capex_usd), *((float(y.year), y.discounted_usd) for y in found.years)]
    both = [value for _, value in cash + worth]
    last = float(len(found.years))
    return line_chart(
        f"{found.name}: saved by owning",
        Axis("years", 0.0, last),
        Axis("USD", min(both), max(*both, 0.0)),
        (
            Line("in cash", cash),
            Line("at present value", worth),
            Line("", [(0.0, 0.0), (last, 0.0)], dashed=True),
        ),
    )


def _usd(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"
