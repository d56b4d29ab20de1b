"""Rows of the catalogue's tables: step laws, prices, length histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from planner.errors import InputError
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

KNOTS: Final = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Tokens per step at which a step law's table gives the time."""


@dataclass(frozen=True, slots=True)
class LawOrigin:
    """Where one step law is from, if not from the catalogue's common source."""

    source: str
    """Kind of evidence, as plans print it."""
    caveat: str
    attribution: str
    file: str
    """The user's file that holds the law."""
    replaces: str | None = None
    """The catalogue's law of the same configuration, whose place it takes."""


@dataclass(frozen=True, slots=True)
class StepLawRow:
    """One fitted step law with the account of memory that came with it.

    All byte figures are per device. ``activation_bytes_8192`` holds for steps of up to 8,192
    tokens. ``kv_bytes_per_token`` counts every layer as full attention.
    """

    id: str
    model: str
    precision: str
    accelerator: str
    engine: str
    engine_version: str
    tp_degree: int
    pp_degree: int
    dp_degree: int
    moe_tp_degree: int
    ep_degree: int
    gemm: str
    kv: str
    moe: str
    knots: tuple[int, ...]
    step_s: tuple[float, ...]
    slope_beyond_s_per_token: float
    c_x_s_per_token2: float
    c_k_s_per_token: float
    points: int
    max_tokens: int
    max_context: int
    error_mean: float
    error_p95: float
    error_decode: float | None
    error_prefill: float | None
    error_mixed: float | None
    accelerators: int
    weights_bytes: int
    activation_bytes_8192: int
    other_bytes: int
    kv_bytes_per_token: int
    memory_fraction: float
    memory_fraction_of: str
    kv_tokens: int | None
    c_n_s_per_request: float = 0.0
    path_s: float = 0.0
    """From client to engine and back: part of every TTFT, of no step."""
    origin: LawOrigin | None = None
    """None: from the catalogue's common source."""

    @property
    def configuration(self) -> tuple[str | int, ...]:
        """What one law is enough of: everything but how experts are laid out."""
        what = (self.model, self.precision, self.accelerator, self.engine)
        return (*what, self.tp_degree, self.pp_degree, self.dp_degree)

    @property
    def degrees(self) -> str:
        """The degrees as the id writes them, such as ``tp1.dp8.ep8``."""
        return self.id.removeprefix(f"{self.model}.{self.precision}.{self.accelerator}.").split(
            ".", 1
        )[1]

    @property
    def kv_dtype(self) -> str:
        """Number format of the KV cache in the planner's words."""
        return "bf16" if self.kv == "bfloat16" else self.kv


def step_law_row(model: str, cells: Mapping[str, str]) -> StepLawRow:
    """Make a row of a step-law table's cells; an empty cell of an error is unknown."""

    def share(name: str) -> float | None:
        return float(cells[name]) if cells[name] else None

    return StepLawRow(
        id=cells["id"],
        model=model,
        precision=cells["precision"],
        accelerator=cells["accelerator"],
        engine=cells["engine"],
        engine_version=cells["engine_version"],
        tp_degree=int(cells["tp"]),
        pp_degree=int(cells["pp"]),
        dp_degree=int(cells["dp"]),
        moe_tp_degree=int(cells["moe_tp"]),
        ep_degree=int(cells["ep"]),
        gemm=cells["gemm"],
        kv=cells["kv"],
        moe=cells["moe"],
        knots=KNOTS,
        step_s=tuple(float(cells[f"step_{n}_s"]) for n in KNOTS),
        slope_beyond_s_per_token=float(cells["slope_beyond_s_per_token"]),
        c_x_s_per_token2=float(cells["c_x_s_per_token2"]),
        c_k_s_per_token=float(cells["c_k_s_per_token"]),
        points=int(cells["points"]),
        max_tokens=int(cells["max_tokens"]),
        max_context=int(cells["max_context"]),
        error_mean=float(cells["error_mean"]),
        error_p95=float(cells["error_p95"]),
        error_decode=share("error_decode"),
        error_prefill=share("error_prefill"),
        error_mixed=share("error_mixed"),
        accelerators=int(cells["accelerators"]),
        weights_bytes=int(cells["weights_bytes"]),
        activation_bytes_8192=int(cells["activation_bytes_8192"]),
        other_bytes=int(cells["other_bytes"]),
        kv_bytes_per_token=int(cells["kv_bytes_per_token"]),
        memory_fraction=float(cells["memory_fraction"]),
        memory_fraction_of=cells["memory_fraction_of"],
        kv_tokens=int(cells["kv_tokens"]) if cells["kv_tokens"] else None,
    )


