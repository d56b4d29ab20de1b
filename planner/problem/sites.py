"""Whole nodes with their records found: where units can stand, and at what price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.problem.prices import PriceError, price_of
from planner.scenario.places import places_of
from planner.scenario.supply import AcceleratorOffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.catalogue import Accelerator, Catalogue
    from planner.errors import Where
    from planner.scenario.hard_limits import Spare
    from planner.scenario.load import LoadedScenario
    from planner.scenario.nodes import NodeOffer

    Mistakes = list[tuple["Where | str", str]]


@dataclass(frozen=True, slots=True)
class Site:
    """Equal nodes in one place."""

    id: str
    accelerator: Accelerator
    devices: int
    """In one node."""
    stock: int | None
    """Nodes that can be had."""
    usd_per_hour: float
    """Of one node."""
    price_source: str
    term: str
    free: tuple[int, ...]
    """Devices that are free in each node that is partly used."""
    watts: float | None
    """Of one node; None where nothing is known."""
    watts_source: str
    region: str | None


@dataclass(frozen=True, slots=True)
class Sites:
    """All nodes that may be used, and the limits on places."""

    all: tuple[Site, ...]
    spare: Spare | None
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    """What fails together, by name of the place: ids of sites; empty where single nodes fail."""
    power: tuple[tuple[str, tuple[str, ...], float], ...]
    """Place, ids of its sites, and the limit, W."""

    def site(self, name: str) -> Site:
        """Return the nodes of an id."""
        return next(site for site in self.all if site.id == name)


NO_SITES: Final = Sites((), None, (), ())


def sites_of(loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes) -> Sites:
    """Find the records of all nodes; what cannot be found is a mistake with its place."""
    scenario, limits = loaded.scenario, loaded.scenario.limits
    sites = tuple(_sites(loaded, catalogue, mistakes))
    places = places_of(scenario.nodes)
    everything = tuple(site.id for site in sites)
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    if limits.spare is not None and limits.spare.lose != "nodes":
        names = dict.fromkeys(getattr(offer, limits.spare.lose) for offer in scenario.nodes)
        groups = tuple((name, places[name]) for name in names if name is not None)
        _fewer_fail_than_there_are(loaded, len(groups), mistakes)
    power = tuple(
        (p.id or "everything", places[p.id] if p.id else everything, p.limit) for p in limits.power
    )
    for i, (name, members, _) in enumerate(power):
        for site in sites:
            if site.id in members and site.watts is None:
                what = (
                    f"limits.power.{i}: nothing is known of the power of {site.accelerator.id}, of"
                    f" which {name} holds {site.id}; state nodes.power"
                )
                mistakes.append((loaded.at("limits", "power", i), what))
    return Sites(sites, limits.spare, groups, power)


def _fewer_fail_than_there_are(loaded: LoadedScenario, there: int, mistakes: Mistakes) -> None:
    spare = loaded.scenario.limits.spare
    if spare is None or spare.count < there:
        return
    what = (
        f"limits.spare: {spare.count} of {there} {spare.lose}s may be lost, so nothing is left;"
        f" offer nodes in another {spare.lose}"
    )
    mistakes.append((loaded.at("limits", "spare"), what))


def _sites(loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes) -> Iterator[Site]:
    for i, offer in enumerate(loaded.scenario.nodes):
        accelerator = catalogue.find_accelerator(offer.accelerator)
        if accelerator is None:
            why = catalogue.why_not("accelerator", offer.accelerator)
            at = loaded.at("nodes", i, "accelerator")
            mistakes.append((at, f"nodes.{i}.accelerator: {why}"))
            continue
        devices = offer.devices or accelerator.accelerators_per_node
        if devices is None:
            what = f"nodes.{i}: how many {accelerator.id} a node holds is not known; state devices"
            mistakes.append((loaded.at("nodes", i), what))
            continue
        for k, free in enumerate(offer.free):
            if free > devices:
                what = f"nodes.{i}.free.{k}: a node has {devices} devices; {free} cannot be free"
                mistakes.append((loaded.at("nodes", i, "free", k), what))
        try:
            usd, source, term = _price(offer, accelerator.id, devices, catalogue)
        except PriceError as error:
            at = loaded.at("nodes", i, "price_from")
            mistakes.append((at, f"nodes.{i}.price_from: {error}"))
            continue
        watts, watts_source = _watts(offer, accelerator, devices)
        yield Site(
            id=offer.id,
            accelerator=accelerator,
            devices=devices,
            stock=offer.stock,
            usd_per_hour=usd,
            price_source=source,
            term=term,
            free=offer.free,
            watts=watts,
            watts_source=watts_source,
            region=offer.region,
        )


def _price(
    offer: NodeOffer, accelerator: str, devices: int, catalogue: Catalogue
) -> tuple[float, str, str]:
    if offer.price is not None:
        return offer.price, "scenario", "stated"
    one = AcceleratorOffer(id=accelerator, price_from=offer.price_from)
    each, source, term = price_of(one, accelerator, catalogue)
    return each * devices, f"{devices} x {source}", term


def _watts(offer: NodeOffer, accelerator: Accelerator, devices: int) -> tuple[float | None, str]:
    """Return what a node draws, and where that is known from."""
    if offer.power is not None:
        return offer.power, "scenario"
    if accelerator.all_in_power is not None:
        return (
            accelerator.all_in_power * devices,
            f"all-in power of {accelerator.id} times {devices}, {accelerator.source}",
        )
    return None, "not known"
