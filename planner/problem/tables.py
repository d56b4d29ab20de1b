"""A scenario of measured capacities, joined to its file: every rate and price in its place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, nearest
from planner.problem.capacity_file import SUM_TOLERANCE, read_capacity_file
from planner.problem.prices import PriceError, price_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from planner.catalogue import Catalogue
    from planner.errors import Where
    from planner.problem.capacity_file import CapacityFile
    from planner.scenario.aim import Objective
    from planner.scenario.load import LoadedTables
    from planner.scenario.table_scenario import Bucket

    Mistakes = list[tuple[Where | str, str]]

AT: Final = "capacity_tables"
MAX_RPS: Final = 1e9
"""Most demand, as in other scenarios."""
MAX_UNITS: Final = 1e9
"""Units that a bucket may take at most; beyond, the numbers of a program lose their meaning."""


@dataclass(frozen=True, slots=True)
class BucketDemand:
    """Requests of about one size, and how many of them come."""

    id: str
    input_tokens: float | None
    output_tokens: float | None
    rate_rps: float
    """May be 0: then nothing has to serve it."""


@dataclass(frozen=True, slots=True)
class TableTemplate:
    """A unit whose capacities were measured."""

    id: str
    accelerator: str
    devices: int
    capacity_rps: Mapping[str, float]
    """By bucket; absent means that it cannot be served."""


@dataclass(frozen=True, slots=True)
class TableSupply:
    """One accelerator type with its price and stock."""

    accelerator: str
    stock: int | None
    usd_per_hour: float
    price_source: str
    term: str


@dataclass(frozen=True, slots=True)
class TableProblem:
    """The question, ready to be answered."""

    buckets: tuple[BucketDemand, ...]
    templates: tuple[TableTemplate, ...]
    supplies: tuple[TableSupply, ...]
    not_offered: tuple[str, ...]
    """Accelerators of the table that the scenario does not offer."""
    shed_limit: float
    budget_usd_per_hour: float | None
    objective: Objective
    seed: int
    gap: float
    time_limit_s: float
    source: str
    """Where the capacities come from."""
    solver: str = "highs"
    """Which solver is asked."""

    @property
    def demanded(self) -> tuple[BucketDemand, ...]:
        """The buckets of which requests come."""
        return tuple(bucket for bucket in self.buckets if bucket.rate_rps > 0)

    def usd_per_hour(self, template: TableTemplate) -> float:
        """Return the price of one unit."""
        price = next(s.usd_per_hour for s in self.supplies if s.accelerator == template.accelerator)
        return price * template.devices


def resolve_tables(
    loaded: LoadedTables, catalogue: Callable[[], Catalogue] | None = None
) -> TableProblem:
    """Read the file that a scenario names and put demand, prices and capacities together.

    Args:
        loaded: The scenario.
        catalogue: Makes the catalogue, for prices that the scenario takes from it; the shipped
            one if left out. It is made only if it is needed.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    scenario, mistakes = loaded.scenario, list[tuple["Where | str", str]]()
    tables = scenario.capacity_tables
    file = None
    if tables.file is not None:
        try:
            file = read_capacity_file(loaded.folder / tables.file)
        except InputError as error:
            raise InputError(_behind(loaded, error)) from error
    buckets = tuple(_demand(loaded, file, mistakes))
    templates = tuple(_templates(loaded, file, mistakes))
    supplies = tuple(_supplies(loaded, file, catalogue, mistakes))
    offered = {supply.accelerator for supply in supplies}
    if not mistakes:
        _check_scale(loaded, buckets, templates, mistakes)
    if mistakes:
        raise InputError("\n".join(f"{where}: {what}" for where, what in mistakes))
    named = dict.fromkeys(template.accelerator for template in templates)
    return TableProblem(
        buckets=buckets,
        templates=tuple(t for t in templates if t.accelerator in offered),
        supplies=supplies,
        not_offered=tuple(name for name in named if name not in offered),
        shed_limit=tables.shed_limit,
        budget_usd_per_hour=scenario.limits.budget,
        objective=scenario.objective,
        seed=scenario.solver.seed,
        solver=scenario.solver.name,
        gap=scenario.solver.gap,
        time_limit_s=scenario.solver.time_limit,
        source=_source(loaded, file),
    )


def _behind(loaded: LoadedTables, error: InputError) -> str:
    """Say who named a file that cannot be read at all; mistakes inside have places of their own."""
    lines = str(error).split("\n")
    name = loaded.scenario.capacity_tables.file or ""
    whole = f"{loaded.folder / name}: "
    if len(lines) == 1 and lines[0].startswith(whole):
        return f"{loaded.at(AT, 'file')}: {AT}.file: {lines[0]}"
    return str(error)


