"""How long prompts and outputs are: measured together, or drawn from stated distributions."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Tokens

Weight = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Lognormal(Spec):
    """Lognormal lengths, given by what people know of them."""

    mean: Tokens
    """Mean length."""
    cv: Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]
    """Coefficient of variation: standard deviation / mean; 0 means that all are equal."""


class Gamma(Spec):
    """Gamma lengths: a lighter tail than lognormal ones of the same spread."""

    mean: Tokens
    """Mean length."""
    cv: Annotated[float, Field(ge=0.01, le=20, allow_inf_nan=False)]
    """Coefficient of variation: standard deviation / mean."""


class Pareto(Spec):
    """Lengths with a heavy tail: the share above x falls as a power of x."""

    minimum: Tokens
    """Shortest length."""
    tail: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """Exponent: the share of lengths above x is (minimum / x) to the power of this."""
    maximum: Tokens | None = None
    """Longest length; the tail is cut there."""

    @model_validator(mode="after")
    def _has_a_mean(self) -> Pareto:
        if self.maximum is None and self.tail <= 1:
            raise mistake(
                f"{self.tail:g}: such a tail has no mean; add a maximum, or write more than 1",
                "tail",
            )
        if self.maximum is not None and self.maximum <= self.minimum:
            raise mistake("must be above the minimum", "maximum")
        return self


class Zipf(Spec):
    """Whole lengths whose weight falls as a power of the length."""

    exponent: Annotated[float, Field(gt=0, le=20, allow_inf_nan=False)]
    """A length of k tokens has the weight k to the power of minus this."""
    maximum: Count
    """Longest length."""
    minimum: Count = 1
    """Shortest length."""

    @model_validator(mode="after")
    def _in_order(self) -> Zipf:
        if self.maximum < self.minimum:
            raise mistake("must not be below the minimum", "maximum")
        return self


class Uniform(Spec):
    """Every whole length of a range alike, as benchmark tools draw them."""

    minimum: Count
    """Shortest length."""
    maximum: Count
    """Longest length."""

    @model_validator(mode="after")
    def _in_order(self) -> Uniform:
        if self.maximum < self.minimum:
            raise mistake("must not be below the minimum", "maximum")
        return self


_MARGINALS = ("fixed", "lognormal", "gamma", "pareto", "zipf", "uniform", "mixture")


class Marginal(Spec):
    """The distribution of one length. Exactly one form is given."""

    fixed: Tokens | None = None
    """Every request has this length."""
    lognormal: Lognormal | None = None
    """Lengths spread lognormally about a mean."""
    gamma: Gamma | None = None
    """Lengths spread about a mean, with a lighter tail."""
    pareto: Pareto | None = None
    """Lengths with a heavy tail."""
    zipf: Zipf | None = None
    """Whole lengths whose weight falls as a power."""
    uniform: Uniform | None = None
    """Every whole length of a range alike."""
    mixture: tuple[MarginalPart, ...] | None = Field(default=None, min_length=1)
    """Each length from one of several distributions, by weight."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        _exactly_one(self, _MARGINALS)
        return self


class MarginalPart(Marginal):
    """One distribution of a mixture, with its weight."""

    weight: Weight = 1.0
    """Share of the requests, relative to the weights of the other parts."""


class Columns(Spec):
    """Where a trace keeps the two lengths."""

    prompt: str
    """Name of the column of prompt tokens."""
    output: str
    """Name of the column of output tokens."""


class LengthForms(Spec):
    """Prompt and output lengths: a histogram, a trace, two distributions, or a mixture.

    A histogram and a trace keep the correlation of the two lengths; ``prompt`` with
    ``output`` are independent of each other unless a ``correlation`` is given.
    """

    histogram: str | None = None
    """A joint histogram: a name of ``planner catalogue list lengths``, or a CSV file."""
    trace: str | None = None
    """A file with one request a row, beside the scenario file: CSV or JSONL, ``.gz`` too, or the
    ``.tar.gz`` of a ServeGen client set."""
    columns: Columns | None = None
    """Column names of the trace, where they are not among the known ones."""
    prompt: Marginal | None = None
    """Prompt tokens, with ``output``."""
    output: Marginal | None = None
    """Output tokens, with ``prompt``."""
    correlation: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = None
    """Rank correlation (Spearman's) of ``prompt`` and ``output``; 0 where left out."""
    mixture: tuple[LengthsPart, ...] | None = Field(default=None, min_length=1)
    """Requests of several kinds, each with its own lengths and weight."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.prompt is None) != (self.output is None):
            given, missing = ("prompt", "output") if self.prompt else ("output", "prompt")
            raise ValueError(f"{given} is given but {missing} is not; give both")
        _exactly_one(self, ("histogram", "trace", "prompt", "mixture"))
        if self.columns is not None and self.trace is None:
            raise ValueError("columns belong to a trace; remove them or name the trace")
        if self.correlation is not None and self.prompt is None:
            raise mistake("belongs to prompt with output; remove it", "correlation")
        return self


class LengthsPart(LengthForms):
    """Requests of one kind in a mixture, with their weight."""

    weight: Weight = 1.0
    """Share of the requests, relative to the weights of the other parts."""


class Lengths(LengthForms):
    """Prompt and output lengths of a workload."""

    beyond_context: Literal["refuse", "cut"] = "refuse"
    """What happens to a request longer than the model's context: it is refused, which is a miss,
    or cut to fit, as a client that trims its history does."""


def _exactly_one(document: Spec, forms: tuple[str, ...]) -> None:
    given = [form for form in forms if getattr(document, form) is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "none is given"
        raise mistake(f"give exactly one of {', '.join(forms)}; {what}", *given[1:2])


Marginal.model_rebuild()
MarginalPart.model_rebuild()
LengthForms.model_rebuild()
LengthsPart.model_rebuild()
Lengths.model_rebuild()
