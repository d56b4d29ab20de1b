"""A curve: a step law with where it is from, how far it holds, how wrong it is, and its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.curves.beside import NOTHING, Beside
from planner.curves.context import Choice
from planner.curves.memory import KvRoom, Layout, Settings, kv_bytes_per_token_per_device
from planner.curves.step_law import StepLaw

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Catalogue, Llm, StepLawRow
    from planner.curves.speculation import Speculation


@dataclass(frozen=True, slots=True)
class RelativeError:
    """How far the law is off what it was fitted to, as shares; None where no such steps.

    Of a law from step tables: off those steps. Of a law from benchmark runs: off the TPOT of runs
    held out, and ``prefill`` off their TTFT.
    """

    mean: float
    p95: float
    prefill: float | None
    decode: float | None
    mixed: float | None


@dataclass(frozen=True, slots=True)
class AdaptersKept:
    """Low-rank adapters that every replica of a curve keeps."""

    owners: tuple[str, ...]
    """Workloads whose they are."""
    count: int
    rank: int
    """The largest."""
    overhead: float
    """Share by which every step takes longer, the largest of theirs."""
    bytes_per_device: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Step times and memory of one model, precision, accelerator, engine and set of degrees.

    With attention data parallel, step law and memory are those of one rank.
    """

    id: str
    llm: Llm
    accelerator: Accelerator
    precision: str
    kv_dtype: str
    engine: str
    engine_version: str
    layout: Layout
    step_law: StepLaw
    row: StepLawRow
    source: str
    """What kind of evidence it is, such as ``step-table fit``."""
    relative_error: RelativeError
    caveat: str
    """What the error does not cover."""
    attribution: str
    max_tokens_per_step: int
    """Beyond this, and beyond ``max_context``, the curve extrapolates."""
    max_context: int
    parts: tuple[str, ...] = ()
    """What the names of its templates say beside degrees and precision, such as ``kvfp8``."""
    speculation: Speculation | None = None
    """What replicas draft; None: they decode token by token."""
    adapters: AdaptersKept | None = None
    """Which adapters replicas keep; None: none."""
    beside: Beside = NOTHING
    """What the two take of the memory."""
    token_by_token: StepLaw | None = None
    """The law before it was told per token; None where ``step_law`` is."""
    added_ttft_s: float = 0.0
    """Part of every TTFT that steps told per token leave out."""

    @property
    def accelerators(self) -> int:
        """Devices of one replica."""
        return self.row.accelerators

    @property
    def path_s(self) -> float:
        """Seconds of every TTFT in no step: from client to engine and back, what drafts add."""
        return self.row.path_s + self.added_ttft_s

    @property
    def plain_law(self) -> StepLaw:
        """The step law without drafts."""
        return self.token_by_token or self.step_law

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes by which one rank's cache grows per token of context."""
        tp, pp = self.layout.tp_degree, self.layout.pp_degree
        return kv_bytes_per_token_per_device(self.llm, tp, self.kv_dtype, pp)

    @property
    def memory_utilisation(self) -> float:
        """Share of memory that the source of the curve lets the engine use."""
        return self.row.memory_fraction

    def extrapolates(self, max_num_batched_tokens: int, context: int) -> bool:
        """Whether steps of so many tokens, or requests so long, lie beyond what was tabled."""
        return max_num_batched_tokens > self.max_tokens_per_step or context > self.max_context

    def choice(self, settings: Settings | None = None) -> Choice:
        """Return the curve as a choice whose context and levers can be asked for.

        Args:
            settings: Default: the engine's defaults at the source's share of memory.
        """
        return Choice(
            llm=self.llm,
            accelerator=self.accelerator,
            precision=self.precision,
            kv_dtype=self.kv_dtype,
            layout=self.layout,
            settings=settings or Settings(utilisation=self.memory_utilisation),
            row=self.row,
        )

    def room(self, settings: Settings | None = None, logged_blocks: int | None = None) -> KvRoom:
        """Return the KV cache of one rank under an engine's settings.

        Args:
            settings: Default: the engine's defaults at the source's share of memory.
            logged_blocks: Blocks that a real engine reported; overrides the formula.
        """
        chosen = self.choice(settings)
        room, logged = chosen.room(logged_blocks), logged_blocks is not None
        return self.beside.leaves(room, chosen.settings.max_num_seqs, logged=logged)


@dataclass(frozen=True, slots=True)
class NoCurve:
    """Why there is no curve, and what there is instead."""

    reason: str
    instead: tuple[str, ...]
    """Ids of the nearest curves that exist."""


