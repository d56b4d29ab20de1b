"""What of a scenario could give way, and how that is written: ``--set path=value``.

A lever is a number that a user states: a deadline, a promise, a stock, a budget, a rate, a
length, a share of memory. An option is something that a user leaves out: a degree, a precision,
a type of accelerator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from planner.catalogue.degrees import tp_degrees_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.catalogue import Catalogue
    from planner.scenario.lengths import Marginal
    from planner.scenario.scenario import Scenario
    from planner.scenario.workload import Workload

LOOSEST: Final = 100.0
"""Farthest that a deadline is stretched, times what it is."""
LEAST_SHARE: Final = 1e-3
"""Least share of a load or a length that is worth serving."""
LEAST_ATTAINMENT: Final = 0.01
MOST_MEMORY: Final = 0.97
"""Share of device memory that an engine can use at most; the rest is the driver's."""
MOST_STOCK: Final = 100_000
RACK_WIDE: Final = ("nvl72-tray",)
"""Presets whose nodes come by the rack."""
MOST_NODES_MORE: Final = 1000
"""Nodes in one place of a topology that are tried."""
DIGITS: Final = 4
"""Of a value that is told."""
NEAR: Final = 1.009
"""Two values closer than this are told apart by nobody: the step below is within one per cent."""
FEW: Final = 4
"""Options of a kind that are tried."""


