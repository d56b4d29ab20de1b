"""Why this fleet by measured capacities, why not another, and why none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.errors import LimitReachedError
from planner.fleet import Decision, Infeasibility, LimitUse, Rejected
from planner.milp import relaxation_prices, resolve_prices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.milp import Choice, NoFleetError, Shortfall
    from planner.planning.table_program import TableProgram
    from planner.problem.tables import TableProblem, TableTemplate


def out_of_reach(problem: TableProblem) -> Iterator[Infeasibility]:
    """Name each demanded bucket that no template serves: no number of units would."""
    names = ", ".join(t.id for t in problem.templates) or "nothing is offered"
    for bucket in problem.demanded:
        if any(bucket.id in template.capacity_rps for template in problem.templates):
            continue
        yield Infeasibility(
            limit=f"{bucket.id}: capacity",
            has=f"0 req/s on every accelerator ({names})",
            needs=f"{bucket.rate_rps:.4g} req/s",
            fastest_reachable=(
                "no accelerator of the table serves requests of this size within the deadline,"
                " however few of them come"
            ),
            remedy=(
                "an accelerator that was measured above 0 for this size, or a looser deadline,"
                " measured again; further copies of the same cannot help"
            ),
        )


def limits_in_the_way(program: TableProgram, error: NoFleetError) -> tuple[Infeasibility, ...]:
    """Say which limits are in the way, and how far each alone would have to give."""
    if error.alone:
        return tuple(_limit(program, short, "alone") for short in error.alone)
    return tuple(_limit(program, short, "together with the others") for short in error.together)


def _limit(program: TableProgram, short: Shortfall, how: str) -> Infeasibility:
    index = ",".join(short.index)
    name_of = {g: name for name, g in program.accelerator_ids.items()}
    has, needs = short.limit, short.needs
    if short.number == "C6":
        name, unit, more = f"stock of {name_of[index]}", "accelerators", "a stock of "
        needs = math.ceil(needs - 1e-6)
    elif short.number == "C8":
        name, unit, more = "limits.budget", "USD/h", "a budget of "
    else:
        name, unit, more = f"{index}: capacity_tables.shed_limit", "of its requests", "shedding "
    return Infeasibility(
        limit=name,
        has=f"{has:,.6g} {unit}",
        needs=f"{needs:,.6g} {unit}",
        fastest_reachable="",
        remedy=f"{more}{needs:,.6g} {unit}, {how}",
    )


def _alone(problem: TableProblem, template: TableTemplate) -> int | str:
    """Return how many units of one template alone serve all demand, or a bucket that it cannot."""
    busy = 0.0
    for bucket in problem.demanded:
        if bucket.id not in template.capacity_rps:
            return bucket.id
        busy += bucket.rate_rps / template.capacity_rps[bucket.id]
    return math.ceil(busy * (1 - 1e-9))


def _beyond_stock(problem: TableProblem, template: TableTemplate, units: int) -> str:
    supply = next(s for s in problem.supplies if s.accelerator == template.accelerator)
    if supply.stock is None or units * template.devices <= supply.stock:
        return ""
    return f", beyond the stock of {supply.stock} {supply.accelerator}"


def decisions(program: TableProgram, choice: Choice) -> Iterator[Decision]:
    """Say what the fleet costs beside each template alone."""
    problem = program.problem
    if len(problem.templates) < 2:
        return
    cost = choice.cost_usd_per_hour
    numbers, words = {"usd_per_hour": cost}, []
    for template in problem.templates:
        units = _alone(problem, template)
        if isinstance(units, str):
            words.append(f"{template.id} alone cannot serve {units}")
        else:
            price = units * problem.usd_per_hour(template)
            numbers[f"usd_per_hour_on_{template.id}_alone"] = price
            more = f" ({price / cost - 1:+.0%})" if cost else ""
            beyond = _beyond_stock(problem, template, units)
            words.append(
                f"{template.id} alone serves everything for {price:.2f} USD/h{more}{beyond}"
            )
    yield Decision(
        question="which template",
        answer=" and ".join(program.units(choice)) or "none",
        because="; ".join(words) + "; by the capacity table",
        numbers=numbers,
    )


def rejections(program: TableProgram, choice: Choice) -> Iterator[Rejected]:
    """List every template that is not in the fleet."""
    problem, cost = program.problem, choice.cost_usd_per_hour
    chosen = program.units(choice)
    for template in problem.templates:
        if template.id in chosen:
            continue
        units, numbers = _alone(problem, template), dict[str, float]()
        if isinstance(units, str):
            can = sum(b.rate_rps for b in problem.demanded if b.id in template.capacity_rps)
            reason = f"cannot serve {units}, and the program found a cheaper way for the rest"
            numbers["servable_rps"] = can
        else:
            price = units * problem.usd_per_hour(template)
            beyond = _beyond_stock(problem, template, units)
            reason = (
                f"alone needs {units} units, {price:.2f} USD/h{beyond}; the fleet {cost:.2f} USD/h"
            )
            numbers |= {"units_alone": float(units), "usd_per_hour_alone": price}
        yield Rejected(template=template.id, reason=reason, numbers=numbers)
    for name in problem.not_offered:
        yield Rejected(template=name, reason="in the table, but not offered", numbers={})


def limit_uses(program: TableProgram, choice: Choice) -> Iterator[LimitUse]:
    """List every limit with its use and, where the program prices it, what one more is worth."""
    problem = program.problem
    prices = _prices(program, choice)
    units = program.units(choice)
    for supply in problem.supplies:
        if supply.stock is not None:
            used = sum(
                t.devices * units.get(t.id, 0)
                for t in problem.templates
                if t.accelerator == supply.accelerator
            )
            yield LimitUse(
                name=f"stock of {supply.accelerator}",
                used=float(used),
                limit=float(supply.stock),
                shadow_price_usd_per_hour=prices.get(
                    ("C6", program.accelerator_ids[supply.accelerator])
                ),
            )
    if problem.budget_usd_per_hour is not None:
        yield LimitUse(
            name="budget",
            used=choice.cost_usd_per_hour,
            limit=problem.budget_usd_per_hour,
            shadow_price_usd_per_hour=prices.get(("C8", "")),
        )


def _prices(program: TableProgram, choice: Choice) -> dict[tuple[str, str], float | None]:
    """Price limits by solving again for min_cost, else by the duals of the relaxation."""
    problem = program.problem
    if problem.budget_usd_per_hour is None and not program.instance.stock:
        return {}
    priced = resolve_prices if problem.objective == "min_cost" else relaxation_prices
    try:
        prices = priced(program.instance, choice, time_limit_s=5.0)
    except (LimitReachedError, KeyboardInterrupt):
        return {}
    return {(p.number, ",".join(p.index)): p.usd_per_hour for p in prices}
