"""Owning against renting: cash, present value, and where the verdict flips.

A year's payments count at its end. The present value of owning instead of renting is

    NPV = -K + sum_t (rent_t - run_t) / (1 + d)^t + residual K / (1 + d)^N

with K paid at the beginning, and rent_t = n p (1 + c)^(t-1) 8760 u of the hours that are used. Both
sides are linear in the utilisation u, so the break-even is a quotient.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from scipy.optimize import brentq

from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.studies.owning_question import OwningQuestion

HOURS_PER_YEAR: Final = 8760
MONTHS_PER_YEAR: Final = 12
SWING: Final = 0.2
"""By which share each assumption is moved up and down."""
HAIR: Final = 0.02
"""Of what is paid at the beginning: a present value nearer to nothing decides nothing."""
DEAREST: Final = 1e6
"""Times an assumption, up to which a flip is looked for."""

Verdict = Literal["own", "rent", "neither"]


class Year(Spec):
    """One year's cash, USD."""

    year: int
    rent_usd: float
    run_usd: float
    """Energy, hosting and staff of owned ones."""
    residual_usd: float
    cumulative_usd: float
    """Owning against renting since the beginning."""
    discounted_usd: float
    """The same at present value."""


class Assumption(Spec):
    """One assumption, moved alone."""

    path: str
    now: float
    low_npv_usd: float
    """At a fifth less."""
    high_npv_usd: float
    """At a fifth more, or as much more as there can be."""
    flips_at: float | None
    """Where owning and renting are worth the same; null where no value does that."""


class Owned(Spec):
    """The answer: both views side by side, and what would change it."""

    name: str
    capex_usd: float
    own_total_usd: float
    rent_total_usd: float
    saving_usd: float
    """Of owning, in cash; negative where renting is cheaper."""
    npv_usd: float
    """Present value of owning instead of renting."""
    payback_years: float | None
    """Until owning has paid for itself in cash; null if not within the years."""
    internal_rate: float | None
    """Discount rate at which both are worth the same; null where there is none from 0 to 10."""
    break_even_utilisation: float | None
    """In cash; null where no share of the hours does, up to all of them."""
    break_even_utilisation_discounted: float | None
    own_usd_per_used_hour: float
    """Present value of all cost over that of the hours used: what rent would have to be."""
    cash_verdict: Verdict
    verdict: Verdict
    """By present value; ``neither`` within a hair."""
    because: str
    years: tuple[Year, ...]
    tornado: tuple[Assumption, ...]
    """Largest swing first."""


def owning(question: OwningQuestion) -> Owned:
    """Weigh owning against renting."""
    years = _years(question)
    capex = capex_usd(question)
    saving, npv = years[-1].cumulative_usd, years[-1].discounted_usd
    plain, discounted = break_even(question, 0.0), break_even(question, question.discount_rate)
    run = sum(y.run_usd - y.residual_usd for y in years)
    return Owned(
        name=question.name,
        capex_usd=capex,
        own_total_usd=capex + run,
        rent_total_usd=sum(y.rent_usd for y in years),
        saving_usd=saving,
        npv_usd=npv,
        payback_years=_payback(years, capex),
        internal_rate=_internal_rate(question),
        break_even_utilisation=plain,
        break_even_utilisation_discounted=discounted,
        own_usd_per_used_hour=_per_hour(question, years, capex),
        cash_verdict=_verdict(saving, capex),
        verdict=_verdict(npv, capex),
        because=_because(question, saving, npv, capex, (plain, discounted)),
        years=years,
        tornado=_tornado(question),
    )


def capex_usd(question: OwningQuestion) -> float:
    """Return what is paid at the beginning, USD."""
    own = question.own
    return own.price * question.accelerators * (1 + own.spares) + own.network


def npv_usd(question: OwningQuestion, rate: float | None = None) -> float:
    """Return the present value of owning instead of renting, USD.

    Args:
        question: The question.
        rate: Discount rate a year; the question's where left out, 0 for cash.
    """
    d = question.discount_rate if rate is None else rate
    flows = [_rent(question, t) - _run(question) for t in range(1, question.years + 1)]
    flows[-1] += question.own.residual * capex_usd(question)
    return -capex_usd(question) + sum(f / (1 + d) ** t for t, f in enumerate(flows, start=1))


def break_even(question: OwningQuestion, rate: float) -> float | None:
    """Return the utilisation at which owning and renting are worth the same; None above 1.

    Args:
        question: The question.
        rate: Discount rate a year; 0 for cash.
    """
    none, all_ = (npv_usd(_with(question, "utilisation", u), rate) for u in (0.0, 1.0))
    if none >= 0:
        return 0.0
    return -none / (all_ - none) if all_ >= 0 else None


def _rent(question: OwningQuestion, year: int) -> float:
    hours = question.accelerators * HOURS_PER_YEAR * question.utilisation
    return hours * question.rent.price * (1 + question.rent.change) ** (year - 1)


def _run(question: OwningQuestion) -> float:
    own, used = question.own, question.utilisation
    kw = question.accelerators * own.power / 1000
    energy = kw * (used + own.idle_power * (1 - used)) * own.pue * HOURS_PER_YEAR * own.energy
    return energy + kw * own.hosting * MONTHS_PER_YEAR + own.staff