class Reach(Spec):
    """The largest step and context that the source of step laws measured."""

    tokens: int
    context: int


class StepLawSource(Spec):
    """Where all step laws of the catalogue come from, and how far they can be trusted."""

    format_version: Literal["1.0"] = "1.0"

    what: str
    """The law in words."""

    kind: str
    """Kind of evidence, as plans print it."""

    serving_tpot_error_median: float
    """Share by which the source's TPOT is off real serving runs, at the median."""

    serving_tpot_error_says: str
    """The same in words."""

    reach: Reach
    """Beyond it the source itself extrapolates."""

    reach_says: str
    """What that means."""

    columns: dict[str, str]
    """Meaning and unit of every column."""

    left_out: str
    """What the source holds and the tables do not, and why."""

    source: str
    """Project and version."""

    licence: str
    """Its licence."""

    attribution: str
    """Notice to keep with every copy."""


@dataclass(frozen=True, slots=True)
class PricePoint:
    """What one instance costs at one provider, in one region, on one term.

    ``n_accelerators`` is the least that can be bought. ``confidence`` is high (the vendor's
    list), medium (an aggregator) or low (an estimate, or contradicted by another row).
    """

    accelerator: str
    provider: str
    region: str
    term: str
    n_accelerators: int
    instance: str
    usd_per_instance_hour: float
    usd_per_accelerator_hour: float
    date: str
    confidence: str
    source: str
    note: str


def price_point(cells: Mapping[str, str]) -> PricePoint:
    """Make a price point of a row's cells."""
    return PricePoint(
        accelerator=cells["accelerator"],
        provider=cells["provider"],
        region=cells["region"],
        term=cells["term"],
        n_accelerators=int(cells["n_accelerators"]),
        instance=cells["instance"],
        usd_per_instance_hour=float(cells["usd_per_instance_hour"]),
        usd_per_accelerator_hour=float(cells["usd_per_accelerator_hour"]),
        date=cells["date"],
        confidence=cells["confidence"],
        source=cells["source"],
        note=cells["note"],
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as it is sold; ``scaleup_domain`` is None where it is not known."""

    id: str
    provider: str
    instance: str
    accelerator: str
    n_accelerators: int
    scaleup_domain: int | None


def node(cells: Mapping[str, str]) -> Node:
    """Make a node of a row's cells."""
    return Node(
        id=cells["id"],
        provider=cells["provider"],
        instance=cells["instance"],
        accelerator=cells["accelerator"],
        n_accelerators=int(cells["n_accelerators"]),
        scaleup_domain=int(cells["scaleup_domain"]) if cells["scaleup_domain"] else None,
    )


@dataclass(frozen=True, slots=True)
class LengthCell:
    """Requests whose prompt and output lengths lie within inclusive bounds, in tokens."""

    prompt_low: int
    prompt_high: int
    output_low: int
    output_high: int
    count: int


@dataclass(frozen=True, slots=True)
class LengthHistogram:
    """A joint histogram of prompt and output lengths; a cell stands for its midpoint."""

    name: str
    cells: tuple[LengthCell, ...]

    def __post_init__(self) -> None:
        for c in self.cells:
            if not (1 <= c.prompt_low <= c.prompt_high and 1 <= c.output_low <= c.output_high):
                raise InputError(f"{self.name}: bounds of a cell are out of order: {c}")

    @property
    def requests(self) -> int:
        """Requests counted."""
        return sum(c.count for c in self.cells)

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean prompt length."""
        return sum(c.count * (c.prompt_low + c.prompt_high) for c in self.cells) / 2 / self.requests

    @property
    def mean_output_tokens(self) -> float:
        """Mean output length."""
        return sum(c.count * (c.output_low + c.output_high) for c in self.cells) / 2 / self.requests