def curves(
    catalogue: Catalogue,
    model: str,
    accelerator: str | None = None,
    engine: str | None = None,
    precision: str | None = None,
) -> tuple[Curve, ...]:
    """Return every curve that fits all given names, in the order of their ids.

    Raises:
        InputError: ``model`` or ``accelerator`` is no single entry of the catalogue.
    """
    rows = catalogue.laws(model, accelerator, engine, precision)
    return tuple(curve_of(catalogue, row) for row in rows)


def find_curve(
    catalogue: Catalogue,
    llm: str,
    precision: str,
    accelerator: str,
    engine: str,
    tp_degree: int,
    dp_degree: int = 1,
) -> Curve | NoCurve:
    """Return the curve of one configuration, or why there is none.

    Experts sharded like the rest (no expert parallel) come first, then the least expert
    parallel; :func:`curves` returns them all.

    Raises:
        InputError: ``llm`` or ``accelerator`` is no single entry of the catalogue.
    """
    rows = catalogue.laws(llm, accelerator, engine, precision)
    fitting = [row for row in rows if row.tp_degree == tp_degree and row.dp_degree == dp_degree]
    if fitting:
        return curve_of(catalogue, min(fitting, key=lambda row: row.ep_degree))
    device = catalogue.accelerator(accelerator).id
    name = catalogue.llm(llm).id
    if rows:
        degrees = sorted({row.degrees for row in rows})
        reason = (
            f"no step law of {name} in {precision} on {device} with {engine} at tp{tp_degree}; "
            f"there are {', '.join(degrees)}"
        )
        return NoCurve(reason, tuple(row.id for row in rows))
    return _nothing(catalogue, (name, precision, device, engine))


def _nothing(catalogue: Catalogue, wanted: tuple[str, str, str, str]) -> NoCurve:
    """Say which single name must change for step laws to exist."""
    name, *names = wanted
    precision, device, engine = names
    every = catalogue.laws(catalogue.llm(name).family_id)
    if not every:
        known = ", ".join(sorted({row.model for row in catalogue.laws()}))
        return NoCurve(f"no step law of {name} at all; there are those of {known}", ())
    here = dict(zip(("precision", "accelerator", "engine"), names, strict=True))
    for what in ("engine", "precision", "accelerator"):
        others = {key: value for key, value in here.items() if key != what}
        near = [r for r in every if all(getattr(r, key) == v for key, v in others.items())]
        if near:
            known = ", ".join(sorted({str(getattr(row, what)) for row in near}))
            reason = (
                f"no step law of {name} in {precision} on {device} with {engine}: "
                f"with another {what} than {here[what]} there are {known}"
            )
            return NoCurve(reason, tuple(row.id for row in near))
    reason = f"no step law of {name} in {precision} on {device} with {engine}, nor close to it"
    return NoCurve(reason, tuple(row.id for row in every))


def curve_of(catalogue: Catalogue, row: StepLawRow) -> Curve:
    """Make a curve of a step law's row."""
    common = catalogue.law_source()
    own = row.origin
    tokens, context = row.max_tokens, row.max_context
    if own is None:
        tokens, context = min(tokens, common.reach.tokens), min(context, common.reach.context)
    return Curve(
        id=row.id,
        llm=catalogue.llm(row.model),
        accelerator=catalogue.accelerator(row.accelerator),
        precision=row.precision,
        kv_dtype=row.kv_dtype,
        engine=row.engine,
        engine_version=row.engine_version,
        layout=Layout(
            tp_degree=row.tp_degree,
            pp_degree=row.pp_degree,
            ep_degree=row.ep_degree,
            dp_degree=row.dp_degree,
        ),
        step_law=step_law_of(row),
        row=row,
        source=own.source if own else common.kind,
        relative_error=RelativeError(
            mean=row.error_mean,
            p95=row.error_p95,
            prefill=row.error_prefill,
            decode=row.error_decode,
            mixed=row.error_mixed,
        ),
        caveat=own.caveat if own else common.serving_tpot_error_says,
        attribution=own.attribution
        if own
        else f"{common.source}, {common.licence}, {common.attribution}",
        max_tokens_per_step=tokens,
        max_context=context,
    )


def step_law_of(row: StepLawRow) -> StepLaw:
    """Make the step law of a row."""
    return StepLaw(
        knots=row.knots,
        step_s=row.step_s,
        slope_beyond_s_per_token=row.slope_beyond_s_per_token,
        c_x_s_per_token2=row.c_x_s_per_token2,
        c_k_s_per_token=row.c_k_s_per_token,
        c_n_s_per_request=row.c_n_s_per_request,
    )