def _years(question: OwningQuestion) -> tuple[Year, ...]:
    capex = capex_usd(question)
    cash, worth, found = -capex, -capex, []
    for t in range(1, question.years + 1):
        back = question.own.residual * capex if t == question.years else 0.0
        rent, run = _rent(question, t), _run(question)
        cash += rent - run + back
        worth += (rent - run + back) / (1 + question.discount_rate) ** t
        found.append(
            Year(
                year=t,
                rent_usd=rent,
                run_usd=run,
                residual_usd=back,
                cumulative_usd=cash,
                discounted_usd=worth,
            )
        )
    return tuple(found)


def _payback(years: tuple[Year, ...], capex: float) -> float | None:
    before = -capex
    for year in years:
        if year.cumulative_usd >= 0:
            return year.year - 1 + before / (before - year.cumulative_usd)
        before = year.cumulative_usd
    return None


def _internal_rate(question: OwningQuestion) -> float | None:
    return _root(lambda rate: npv_usd(question, rate), 0.0, 10.0)


def _per_hour(question: OwningQuestion, years: tuple[Year, ...], capex: float) -> float:
    """Return the rent, as a path of the question's shape, at which both are worth the same."""
    d = question.discount_rate
    cost = capex + sum((y.run_usd - y.residual_usd) / (1 + d) ** y.year for y in years)
    rented = sum(y.rent_usd / (1 + d) ** y.year for y in years)
    return question.rent.price * cost / rented


def _verdict(worth: float, capex: float) -> Verdict:
    if abs(worth) <= HAIR * capex:
        return "neither"
    return "own" if worth > 0 else "rent"


def _because(
    question: OwningQuestion,
    saving: float,
    npv: float,
    capex: float,
    flips: tuple[float | None, float | None],
) -> str:
    cash = f"in cash {'owning' if saving > 0 else 'renting'} saves {abs(saving):,.0f} USD"
    view = (
        f"at {100 * question.discount_rate:.3g} % a year owning is worth {npv:+,.0f} USD against"
        " renting"
    )
    near = ""
    if _verdict(npv, capex) == "neither":
        side = "own" if npv > 0 else "rent"
        near = f": {side} by a hair, {abs(npv) / capex:.1%} of what is paid at the beginning"
    needed = ["never" if u is None else f"above {100 * u:.3g} % of the hours" for u in flips]
    return (
        f"{cash}; {view}{near.replace('%', ' %')}. Owning pays {needed[0]} in cash,"
        f" {needed[1]} discounted; here it is {100 * question.utilisation:.3g} %"
    )


PATHS: Final = (
    "utilisation",
    "discount_rate",
    "own.price",
    "own.network",
    "own.residual",
    "own.power",
    "own.pue",
    "own.energy",
    "own.hosting",
    "own.staff",
    "rent.price",
    "rent.change",
)
MOST: Final = {"utilisation": 1.0, "discount_rate": 10.0, "own.residual": 1.0, "rent.change": 9.0}
LEAST: Final = {"own.pue": 1.0, "rent.change": -0.99}


def _tornado(question: OwningQuestion) -> tuple[Assumption, ...]:
    """Move every assumption that is not nothing by a fifth, and find where it flips the verdict."""
    found = []
    for path in PATHS:
        now = _value(question, path)
        if now == 0:
            continue
        low, high = sorted((now * (1 - SWING), now * (1 + SWING)))
        ends = [
            npv_usd(_with(question, path, min(max(x, LEAST.get(path, x)), MOST.get(path, x))))
            for x in (low, high)
        ]
        found.append(
            Assumption(
                path=path,
                now=now,
                low_npv_usd=ends[0],
                high_npv_usd=ends[1],
                flips_at=_flip(question, path, now),
            )
        )
    return tuple(sorted(found, key=lambda a: (-abs(a.high_npv_usd - a.low_npv_usd), a.path)))


def _flip(question: OwningQuestion, path: str, now: float) -> float | None:
    def worth(value: float) -> float:
        return npv_usd(_with(question, path, value))

    low, high = LEAST.get(path, 0.0), MOST.get(path, now * DEAREST)
    return _root(worth, low, high)


def _root(worth: Callable[[float], float], low: float, high: float) -> float | None:
    """Return where a monotone function is nothing; None if it is not between two values."""
    a, b = worth(low), worth(high)
    if a == 0:
        return low
    if not (math.isfinite(a) and math.isfinite(b)) or (a > 0) == (b > 0):
        return None
    return float(brentq(worth, low, high, xtol=1e-12, rtol=1e-12))


def _value(question: OwningQuestion, path: str) -> float:
    part, _, key = path.rpartition(".")
    holder = getattr(question, part) if part else question
    return float(getattr(holder, key))


def _with(question: OwningQuestion, path: str, value: float) -> OwningQuestion:
    part, _, key = path.rpartition(".")
    if not part:
        return question.model_copy(update={key: value})
    return question.model_copy(
        update={part: getattr(question, part).model_copy(update={key: value})}
    )
