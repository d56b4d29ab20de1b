"""Lines of a plan about whole nodes: what is bought, what stands empty, what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.fleet import BillLine, SupplyLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.planning.fleet import Fleet
    from planner.problem.sites import Sites


def node_lines(sites: Sites, fleet: Fleet) -> Iterator[SupplyLine]:
    """List the nodes to buy, by site."""
    for held in fleet.held:
        site = sites.site(held.site)
        if held.nodes:
            yield SupplyLine(
                accelerator=held.accelerator,
                domain=held.site,
                term=site.term,
                count=held.nodes * site.devices,
                usd_per_hour=held.usd_per_hour,
                price_source=site.price_source,
                nodes=held.nodes,
            )
        owned = _used_of_own(held.used, held.nodes * site.devices)
        if owned:
            yield SupplyLine(
                accelerator=held.accelerator,
                domain=held.site,
                term="paid for anyway",
                count=owned,
                usd_per_hour=0.0,
                price_source="nodes that are partly used",
            )


def _used_of_own(used: int, bought: int) -> int:
    """Return the devices of partly used nodes that are in use, new ones being used first."""
    return max(used - bought, 0)


def node_bill(sites: Sites, fleet: Fleet) -> Iterator[BillLine]:
    """List what nodes cost: the devices that replicas have, and those that no replica has."""
    for held in fleet.held:
        if not held.nodes:
            continue
        site = sites.site(held.site)
        bought = held.nodes * site.devices
        empty = max(bought - held.used, 0)
        nodes = f"{held.nodes} {'node' if held.nodes == 1 else 'nodes'} of {site.id}"
        stranded = held.usd_per_hour * empty / bought
        yield BillLine(
            item=f"{nodes}: {bought - empty} of {bought} {held.accelerator} in replicas",
            usd_per_hour=held.usd_per_hour - stranded,
        )
        if empty:
            yield BillLine(
                item=f"stranded in {nodes}: {empty} {held.accelerator} that no replica fits in"
                " or needs",
                usd_per_hour=stranded,
            )


def node_limits(sites: Sites, fleet: Fleet) -> Iterator[tuple[str, tuple[str, str], float, float]]:
    """Yield the limits on nodes and power: name, row of the program, use and limit."""
    taken = {held.site: held.nodes for held in fleet.held}
    for site in sites.all:
        if site.stock is not None:
            used = float(taken.get(site.id, 0))
            yield f"nodes of {site.id}", ("C32", site.id), used, float(site.stock)
    for name, members, watts in sites.power:
        drawn = sum((sites.site(d).watts or 0.0) * taken.get(d, 0) for d in members)
        yield f"power of {name}, W", ("C34", name), drawn, watts
