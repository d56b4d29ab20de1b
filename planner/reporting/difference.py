"""Two plans side by side as tables: cost first, then what moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.reporting.bill_difference import signed
from planner.reporting.format import NONE, amount, rate, seconds, share, significant, usd
from planner.reporting.layout import grid, heading, lines, plain
from planner.reporting.tables import stands_in_the_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from planner.explanation.difference import Amount, Difference

WORDS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "cost_usd_per_hour": ("cost per hour", usd),
    "usd_per_thousand_compliant": ("per thousand compliant", usd),
    "goodput_rps": ("compliant goodput", rate),
    "offered_rps": ("offered", rate),
    "attainment": ("attainment", share),
    "accelerators": ("accelerators", amount),
    "nodes": ("whole nodes", amount),
    "power_w": ("power, W", amount),
    "mfu": ("MFU (decides nothing)", share),
    "promise": ("promised", share),
    "ttft_p99_s": ("TTFT p99", seconds),
    "tpot_p99_s": ("TPOT p99", seconds),
    "kept_at": ("kept up to, times the demand", significant),
}


def difference_tables(found: Difference, old: str, new: str) -> Iterator[RenderableType]:
    """Lay out what differs between two plans, readable at 100 columns.

    Args:
        found: What differs.
        old: What the first plan is called.
        new: What the second is called.
    """
    yield plain(f"{_verdict(found, old, new)}\n", style="bold")
    for name, reasons in ((old, found.old_reasons), (new, found.new_reasons)):
        if reasons:
            yield plain(f"What stands in the way of {name}")
            yield lines([*(f"{stands_in_the_way(x)}. {x.remedy}" for x in reasons), ""])
    if found.totals:
        headers = ("", ">old", ">new", ">change")
        yield grid(headers, [_row(amount_) for amount_ in found.totals])
    if found.bill:
        rows = [
            (
                line.item,
                f"{line.old_count or ''}",
                f"{line.new_count or ''}",
                signed(line.new_usd_per_hour - line.old_usd_per_hour),
            )
            for line in found.bill
        ]
        total = sum(line.new_usd_per_hour - line.old_usd_per_hour for line in found.bill)
        yield heading("What the bill's difference is made of")
        yield grid(("", ">old", ">new", ">USD/h"), [*rows, ("difference", "", "", signed(total))])
    if found.pools:
        yield heading("What moves")
        cells = [
            (m.pool, str(m.old_replicas), str(m.new_replicas), _fields(m.fields))
            for m in found.pools
        ]
        yield grid(("pool", ">old", ">new", "what else differs"), cells)
    for promise in found.promises:
        yield heading(f"{promise.workload}, its promise")
        yield grid(("", ">old", ">new", ">change"), [_row(figure) for figure in promise.figures])
    if found.question:
        yield heading("What was asked differently")
        asked = [(q.path, q.old or NONE, q.new or NONE) for q in found.question]
        yield grid(("path", "old", "new"), asked)


def _verdict(found: Difference, old: str, new: str) -> str:
    cost = next((t for t in found.totals if t.of == "cost_usd_per_hour"), None)
    if cost is None:
        return f"Neither holds a fleet: {old} is {found.old_status}, {new} is {found.new_status}."
    if cost.old is None or cost.new is None:
        name, status = (old, found.old_status) if cost.old is None else (new, found.new_status)
        return f"{name} is {status} and holds no fleet."
    if found.same:
        return f"{new} buys the same fleet as {old} at the same bill."
    apart = cost.new - cost.old
    if signed(apart) == signed(0.0):
        return f"{new} costs as much as {old}."
    by = f" ({abs(apart) / cost.old:.1%})".replace("%", " %") if cost.old > 0 else ""
    word = "more" if apart > 0 else "less"
    return f"{new} costs {usd(abs(apart))} an hour {word} than {old}{by}."


def _row(figure: Amount) -> tuple[str, str, str, str]:
    name, write = WORDS[figure.of]
    change = NONE
    if figure.old is not None and figure.new is not None:
        change = "" if figure.old == figure.new else _change(figure.of, figure.old, figure.new)
    old, new = (NONE if x is None else write(x) for x in (figure.old, figure.new))
    return name, old, new, change


def _change(of: str, old: float, new: float) -> str:
    if of in ("attainment", "promise", "mfu"):
        return f"{100 * (new - old):+.2f} points"
    if old == 0:
        return NONE
    return f"{100 * (new / old - 1):+.1f} %"


def _fields(fields: dict[str, tuple[str, str]]) -> str:
    return "; ".join(f"{key} {old} → {new}" for key, (old, new) in fields.items())
