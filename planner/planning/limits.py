"""How much of each limit a fleet uses, and what one more of it would be worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import LimitReachedError
from planner.fleet import LimitUse
from planner.milp import relaxation_prices, resolve_prices
from planner.planning.group_pools import link_uses
from planner.planning.node_lines import node_limits
from planner.planning.program import instance_of
from planner.planning.ways import link_flows, simulated_flows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.milp import Price
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolRun

GIGA: Final = 1e9
PRICING_S: Final = 30.0
MISLEADS: Final = 0.1
"""By which share of the larger two prices differ when one of them misleads."""


def limit_uses(
    problem: Problem,
    refined: Refined,
    fleet: Fleet,
    study: Study,
    runs: Sequence[Sequence[PoolRun]] = (),
) -> tuple[LimitUse, ...]:
    """List every limit with its use; a limit that is used up has a price.

    Args:
        problem: Limits.
        refined: The program's last solution.
        fleet: What uses them.
        study: Draws.
        runs: Its simulation, by pool.
    """
    solved, relaxed = _prices(problem, refined)
    uses = []
    for name, at, taken, limit in node_limits(problem.sites, fleet):
        uses.append(_use(name, taken, limit, solved.get(at), relaxed.get(at)))
    for supply in problem.supplies:
        if supply.stock is None or problem.sites.all:
            continue
        name = supply.accelerator.id
        used = sum(p.units * p.template.build.devices.get(name, 0) for p in fleet.pools)
        at = ("C6", name)
        uses.append(_use(f"stock of {name}", used, supply.stock, solved.get(at), relaxed.get(at)))
    uses += link_uses(fleet, study)
    if problem.moving is not None and problem.moving.most is not None:
        at = ("C36", "")
        most = problem.moving.most
        uses.append(_use("moves", fleet.moves, most, solved.get(at), relaxed.get(at)))
    uses += _shared_links(fleet, runs, solved, relaxed)
    budget = problem.budget_usd_per_hour
    if budget is not None:
        at = ("C8", "")
        uses.append(_use("budget", fleet.usd_per_hour, budget, solved.get(at), relaxed.get(at)))
    return tuple(uses)


def _shared_links(
    fleet: Fleet,
    runs: Sequence[Sequence[PoolRun]],
    solved: dict[tuple[str, str], Price],
    relaxed: dict[tuple[str, str], Price],
) -> Iterator[LimitUse]:
    """Yield links that groups share: the flows of the program beside those of the simulation."""
    seen = simulated_flows(fleet, runs) if runs else {}
    for name, (flow, rate) in sorted(link_flows(fleet).items()):
        prices = [_of_a_gigabyte(found.get(("C54", name))) for found in (solved, relaxed)]
        use = _use(f"link {name} (GB/s)", flow / GIGA, rate / GIGA, *prices)
        yield use.model_copy(update={"simulated": seen[name] / GIGA if name in seen else None})


def _of_a_gigabyte(price: Price | None) -> Price | None:
    if price is None or price.usd_per_hour is None:
        return price
    return replace(price, usd_per_hour=price.usd_per_hour * GIGA)


def _use(
    name: str, used: float, limit: float, solved: Price | None, relaxed: Price | None
) -> LimitUse:
    exact = solved.usd_per_hour if solved is not None else None
    dual = relaxed.usd_per_hour if relaxed is not None else None
    return LimitUse(
        name=name,
        used=float(used),
        limit=float(limit),
        shadow_price_usd_per_hour=exact if exact is not None else dual,
        by_relaxation_usd_per_hour=dual,
        note=_note(exact, dual),
    )


def _note(exact: float | None, dual: float | None) -> str:
    """Say how a price was found, and whether the relaxation says something else."""
    if exact is None:
        return "" if dual is None else "priced by the linear relaxation: whole units may differ"
    if dual is None or abs(exact - dual) <= MISLEADS * max(abs(exact), abs(dual)):
        return "priced by solving again with one more"
    return (
        "priced by solving again with one more; the dual of the linear relaxation misleads here,"
        f" at {dual:.4g} USD/h, as fractions of units cannot be had"
    )


def _prices(
    problem: Problem, refined: Refined
) -> tuple[dict[tuple[str, str], Price], dict[tuple[str, str], Price]]:
    """Price limits by solving again, and by the duals of the relaxation."""
    stocks = [s.stock for s in problem.supplies] + [s.stock for s in problem.sites.all]
    if (
        stocks.count(None) == len(stocks)
        and not problem.sites.power
        and problem.budget_usd_per_hour is None
        and (problem.moving is None or problem.moving.most is None)
    ):
        return {}, {}
    data = instance_of(problem, refined.frontiers)
    found = []
    for priced in (resolve_prices, relaxation_prices):
        try:
            prices = priced(data, refined.choice, time_limit_s=PRICING_S)
        except LimitReachedError:
            prices = ()
        found.append({(p.number, ",".join(p.index)): p for p in prices})
    return found[0], found[1]
