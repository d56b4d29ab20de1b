"""The facts of a folder such as models/, read when they are asked for."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from planner.catalogue.accelerator import Accelerator
from planner.catalogue.llm import Llm
from planner.catalogue.node_kind import NodeKind
from planner.catalogue.tables import (
    LengthCell,
    LengthHistogram,
    Node,
    PricePoint,
    StepLawRow,
    StepLawSource,
    node,
    price_point,
    step_law_row,
)
from planner.data import shipped
from planner.errors import InputError, nearest
from planner.spec import Spec, read_spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Kind = Literal["accelerator", "llm"]
D = TypeVar("D", bound=Spec)

LONGEST_ID: Final = 200
"""Of an entry: a longer name is none, and no name of a file either."""
_FOLDER: Final[dict[Kind, str]] = {"accelerator": "accelerators", "llm": "llms"}


class Catalogue:
    """Accelerators, models, step laws, prices and lengths of one folder.

    Only the files that are asked for are read, each once. Ids may be written with underscores,
    blanks or capitals, or as an alias; an alias that several entries bear is refused.
    """

    def __init__(self, folder: Path | None = None, own_laws: tuple[StepLawRow, ...] = ()) -> None:
        self._folder = shipped("models") if folder is None else folder
        self._documents: dict[tuple[Kind, str], Spec] = {}
        self._laws: dict[str, tuple[StepLawRow, ...]] = {}
        self._own_laws = own_laws
        self._law_source: StepLawSource | None = None
        self._prices: tuple[PricePoint, ...] | None = None
        self._node_kinds: tuple[NodeKind, ...] | None = None
        self._aliases: dict[Kind, dict[str, tuple[str, ...]]] | None = None

    def accelerator_ids(self) -> tuple[str, ...]:
        """Return the ids of all accelerators, sorted."""
        return self._ids("accelerator")

    def llm_ids(self) -> tuple[str, ...]:
        """Return the ids of all models, sorted."""
        return self._ids("llm")

    def nodes(self, accelerator: str | None = None) -> tuple[Node, ...]:
        """Return the machines as sold, of one accelerator or all, in the order of the table."""
        rows = tuple(node(row) for row in _rows(self._folder / "nodes.csv"))
        if accelerator is None:
            return rows
        one = self._one("accelerator", accelerator)
        return tuple(row for row in rows if row.accelerator == one)

    def node_kinds(self) -> tuple[NodeKind, ...]:
        """Return the usual shapes of nodes, by their ids."""
        if self._node_kinds is None:
            files = sorted((self._folder / "node-kinds").glob("*.yaml"))
            self._node_kinds = tuple(read_spec(path, NodeKind) for path in files)
        return self._node_kinds

    def length_ids(self) -> tuple[str, ...]:
        """Return the names of all length histograms, sorted."""
        return tuple(sorted(p.stem for p in (self._folder / "lengths").glob("*.csv")))

    def accelerator(self, name: str) -> Accelerator:
        """Return an accelerator by id or alias.

        Raises:
            InputError: Nothing, or more than one thing, bears the name.
        """
        return self._document("accelerator", name, Accelerator)

    def llm(self, name: str) -> Llm:
        """Return a model by id, alias or hub name.

        Raises:
            InputError: Nothing, or more than one thing, bears the name.
        """
        return self._document("llm", name, Llm)

    def find_accelerator(self, name: str) -> Accelerator | None:
        """Return an accelerator, or None; :meth:`why_not` then says what is wrong."""
        return None if self.why_not("accelerator", name) else self.accelerator(name)

    def find_llm(self, name: str) -> Llm | None:
        """Return a model, or None; :meth:`why_not` then says what is wrong."""
        return None if self.why_not("llm", name) else self.llm(name)

    def is_ambiguous(self, kind: Kind, name: str) -> bool:
        """Whether several entries bear the name."""
        return len(self._resolve(kind, name)) > 1

    def why_not(self, kind: Kind, name: str) -> str | None:
        """Say why a name means no single entry, and what was perhaps meant; None if it does."""
        found = self._resolve(kind, name)
        if len(found) == 1:
            return None
        if found:
            return f"{name!r} is ambiguous; write {' or '.join(found)}"
        known = {*self._ids(kind), *self._alias_table()[kind]}
        return f"no {kind} is called {name!r}; {nearest(_spelt(name), known)}"

    def text(self, kind: Kind, name: str) -> str:
        """Return an entry's file as it is written, with units and sources.

        Raises:
            InputError: Nothing, or more than one thing, bears the name.
        """
        path = self._folder / _FOLDER[kind] / f"{self._one(kind, name)}.yaml"
        return path.read_text(encoding="utf-8")

    def laws(
        self,
        model: str | None = None,
        accelerator: str | None = None,
        engine: str | None = None,
        precision: str | None = None,
    ) -> tuple[StepLawRow, ...]:
        """Return the step laws that fit all given names, one's own first, then by their ids.

        A quantised checkpoint means its base model at its own precision, unless ``precision``
        says otherwise.

        Raises:
            InputError: ``model`` or ``accelerator`` is no single entry.
        """
        models = self._law_models()
        if model is not None:
            one = self._one("llm", model)
            if one not in models:
                llm = self.llm(one)
                one = llm.family_id
                precision = precision or (llm.weights_precision if llm.base else None)
            models = (one,) if one in models else ()
        device = None if accelerator is None else self._one("accelerator", accelerator)
        return tuple(
            row
            for name in models
            for row in self._laws_of(name)
            if device in (None, row.accelerator)
            and engine in (None, row.engine)
            and precision in (None, row.precision)
        )

    def with_laws(self, own: tuple[StepLawRow, ...]) -> Catalogue:
        """Return a catalogue in which laws of one's own take the place of those it has.

        A law of one's own stands for its configuration, however experts are laid out; its origin
        says which law it replaces.

        Args:
            own: Laws with an origin, one per configuration.
        """
        if not own:
            return self
        laws = []
        for row in own:
            same = [x for x in self._laws_of(row.model) if x.configuration == row.configuration]
            first = min(same, key=lambda x: x.ep_degree, default=None)
            origin = row.origin and replace(row.origin, replaces=first.id if first else None)
            laws.append(replace(row, origin=origin))
        return Catalogue(self._folder, (*self._own_laws, *laws))

    def law(self, law_id: str) -> StepLawRow:
        """Return one step law by its id, such as ``llama-3.1-70b.fp8.h100-sxm.vllm.tp4``.

        Raises:
            InputError: There is no such law.
        """
        tables = [m for m in self._law_models() if law_id.startswith(m + ".")]
        rows = {row.id: row for m in tables or self._law_models() for row in self._laws_of(m)}
        if law_id not in rows:
            raise InputError(f"no step law is called {law_id!r}; {nearest(law_id, rows)}")
        return rows[law_id]

    def law_source(self) -> StepLawSource:
        """Return where the step laws come from and how far they can be trusted."""
        if self._law_source is None:
            path = self._folder / "step-laws" / "step-laws.yaml"
            self._law_source = read_spec(path, StepLawSource)
        return self._law_source

    def prices(
        self,
        accelerator: str | None = None,
        provider: str | None = None,
        region: str | None = None,
        term: str | None = None,
    ) -> tuple[PricePoint, ...]:
        """Return the price points that fit all given names, in the order of the table.

        ``region`` is matched exactly: a provider without regions has none to match.

        Raises:
            InputError: A name occurs in no price point.
        """
        rows = self._price_table()
        device = accelerator and self._priced(accelerator, rows)
        seller = provider and _known("provider", provider, {r.provider for r in rows})
        place = region and _known("region", region, {r.region for r in rows} - {""})
        kind = term and _known("term", _spelt(term), {r.term for r in rows})
        return tuple(
            r
            for r in rows
            if (not device or r.accelerator == device)
            and (not seller or r.provider == seller)
            and (not place or r.region == place)
            and (not kind or r.term == kind)
        )

    def length_histogram(self, name: str) -> LengthHistogram:
        """Return a joint histogram of prompt and output lengths.

        Raises:
            InputError: There is no such histogram.
        """
        if name not in self.length_ids():
            known = nearest(name, self.length_ids())
            raise InputError(f"no length histogram is called {name!r}; {known}")
        rows = _rows(self._folder / "lengths" / f"{name}.csv")
        return LengthHistogram(
            name, tuple(LengthCell(**{k: int(v) for k, v in row.items()}) for row in rows)
        )

    def _document(self, kind: Kind, name: str, as_type: type[D]) -> D:
        one = self._one(kind, name)
        if (kind, one) not in self._documents:
            document = read_spec(self._folder / _FOLDER[kind] / f"{one}.yaml", as_type)
            self._documents[kind, one] = document
        found = self._documents[kind, one]
        assert isinstance(found, as_type)
        return found

    def _one(self, kind: Kind, name: str) -> str:
        found = self._resolve(kind, name)
        if len(found) != 1:
            raise InputError(self.why_not(kind, name))
        return found[0]

    def _resolve(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Return the ids that a name means: none, one, or several if it is ambiguous."""
        spelt = _spelt(name)
        if (
            len(spelt) <= LONGEST_ID
            and "/" not in spelt
            and (self._folder / _FOLDER[kind] / f"{spelt}.yaml").is_file()
        ):
            return (spelt,)
        return self._alias_table()[kind].get(spelt, ())

    def _ids(self, kind: Kind) -> tuple[str, ...]:
        return tuple(sorted(p.stem for p in (self._folder / _FOLDER[kind]).glob("*.yaml")))

    def _alias_table(self) -> dict[Kind, dict[str, tuple[str, ...]]]:
        if self._aliases is None:
            table: dict[Kind, dict[str, tuple[str, ...]]] = {"accelerator": {}, "llm": {}}
            for row in _rows(self._folder / "aliases.csv"):
                kind: Kind = "accelerator" if row["kind"] == "accelerator" else "llm"
                known = table[kind].get(row["alias"], ())
                table[kind][row["alias"]] = (*known, row["id"])
            self._aliases = table
        return self._aliases

    def _law_models(self) -> tuple[str, ...]:
        shipped_ones = {p.stem for p in (self._folder / "step-laws").glob("*.csv")}
        return tuple(sorted(shipped_ones | {row.model for row in self._own_laws}))

    def _laws_of(self, model: str) -> tuple[StepLawRow, ...]:
        if model not in self._laws:
            rows = _rows(self._folder / "step-laws" / f"{model}.csv")
            own = tuple(row for row in self._own_laws if row.model == model)
            taken = {row.configuration for row in own}
            known = (step_law_row(model, row) for row in rows)
            self._laws[model] = (*own, *(r for r in known if r.configuration not in taken))
        return self._laws[model]

    def _price_table(self) -> tuple[PricePoint, ...]:
        if self._prices is None:
            self._prices = tuple(price_point(row) for row in _rows(self._folder / "prices.csv"))
        return self._prices

    def _priced(self, accelerator: str, rows: tuple[PricePoint, ...]) -> str:
        """Return the id under which prices know an accelerator; a few have prices only."""
        found = self._resolve("accelerator", accelerator)
        if found:
            return self._one("accelerator", accelerator)
        known = {r.accelerator for r in rows} | set(self.accelerator_ids())
        return _known("accelerator", _spelt(accelerator), known)


def _known(kind: str, name: str, known: set[str]) -> str:
    """Return the known name that equals ``name`` but for capitals."""
    for one in known:
        if one.casefold() == name.casefold():
            return one
    raise InputError(f"no price has the {kind} {name!r}; {nearest(name, known)}")


def _spelt(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Read a table row by row; a missing table has none."""
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)
