"""Step laws from a user's own measurements: the file that ``planner calibrate`` writes.

It is JSON, and read as YAML is: a mistake is told with its line. For the same configuration a
measured law takes the place of the catalogue's own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from planner.catalogue.tables import LawOrigin, StepLawRow
from planner.errors import InputError
from planner.source import read_source
from planner.spec import Spec, mistake, validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.catalogue.load import Catalogue
    from planner.source import Source

Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Degree = Annotated[int, Field(ge=1, le=1024)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class MeasuredCurve(Spec):
    """One step law that was fitted to benchmark runs of one configuration."""

    model: Word
    """An id or alias of ``planner catalogue list llms``."""
    precision: Word
    kv_dtype: Literal["bf16", "fp8"] = "bf16"
    accelerator: Word
    """An id or alias of ``planner catalogue list accelerators``."""
    engine: Word
    engine_version: str = ""
    accelerators: Degree
    """Devices of one replica: tp_degree × dp_degree."""
    tp_degree: Degree
    dp_degree: Degree = 1
    """Attention data parallel; the law is that of one rank."""
    ep_degree: Degree = 1

    source: Word = "benchmark fit"
    """What kind of evidence it is, as plans print it."""
    measured_in: str = ""
    """The file of measurements."""
    prior: str = ""
    """The a-priori law that the fit began with."""
    runs: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    """Tokens of the largest step that the runs took; beyond it the law extrapolates."""
    max_context: Annotated[int, Field(ge=1)]
    """Longest request of the runs."""

    relative_error: Positive
    """Mean |predicted / measured - 1| of TPOT on runs that were held out of the fit."""
    relative_error_p95: Positive
    relative_error_ttft: Positive | None = None
    """The same mean of TTFT."""
    error_basis: str = ""
    """How the errors were found."""
    tpot_error: Finite | None = None
    """Median |predicted / measured - 1| of TPOT on the very runs that were fitted."""
    ttft_error: Finite | None = None
    tpot_compared: tuple[Word, ...] = ()
    """The statistics that ``tpot_error`` compares, such as ``mean`` or ``p99``."""
    ttft_compared: tuple[Word, ...] = ()

    knots: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=2)
    """Tokens per step at which the law states its time, ascending from 1."""
    step_s: tuple[Positive, ...]
    """Seconds of a step at the knots, the host's share included."""
    slope_beyond_s_per_token: Finite
    c_x_s_per_token2: Finite
    c_k_s_per_token: Finite
    c_n_s_per_request: Finite = 0.0
    """The host's time per scheduled request."""
    path_s: Finite = 0.0
    """From the client to the engine and back, without load; part of every TTFT."""

    weights_bytes: Annotated[int, Field(ge=0)]
    """Per device, as the three that follow; 0 where the generic memory model is to be asked."""
    activation_bytes_8192: Annotated[int, Field(ge=0)]
    other_bytes: Annotated[int, Field(ge=0)]
    kv_bytes_per_token: Annotated[int, Field(ge=0)]
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    memory_fraction_of: Literal["of_total", "of_free"] = "of_total"
    kv_tokens: Annotated[int, Field(ge=1)] | None = None
    """KV cache that the fit assumed of one rank; a plan asks the memory model."""

    host_step_s: Finite = 0.0
    """The host's time per step; contained in ``step_s``, as the two that follow."""
    host_sequence_s: Finite = 0.0
    host_prefill_s: Finite = 0.0
    moved_from_prior: dict[str, float] = Field(default_factory=dict)
    """By how much the fit moved each part of the prior: factors as ln, times in seconds."""
    standard_deviation: dict[str, float] = Field(default_factory=dict)
    misfit: Finite | None = None
    """Root mean square of what the fit leaves over, in usual errors of such runs."""

    @model_validator(mode="after")
    def _law_holds_together(self) -> MeasuredCurve:
        if self.accelerators != self.tp_degree * self.dp_degree:
            raise mistake("must be tp_degree × dp_degree", "accelerators")
        if len(self.step_s) != len(self.knots):
            what = f"has {len(self.step_s)} times for {len(self.knots)} knots; give one each"
            raise mistake(what, "step_s")
        if self.knots[0] != 1 or any(
            b <= a for a, b in zip(self.knots, self.knots[1:], strict=False)
        ):
            raise mistake("must ascend from 1", "knots")
        if any(b < a for a, b in pairwise(self.step_s)):
            raise mistake("must not fall: a larger step takes no less time", "step_s")
        return self