@dataclass(frozen=True, slots=True)
class Lever:
    """A number of the scenario, in the unit in which it is told, and how far it may give way."""

    path: str
    has: float
    most: float
    unit: str = ""
    whole: bool = False
    """One less is the next smaller change."""
    origin: float = 0.0
    """Changes are measured from here: 1 for a promise, whose misses are what grows."""
    accelerator: str | None = None
    """Of which it is the stock."""
    site: str | None = None
    """The nodes of which it is the stock."""
    beside: tuple[str, ...] = ()
    """Settings with which the farthest change is tried."""

    def setting(self, value: float) -> str:
        """Write a value as ``path=value``."""
        return f"{self.path}={self.shown(value)}"

    def shown(self, value: float) -> str:
        """Write a value with its unit."""
        return f"{value:.10g} {self.unit}".strip()

    def is_tight(self, short: float, enough: float) -> bool:
        """Tell whether no value worth telling lies between one that fails and one that does."""
        if self.whole:
            return abs(enough - short) <= 1
        a, b = self._size(short), self._size(enough)
        return min(a, b) > 0 and max(a, b) / min(a, b) <= NEAR

    def between(self, short: float, enough: float) -> float:
        """Return a value between two, as many times one as the other is times it."""
        if self.whole:
            return float((int(short) + int(enough)) // 2)
        a, b = self._size(short), self._size(enough)
        low = min(a, b) or max(a, b) * 1e-6
        return self._at(math.sqrt(low * max(a, b)))

    def just_less(self, enough: float) -> float:
        """Return the next smaller change than one that is enough."""
        if self.whole:
            return enough - 1 if self.most > self.has else enough + 1
        grows = self._size(self.most) > self._size(self.has)
        return self._at(self._size(enough) * (0.993 if grows else 1.007))

    def _size(self, value: float) -> float:
        return abs(value - self.origin)

    def _at(self, size: float) -> float:
        """Return the value of that size, in few digits."""
        size = float(f"{size:.{DIGITS}g}")
        return self.origin - size if self.origin else size


@dataclass(frozen=True, slots=True)
class Option:
    """Something that could be allowed besides, as a list of ways, the least change first."""

    name: str
    has: str
    ways: tuple[tuple[str, tuple[str, ...]], ...]
    """What would be allowed, and the settings that allow it."""
    first: bool = False
    """Whether it is tried before any number: what a choice of the user's keeps out of the search is
    why there is no fleet more often than not."""


def levers_of(scenario: Scenario) -> list[Lever]:
    """List the numbers that could give way, those that stand in the way most often first."""
    found: list[Lever] = []
    for one in scenario.workloads:
        found += _deadlines(one)
    for one in scenario.workloads:
        at, has = f"workloads.{one.id}.slo.attainment", one.slo.attainment
        if has > LEAST_ATTAINMENT:
            found.append(Lever(at, has, LEAST_ATTAINMENT, origin=1.0))
    found += [
        Lever(
            f"accelerators.{offer.id}.stock",
            float(offer.stock),
            float(max(MOST_STOCK, 2 * offer.stock)),
            whole=True,
            accelerator=offer.id,
        )
        for offer in scenario.accelerators
        if offer.stock is not None
    ]
    found += [
        Lever(
            f"nodes.{offer.id}.stock",
            float(offer.stock),
            float(max(MOST_STOCK, offer.stock)),
            whole=True,
            site=offer.id,
        )
        for offer in scenario.nodes
        if offer.stock is not None and offer.stock < MOST_STOCK
    ]
    found += _nodes(scenario)
    if (budget := scenario.limits.budget) is not None:
        most = max(budget * 1e4, 1e7)
        beside = ("objective=min_cost",)
        found.append(Lever("limits.budget", budget, most, "USD/h", beside=beside))
    for one in scenario.workloads:
        if (window := one.completion_window) is not None:
            path = f"workloads.{one.id}.completion_window"
            found.append(Lever(path, window / 60, window / 60 * LOOSEST, "min"))
    if (moves := scenario.limits.moves) is not None and moves < MOST_STOCK:
        found.append(Lever("limits.moves", float(moves), float(MOST_STOCK), whole=True))
    memory = scenario.policies.memory_utilisation
    if memory < MOST_MEMORY:
        found.append(Lever("policies.memory_utilisation", memory, MOST_MEMORY))
    for one in scenario.workloads:
        found += _load(one)
        found += _lengths(one)
    return found


def _nodes(scenario: Scenario) -> Iterator[Lever]:
    """Yield how many nodes a place of the topology has."""
    for i, nodes in enumerate(scenario.topology.nodes if scenario.topology is not None else ()):
        joined = nodes.link.devices if nodes.link is not None else None
        alone = nodes.racks is None and (joined or 1) <= (nodes.devices or 1)
        if alone and nodes.preset not in RACK_WIDE and nodes.count < MOST_NODES_MORE:
            path, has = f"topology.nodes.{i}.count", float(nodes.count)
            yield Lever(path, has, float(MOST_NODES_MORE), whole=True)


def _deadlines(one: Workload) -> Iterator[Lever]:
    slo, path = one.slo, f"workloads.{one.id}.slo"
    beyond = {"ttft": slo.e2e, "tpot": min(slo.max_itl or math.inf, slo.ttft)}
    for name in ("ttft", "tpot", "max_itl", "e2e"):
        has = getattr(slo, name)
        if has is not None:
            most = min(has * LOOSEST, beyond.get(name) or math.inf)
            if most > has:
                yield Lever(f"{path}.{name}", has * 1e3, most * 1e3, "ms")
    for i, bucket in enumerate(slo.ttft_by_prompt):
        has_ms = bucket.ttft * 1e3
        yield Lever(f"{path}.ttft_by_prompt.{i}.ttft", has_ms, has_ms * LOOSEST, "ms")


def _load(one: Workload) -> Iterator[Lever]:
    """Yield the rate of a workload, or how many users it has."""
    path = f"workloads.{one.id}.arrivals"
    for form, given in one.arrivals:
        if given is None:
            continue
        if isinstance(given, float | int):
            yield Lever(f"{path}.{form}", given, given * LEAST_SHARE, "req/s")
        elif getattr(given, "rate", None) is not None:
            yield Lever(f"{path}.{form}.rate", given.rate, given.rate * LEAST_SHARE, "req/s")
        else:
            key = {"users": "count", "closed_loop": "users"}.get(form)
            count = getattr(given, key) if key else 0
            if key and count > 1:
                yield Lever(f"{path}.{form}.{key}", float(count), 1.0, whole=True)


def _lengths(one: Workload) -> Iterator[Lever]:
    for which in ("prompt", "output"):
        marginal = getattr(one.lengths, which)
        if marginal is not None:
            yield from _length(f"workloads.{one.id}.lengths.{which}", marginal)


def _length(path: str, marginal: Marginal) -> Iterator[Lever]:
    """Yield the length that a distribution is given by, if it is one number."""
    keys = {"fixed": None, "lognormal": "mean", "gamma": "mean", "pareto": "maximum"}
    for form, key in keys.items():
        given: Any = getattr(marginal, form)
        value = getattr(given, key) if given is not None and key else given
        if value is not None and value > 2:
            at = f"{path}.{form}" + (f".{key}" if key else "")
            least = max(value * LEAST_SHARE, 1.0)
            if form == "pareto":
                least = max(least, given.minimum * 1.01)
            yield Lever(at, value, least, "tokens")


def options_of(scenario: Scenario, catalogue: Catalogue) -> list[Option]:
    """List what could be allowed besides: precisions, degrees, policies, kinds of accelerators."""
    found: list[Option] = []
    policies = scenario.policies
    apart = policies.disaggregation
    if apart is not None and apart.choose == "always":
        place = "policies.disaggregation.choose"
        way = ("replicas that do both", (f"{place}=search",))
        found.append(Option(place, "always", (way,), first=True))
    for one in scenario.workloads:
        llm = catalogue.llm(one.model)
        accepted = one.precisions or ((llm.weights_precision,) if llm.weights_precision else ())
        laws = catalogue.laws(model=llm.family_id, engine=policies.engine)
        others = sorted({row.precision for row in laws} - set(accepted))
        found.append(
            Option(
                f"workloads.{one.id}.precisions",
                ", ".join(accepted),
                tuple(
                    (new, (f"workloads.{one.id}.precisions=[{', '.join((*accepted, new))}]",))
                    for new in others[:FEW]
                ),
            )
        )
        if one.kv_dtypes is not None and len(one.kv_dtypes) == 1:
            other = "bf16" if "fp8" in one.kv_dtypes else "fp8"
            both = f"workloads.{one.id}.kv_dtypes=[{', '.join((*one.kv_dtypes, other))}]"
            place = f"workloads.{one.id}.kv_dtypes"
            found.append(Option(place, ", ".join(one.kv_dtypes), ((other, (both,)),)))
    degrees = {d for one in scenario.workloads for d in tp_degrees_of(catalogue.llm(one.model))}
    found.append(
        _one_more("tp_degrees", policies.tp_degrees, [d for d in (1, 2, 4, 8) if d in degrees])
    )
    found.append(
        _one_more(
            "max_num_batched_tokens",
            policies.max_num_batched_tokens,
            [n for n in (2048, 512, 8192) if n >= min(policies.max_num_seqs)],
        )
    )
    most = max(policies.max_num_batched_tokens)
    found.append(
        _one_more("max_num_seqs", policies.max_num_seqs, [n for n in (64, 256, 16) if n <= most])
    )
    if not scenario.nodes:
        found.append(_accelerators(scenario, catalogue))
    return [option for option in found if option.ways]


def _one_more(name: str, given: tuple[int, ...], known: list[int]) -> Option:
    """Return the ways to allow one more value of a list of policies."""
    ways = tuple(
        (f"{new}", (f"policies.{name}=[{', '.join(map(str, (*given, new)))}]",))
        for new in known
        if new not in given
    )
    return Option(f"policies.{name}", ", ".join(map(str, given)), ways)


def _accelerators(scenario: Scenario, catalogue: Catalogue) -> Option:
    """Return the ways to offer one more type, the cheapest by the catalogue's list first."""
    offered = [catalogue.find_accelerator(offer.id) for offer in scenario.accelerators]
    have = {device.id for device in offered if device is not None}
    rows = [
        row
        for one in scenario.workloads
        for row in catalogue.laws(model=catalogue.llm(one.model).family_id)
        if row.engine == scenario.policies.engine
    ]
    priced: list[tuple[float, str]] = []
    for name in sorted({row.accelerator for row in rows} - have):
        points = [p for p in catalogue.prices() if p.accelerator == name and p.term == "on-demand"]
        if points:
            priced.append((min(p.usd_per_accelerator_hour for p in points), name))
    given = [offer.model_dump(mode="json", exclude_none=True) for offer in scenario.accelerators]
    ways = tuple(
        (
            f"{name} at {usd:.4g} USD/h",
            (f"accelerators={_flow([*given, {'id': name, 'price': f'{usd:.4g} USD/h'}])}",),
        )
        for usd, name in sorted(priced)[: 2 * FEW]
    )
    return Option("accelerators", ", ".join(o.id for o in scenario.accelerators), ways)


def _flow(value: Any) -> str:
    """Write plain data as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value)