def _source(loaded: LoadedTables, file: CapacityFile | None) -> str:
    if file is None:
        return "the scenario"
    name = str(loaded.scenario.capacity_tables.file)
    return f"{name} ({file.origin})" if file.origin else name


def _demand(
    loaded: LoadedTables, file: CapacityFile | None, mistakes: Mistakes
) -> Iterator[BucketDemand]:
    tables = loaded.scenario.capacity_tables
    if file is None:
        if tables.buckets is None:
            what = "is required with templates; list the sizes and their demand"
            mistakes.append((loaded.at(AT), f"{AT}.buckets: {what}"))
            return
        for bucket, rate in _rates(loaded, tables.buckets, mistakes):
            yield BucketDemand(bucket.id, bucket.input_tokens, bucket.output_tokens, rate)
        return
    if tables.buckets is not None:
        given = {b.id: rate for b, rate in _rates(loaded, tables.buckets, mistakes)}
        known = {bucket.id for bucket in file.buckets}
        for i, bucket in enumerate(tables.buckets):
            if bucket.id not in known:
                what = f"the file has no bucket {bucket.id!r}; {nearest(bucket.id, known)}"
                mistakes.append((loaded.at(AT, "buckets", i, "id"), f"{AT}.buckets.{i}.id: {what}"))
        rates = [given.get(bucket.id, 0.0) for bucket in file.buckets]
    else:
        rates = _file_rates(loaded, file, mistakes)
    for cell, rate in zip(file.buckets, rates, strict=True):
        yield BucketDemand(cell.id, cell.input_tokens, cell.output_tokens, rate)


def _file_rates(loaded: LoadedTables, file: CapacityFile, mistakes: Mistakes) -> list[float]:
    """Return the file's shares times its rate, or the scenario's."""
    tables = loaded.scenario.capacity_tables
    rate = tables.rate if tables.rate is not None else file.rate_rps
    at = loaded.at(AT, "rate" if tables.rate is not None else "file")
    if rate is None:
        what = "is required: the file has no total_request_rate"
        mistakes.append((at, f"{AT}.rate: {what}"))
    elif rate > MAX_RPS:
        mistakes.append((at, f"{AT}.rate: must be at most {MAX_RPS:,.0f} req/s; got {rate:g}"))
    if any(bucket.share is None for bucket in file.buckets):
        what = "is required: the file has no workload_distribution"
        mistakes.append((loaded.at(AT, "file"), f"{AT}.buckets: {what}"))
    return [(bucket.share or 0.0) * (rate or 0.0) for bucket in file.buckets]


def _rates(
    loaded: LoadedTables, buckets: Sequence[Bucket], mistakes: Mistakes
) -> Iterator[tuple[Bucket, float]]:
    """Yield each bucket with its rate, written down or its share of the table's rate."""
    total = loaded.scenario.capacity_tables.rate
    shares = [bucket.share for bucket in buckets if bucket.share is not None]
    seen: dict[str, int] = {}
    for i, bucket in enumerate(buckets):
        if bucket.id in seen:
            what = f"{AT}.buckets.{i}.id: {bucket.id!r} is given twice; rename one"
            mistakes.append((loaded.at(AT, "buckets", i, "id"), what))
        seen.setdefault(bucket.id, i)
        rate = bucket.rate if bucket.rate is not None else (bucket.share or 0.0) * (total or 0.0)
        if rate > MAX_RPS:
            what = f"{AT}.buckets.{i}: must be at most {MAX_RPS:,.0f} req/s; got {rate:g}"
            mistakes.append((loaded.at(AT, "buckets", i), what))
        yield bucket, rate
    at = loaded.at(AT, "buckets")
    if shares and len(shares) < len(buckets):
        what = "some buckets have a share and some a rate; give all the same"
        mistakes.append((at, f"{AT}.buckets: {what}"))
    elif shares and total is None:
        what = "is required with shares of buckets; add such as 'rate: 16 req/s'"
        mistakes.append((loaded.at(AT), f"{AT}.rate: {what}"))
    elif shares and abs(math.fsum(shares) - 1) > SUM_TOLERANCE:
        what = f"the shares sum to {math.fsum(shares):.9g}; they must sum to 1"
        mistakes.append((at, f"{AT}.buckets: {what}"))
    elif not shares and total is not None:
        what = "every bucket has a rate of its own; remove this one"
        mistakes.append((loaded.at(AT, "rate"), f"{AT}.rate: {what}"))
    elif not shares and not any(bucket.rate for bucket in buckets):
        what = "every rate is 0; some requests must come"
        mistakes.append((at, f"{AT}.buckets: {what}"))