class CurveFile(Spec):
    """Curves from one set of measurements."""

    format_version: Literal["1.0"] = "1.0"
    curves: tuple[MeasuredCurve, ...] = Field(min_length=1)


def read_measured_laws(path: Path, catalogue: Catalogue) -> tuple[StepLawRow, ...]:
    """Read a file of measured curves as laws for ``Catalogue.with_laws``.

    Raises:
        InputError: The file cannot be read or is wrong, names what the catalogue does not
            know, or holds two curves of one configuration. One line per mistake.
    """
    source = read_source(path)
    document = validate(source, CurveFile)
    mistakes = list(_unknown(document, source, catalogue))
    if mistakes:
        raise InputError("\n".join(mistakes))
    rows = tuple(_row(curve, path, catalogue) for curve in document.curves)
    for i, row in enumerate(rows):
        for j, other in enumerate(rows[:i]):
            if row.configuration == other.configuration:
                where = source.at(("curves", i))
                raise InputError(
                    f"{where}: curves.{i}: the configuration of curves.{j} once more; remove one"
                )
    return rows


def _unknown(document: CurveFile, source: Source, catalogue: Catalogue) -> Iterator[str]:
    for i, curve in enumerate(document.curves):
        for kind, key in (("llm", "model"), ("accelerator", "accelerator")):
            why = catalogue.why_not(kind, getattr(curve, key))  # type: ignore[arg-type]
            if why is not None:
                yield f"{source.at(('curves', i, key))}: curves.{i}.{key}: {why}"


def _row(curve: MeasuredCurve, path: Path, catalogue: Catalogue) -> StepLawRow:
    model = catalogue.llm(curve.model).family_id
    accelerator = catalogue.accelerator(curve.accelerator).id
    degrees = f"tp{curve.tp_degree}"
    degrees += f".dp{curve.dp_degree}" if curve.dp_degree > 1 else ""
    degrees += f".ep{curve.ep_degree}" if curve.ep_degree > 1 else ""
    name = f"{model}.{curve.precision}.{accelerator}.{curve.engine}.{degrees}.measured"
    runs = f"{curve.runs} run{'s' if curve.runs > 1 else ''}"
    return StepLawRow(
        id=name,
        model=model,
        precision=curve.precision,
        accelerator=accelerator,
        engine=curve.engine,
        engine_version=curve.engine_version,
        tp_degree=curve.tp_degree,
        pp_degree=1,
        dp_degree=curve.dp_degree,
        moe_tp_degree=max(1, curve.accelerators // curve.ep_degree),
        ep_degree=curve.ep_degree,
        gemm=curve.precision,
        kv="bfloat16" if curve.kv_dtype == "bf16" else curve.kv_dtype,
        moe=curve.precision,
        knots=curve.knots,
        step_s=curve.step_s,
        slope_beyond_s_per_token=curve.slope_beyond_s_per_token,
        c_x_s_per_token2=curve.c_x_s_per_token2,
        c_k_s_per_token=curve.c_k_s_per_token,
        points=curve.runs,
        max_tokens=curve.max_tokens,
        max_context=curve.max_context,
        error_mean=curve.relative_error,
        error_p95=curve.relative_error_p95,
        error_decode=None,
        error_prefill=curve.relative_error_ttft,
        error_mixed=None,
        accelerators=curve.accelerators,
        weights_bytes=curve.weights_bytes,
        activation_bytes_8192=curve.activation_bytes_8192,
        other_bytes=curve.other_bytes,
        kv_bytes_per_token=curve.kv_bytes_per_token,
        memory_fraction=curve.memory_fraction,
        memory_fraction_of=curve.memory_fraction_of,
        kv_tokens=curve.kv_tokens,
        c_n_s_per_request=curve.c_n_s_per_request,
        path_s=curve.path_s,
        origin=LawOrigin(
            source=curve.source,
            caveat=f"fitted to {runs}; {curve.error_basis or 'errors as its file states them'}",
            attribution=curve.measured_in or str(path),
            file=str(path),
        ),
    )
