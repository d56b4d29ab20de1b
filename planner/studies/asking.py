"""A scenario asked again with one accelerator at another price."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.errors import InputError, nearest
from planner.planning import plan_question
from planner.scenario.load import LoadedScenario
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.fleet import FleetPlan
    from planner.scenario.load import LoadedTables


class PricedFleet(Spec):
    """The fleet at one price of the accelerator."""

    usd_per_hour: float
    """Price of one."""
    count: int
    """How many of it the fleet has."""
    cost_usd_per_hour: float | None
    """Of the whole fleet; null where there is none."""
    usd_per_thousand_compliant: float | None
    fleet: tuple[str, ...]
    verified: bool
    status: str


@dataclass(slots=True)
class Asking:
    """Plans a question at prices of one accelerator, each once."""

    loaded: LoadedScenario | LoadedTables
    accelerator: str
    tell: Callable[[str, int], None] = lambda _what, _plans: None
    """Told what is planned and how many plans there were before."""
    plan: Callable[[LoadedScenario | LoadedTables], FleetPlan] = plan_question
    done: dict[tuple[float, tuple[str, ...]], PricedFleet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an accelerator that the scenario does not offer."""
        offers = getattr(self.loaded.scenario, "accelerators", ())
        ids = [offer.id for offer in offers]
        if self.accelerator not in ids:
            known = nearest(self.accelerator, ids) if ids else "the scenario offers whole nodes"
            raise InputError(f"--accelerator {self.accelerator}: is not in the scenario; {known}")

    @property
    def now_usd_per_hour(self) -> float:
        """Return the price that the scenario states or takes from the catalogue."""
        offers = getattr(self.loaded.scenario, "accelerators", ())
        offer = next(offer for offer in offers if offer.id == self.accelerator)
        if offer.price is not None:
            return float(offer.price)
        from planner.catalogue import Catalogue
        from planner.problem.resolve import resolve

        catalogue = Catalogue()
        own = catalogue.accelerator(self.accelerator).id
        if isinstance(self.loaded, LoadedScenario):
            for supply in resolve(self.loaded, catalogue).supplies:
                if supply.accelerator.id == own:
                    return supply.usd_per_hour
        raise InputError(f"accelerators.{self.accelerator}: state its price")

    def at(self, usd_per_hour: float, more: Sequence[str] = ()) -> PricedFleet:
        """Return the best fleet at a price.

        Args:
            usd_per_hour: Price of one.
            more: Further settings, ``path=value``.
        """
        key = (usd_per_hour, tuple(more))
        if key not in self.done:
            self.tell(f"at {usd_per_hour:.4g} USD/h", len(self.done))
            path = f"accelerators.{self.accelerator}"
            settings = [f"{path}.price={usd_per_hour!r} USD/h", *more]
            if isinstance(self.loaded, LoadedScenario):
                settings += [f"{path}.price_from=null", "solver.evidence=brief"]
            self.done[key] = self._fleet(usd_per_hour, settings)
        return self.done[key]

    def _fleet(self, usd_per_hour: float, settings: Sequence[str]) -> PricedFleet:
        found = self.plan(self.loaded.changed(settings))
        return priced(found, self.accelerator, usd_per_hour)


def priced(plan: FleetPlan, accelerator: str, usd_per_hour: float) -> PricedFleet:
    """Tell of a plan what matters for the price of an accelerator."""
    names = {accelerator}
    if plan.capacity_table is None:
        from planner.catalogue import Catalogue

        names.add(Catalogue().accelerator(accelerator).id)
    units = plan.capacity_table.units if plan.capacity_table else ()
    return PricedFleet(
        usd_per_hour=usd_per_hour,
        count=sum(line.count for line in plan.supply if line.accelerator in names),
        cost_usd_per_hour=plan.totals.cost_usd_per_hour if plan.totals else None,
        usd_per_thousand_compliant=(
            plan.totals.usd_per_thousand_compliant if plan.totals else None
        ),
        fleet=(
            *(f"{pool.replicas} x {pool.id}" for pool in plan.pools),
            *(f"{unit.units} x {unit.template}" for unit in units),
        ),
        verified=plan.evidence.verified,
        status=plan.status,
    )