def _templates(
    loaded: LoadedTables, file: CapacityFile | None, mistakes: Mistakes
) -> Iterator[TableTemplate]:
    if file is not None:
        names = [bucket.id for bucket in file.buckets]
        for accelerator in file.accelerators:
            rates = zip(names, accelerator.capacity_rps, strict=True)
            capacity = {name: rate for name, rate in rates if rate > 0}
            yield TableTemplate(accelerator.id, accelerator.id, 1, capacity)
        return
    tables = loaded.scenario.capacity_tables
    known = [bucket.id for bucket in tables.buckets or ()]
    offered = [offer.id for offer in loaded.scenario.accelerators or ()]
    seen: set[str] = set()
    for i, given in enumerate(tables.templates or ()):
        at = (AT, "templates", i)
        many = f"-x{given.devices}" if given.devices > 1 else ""
        name = given.id or f"{given.accelerator}{many}"
        if name in seen:
            what = f"{name!r} is there twice; give each its own id"
            mistakes.append((loaded.at(*at, "id"), f"{AT}.templates.{i}.id: {what}"))
        seen.add(name)
        if given.accelerator not in offered and offered:
            what = f"{given.accelerator!r} is not offered; {nearest(given.accelerator, offered)}"
            path = f"{AT}.templates.{i}.accelerator"
            mistakes.append((loaded.at(*at, "accelerator"), f"{path}: {what}"))
        for bucket in given.capacity:
            if bucket not in known and known:
                what = f"no such bucket; {nearest(bucket, known)}"
                path = f"{AT}.templates.{i}.capacity.{bucket}"
                mistakes.append((loaded.at(*at, "capacity", bucket), f"{path}: {what}"))
        capacity = {name: rate for name, rate in given.capacity.items() if rate > 0}
        yield TableTemplate(name, given.accelerator, given.devices, capacity)


def _supplies(
    loaded: LoadedTables,
    file: CapacityFile | None,
    catalogue: Callable[[], Catalogue] | None,
    mistakes: Mistakes,
) -> Iterator[TableSupply]:
    offers = loaded.scenario.accelerators
    if offers is None and file is not None:
        for one in file.accelerators:
            yield TableSupply(one.id, None, one.usd_per_hour, "capacity table", "stated")
        return
    if offers is None:
        what = "is required with templates; list each accelerator with its price"
        mistakes.append((loaded.at("accelerators"), f"accelerators: {what}"))
        return
    for i, offer in enumerate(offers):
        if file is not None and offer.id not in [a.id for a in file.accelerators]:
            known = nearest(offer.id, [a.id for a in file.accelerators])
            what = f"accelerators.{i}.id: {offer.id!r} is not in the capacity table; {known}"
            mistakes.append((loaded.at("accelerators", i, "id"), what))
        if offer.terms is not None:
            what = "a capacity table has no hours to adapt to; leave the terms out"
            mistakes.append(
                (loaded.at("accelerators", i, "terms"), f"accelerators.{i}.terms: {what}")
            )
        try:
            price, source, term = _price(loaded, i, catalogue)
        except InputError as error:
            at = loaded.at("accelerators", i, "price_from")
            mistakes.append((at, f"accelerators.{i}.price_from: {error}"))
            continue
        yield TableSupply(offer.id, offer.stock, price, source, term)


def _price(
    loaded: LoadedTables, i: int, catalogue: Callable[[], Catalogue] | None
) -> tuple[float, str, str]:
    offer = (loaded.scenario.accelerators or ())[i]
    if offer.price is not None:
        return offer.price, "scenario", "stated"
    if catalogue is None:
        from planner.catalogue import Catalogue as Shipped  # heavy, and most tables state prices

        catalogue = Shipped
    facts = catalogue()
    found = facts.find_accelerator(offer.id)
    if found is None:
        raise PriceError(str(facts.why_not("accelerator", offer.id)))
    return price_of(offer, found.id, facts)


def _check_scale(
    loaded: LoadedTables,
    buckets: Sequence[BucketDemand],
    templates: Sequence[TableTemplate],
    mistakes: Mistakes,
) -> None:
    """Refuse a capacity that is none: so far below the demand that it must be a slip."""
    for template in templates:
        for bucket in buckets:
            capacity = template.capacity_rps.get(bucket.id)
            if capacity is not None and bucket.rate_rps > MAX_UNITS * capacity:
                what = (
                    f"{AT}: {template.id} sustains {capacity:g} req/s of {bucket.id}, of which"
                    f" {bucket.rate_rps:g} req/s come: more than {MAX_UNITS:,.0f} units; write 0"
                    " where a bucket cannot be served"
                )
                mistakes.append((loaded.at(AT), what))
