"""Two fleets side by side: what a compliant request costs, and what would flip the verdict.

Per second a fleet serves ``R s`` compliant requests and costs ``C``. Fleet two loses to
fleet one when ``R2 s2 / C2 < R1 s1 / C1``, that is when

    s2 / s1 < (R1 / R2) (C2 / C1) = the break-even ratio.

Raw throughput enters only as an offer of requests; MFU stands beside and decides nothing.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, Literal

from planner.errors import InputError, nearest
from planner.fleet import FleetPlan, read_plan
from planner.spec import Spec
from planner.units import PRICE, RATE, read_share

Winner = Literal["one", "two", "neither"]

TIE: Final = 1e-9
"""Relative difference of two costs below which neither wins."""

KEYS: Final = ("name", "rate", "attainment", "cost", "mfu")
SECONDS_PER_HOUR: Final = 3600.0


class Row(Spec):
    """One fleet, as far as the comparison needs it."""

    name: str
    rate_rps: float
    """Raw throughput or offered load: requests per second, compliant or not."""
    attainment: float
    """Compliant share of them, joint over all deadlines."""
    cost_usd_per_hour: float
    mfu: float | None = None


class Side(Spec):
    """One fleet with what follows from its row."""

    row: Row
    goodput_rps: float
    """Compliant requests per second: rate times attainment."""
    usd_per_thousand_compliant: float | None
    """``null`` where no request is compliant: no price buys one."""
    compliant_requests_per_usd: float | None
    """``null`` where compliant requests cost nothing: no bound."""


class Flip(Spec):
    """The value of one quantity of the loser at which it draws level."""

    quantity: str
    now: float
    needed: float | None
    """``null`` where no admissible value draws level."""
    sentence: str


class Comparison(Spec):
    """The verdict, by compliant requests per dollar."""

    one: Side
    two: Side
    winner: Winner
    because: str
    attainment_ratio: float | None
    """s2 / s1; ``null`` where s1 is 0."""
    break_even_ratio: float | None
    """(R1/R2)(C2/C1): two loses below it; ``null`` where R2 or C1 is 0."""
    loser_premium: float | None
    """How much dearer a compliant request of the loser is, as a share of the winner's cost;
    ``null`` where the winner's is free or the loser has none."""
    raw_throughput_ratio: float | None
    """R2 / R1."""
    flips: tuple[Flip, ...]


def read_row(text: str, name: str) -> Row:
    """Read one side of a comparison: a plan, or a row in words.

    Args:
        text: Path of a ``plan.json``, or a row: ``rate=1000,attainment=98%,cost=1 USD/s``.
        name: What the side is called where it has no name of its own.

    Raises:
        InputError: The text is neither, or a value of the row cannot be used.
    """
    if "=" in text and not _exists(text):
        return _from_words(text, name)
    if not _exists(text):
        raise InputError(f"{text}: no such file; name a plan, or write rate=…,attainment=…,cost=…")
    return row_of_plan(read_plan(Path(text)), Path(text).name)


def _exists(text: str) -> bool:
    """Tell whether a text is the path of something; one that is too long for a path is none."""
    try:
        return Path(text).exists()
    except OSError:
        return False


def row_of_plan(plan: FleetPlan, name: str) -> Row:
    """Take the row of a plan: its offered load, attainment and cost.

    Raises:
        InputError: The plan holds no fleet.
    """
    if plan.totals is None:
        raise InputError(f"{name}: the plan is {plan.status} and holds no fleet to compare")
    return Row(
        name=name,
        rate_rps=plan.totals.offered_rps,
        attainment=plan.totals.attainment,
        cost_usd_per_hour=plan.totals.cost_usd_per_hour,
        mfu=plan.totals.mfu,
    )


def compare_rows(one: Row, two: Row) -> Comparison:
    """Compare two fleets by what a compliant request costs.

    Raises:
        InputError: A rate or cost is negative, or a share is not between 0 and 1.
    """
    for row in (one, two):
        _refuse_impossible(row)
    sides = (_side(one), _side(two))
    winner = _winner(*sides)
    return Comparison(
        one=sides[0],
        two=sides[1],
        winner=winner,
        because=_because(sides, winner),
        attainment_ratio=_ratio(two.attainment, one.attainment),
        break_even_ratio=_break_even(one, two),
        loser_premium=_premium(sides, winner),
        raw_throughput_ratio=_ratio(two.rate_rps, one.rate_rps),
        flips=_flips(sides, winner),
    )


def _from_words(text: str, name: str) -> Row:
    words: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (x.strip() for x in part.partition("="))
        if not equals or not value:
            raise InputError(f"{name}: {part.strip()!r}: write it as key=value")
        if key not in KEYS:
            raise InputError(f"{name}: {key!r}: unknown key; {nearest(key, KEYS)}")
        if key in words:
            raise InputError(f"{name}: {key} is given twice; keep one")
        words[key] = value
    missing = [key for key in ("rate", "attainment", "cost") if key not in words]
    if missing:
        raise InputError(f"{name}: {missing[0]} is missing; write rate=…,attainment=…,cost=…")
    mfu = words.get("mfu")
    return Row(
        name=words.get("name", name),
        rate_rps=_rate(words["rate"], name),
        attainment=_share(words["attainment"], f"{name}: attainment"),
        cost_usd_per_hour=_cost(words["cost"], name),
        mfu=None if mfu is None else _share(mfu, f"{name}: mfu"),
    )


def _rate(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        try:
            return RATE.read(text)
        except ValueError as error:
            raise InputError(f"{name}: rate: {error}") from error
    if not math.isfinite(value):
        raise InputError(f"{name}: rate: {text!r} is not finite; write a number of req/s")
    return value


def _share(text: str, what: str) -> float:
    try:
        return read_share(text)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from error


def _cost(text: str, name: str) -> float:
    try:
        return PRICE.read(text)
    except ValueError as error:
        raise InputError(f"{name}: cost: {error}") from error


def _refuse_impossible(row: Row) -> None:
    values = (
        ("rate", row.rate_rps, math.inf),
        ("attainment", row.attainment, 1.0),
        ("cost", row.cost_usd_per_hour, math.inf),
        ("mfu", row.mfu or 0.0, 1.0),
    )
    for what, value, most in values:
        if not (math.isfinite(value) and 0 <= value <= most):
            bounds = "between 0 and 1" if most == 1 else "0 or more, and finite"
            raise InputError(f"{row.name}: {what} is {value:g}; it must be {bounds}")


def _ratio(over: float, under: float) -> float | None:
    """Divide, or return ``None`` where the result is not a finite number."""
    if under == 0:
        return None
    return _finite(over / under)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _side(row: Row) -> Side:
    goodput_rps = row.rate_rps * row.attainment
    per_hour = goodput_rps * SECONDS_PER_HOUR
    return Side(
        row=row,
        goodput_rps=goodput_rps,
        usd_per_thousand_compliant=_ratio(1000 * row.cost_usd_per_hour, per_hour),
        compliant_requests_per_usd=_ratio(per_hour, row.cost_usd_per_hour),
    )


def _break_even(one: Row, two: Row) -> float | None:
    rates = _ratio(one.rate_rps, two.rate_rps)
    costs = _ratio(two.cost_usd_per_hour, one.cost_usd_per_hour)
    return None if rates is None or costs is None else _finite(rates * costs)


def _winner(one: Side, two: Side) -> Winner:
    a, b = one.usd_per_thousand_compliant, two.usd_per_thousand_compliant
    if a is None and b is None:
        return "neither"
    if a is None or b is None:
        return "two" if a is None else "one"
    if a == b == 0:  # both free: more compliant requests are better
        a, b = -one.goodput_rps, -two.goodput_rps
    if math.isclose(a, b, rel_tol=TIE):
        return "neither"
    return "one" if a < b else "two"


def _split(sides: tuple[Side, Side], winner: Winner) -> tuple[Side, Side]:
    """Return the better and the worse side."""
    return (sides[1], sides[0]) if winner == "two" else sides


def _premium(sides: tuple[Side, Side], winner: Winner) -> float | None:
    best, rest = _split(sides, winner)
    low, high = best.usd_per_thousand_compliant, rest.usd_per_thousand_compliant
    if low is None or high is None:
        return None
    ratio = _ratio(high, low)
    if winner == "neither":
        return 0.0
    return None if ratio is None else ratio - 1


def _because(sides: tuple[Side, Side], winner: Winner) -> str:
    best, rest = _split(sides, winner)
    if winner == "neither":
        if best.usd_per_thousand_compliant is None:
            return "neither fleet serves a compliant request"
        return "a compliant request costs the same in both"
    if rest.usd_per_thousand_compliant is None:
        return f"{rest.row.name} serves no compliant request at any price"
    premium = _premium(sides, winner)
    if premium is None:
        return f"compliant requests of {best.row.name} cost nothing"
    sentence = f"a compliant request of {rest.row.name} is {_more(premium)} dearer"
    raw = _ratio(rest.row.rate_rps, best.row.rate_rps)
    if raw is not None and raw > 1:
        sentence += f", although its raw throughput is {_more(raw - 1)} higher"
    return sentence


def _flips(sides: tuple[Side, Side], winner: Winner) -> tuple[Flip, ...]:
    """Solve for each quantity of the loser the value at which both cost the same."""
    best, rest = _split(sides, winner)
    level = best.usd_per_thousand_compliant
    if winner == "neither" or level is None:
        return ()
    loser = rest.row
    level_per_request_hour = level * SECONDS_PER_HOUR / 1000  # USD/h per compliant req/s
    goodput_rps = _ratio(loser.cost_usd_per_hour, level_per_request_hour)
    attainment = None if goodput_rps is None else _ratio(goodput_rps, loser.rate_rps)
    rate_rps = None if goodput_rps is None else _ratio(goodput_rps, loser.attainment)
    cost = _finite(rest.goodput_rps * level_per_request_hour) if rest.goodput_rps > 0 else None
    return (
        _flip(loser.name, "attainment", loser.attainment, attainment),
        _flip(loser.name, "cost_usd_per_hour", loser.cost_usd_per_hour, cost),
        _flip(loser.name, "rate_rps", loser.rate_rps, rate_rps),
    )


def _flip(name: str, quantity: str, now: float, needed: float | None) -> Flip:
    shown = {
        "attainment": f"an attainment of {100 * (needed or 0):.4g} % or more",
        "cost_usd_per_hour": f"a cost of {needed or 0:.6g} USD/h or less",
        "rate_rps": f"{needed or 0:.6g} req/s or more, at the same attainment and cost",
    }[quantity]
    if needed is None:
        sentence = f"{name}: no value of {quantity} draws level"
    elif quantity == "attainment" and needed > 1:
        sentence = f"{name} would need {shown}: no attainment draws level"
        needed = None
    else:
        sentence = f"{name} draws level with {shown}"
    return Flip(quantity=quantity, now=now, needed=needed, sentence=sentence)


def _more(share: float) -> str:
    """Write an excess in per cent: whole from 10 % on, two digits below."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
