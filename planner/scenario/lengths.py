"""How long prompts and outputs are: measured together, or drawn from stated distributions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Tokens


class Lognormal(Spec):
    """Lognormal lengths, given by what people know of them."""

    mean: Tokens
    """Mean length."""
    cv: Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]
    """Coefficient of variation: standard deviation / mean; 0 means that all are equal."""


class Marginal(Spec):
    """The distribution of one length. Exactly one form is given."""

    fixed: Tokens | None = None
    """Every request has this length."""
    lognormal: Lognormal | None = None
    """Lengths spread lognormally about a mean."""

    @model_validator(mode="after")
    def _one_form(self) -> Marginal:
        _exactly_one(self, ("fixed", "lognormal"))
        return self


class Columns(Spec):
    """Where a trace keeps the two lengths."""

    prompt: str
    """Name of the column of prompt tokens."""
    output: str
    """Name of the column of output tokens."""


class Lengths(Spec):
    """Prompt and output lengths: a histogram, a trace, or two distributions.

    A histogram and a trace keep the correlation of the two lengths; ``prompt`` with
    ``output`` are independent of each other.
    """

    histogram: str | None = None
    """A joint histogram: a name of ``planner catalogue list lengths``, or a CSV file."""
    trace: str | None = None
    """A CSV or JSONL file (``.gz`` too) with one request a row, beside the scenario file."""
    columns: Columns | None = None
    """Column names of the trace, where they are not among the known ones."""
    prompt: Marginal | None = None
    """Prompt tokens, with ``output``."""
    output: Marginal | None = None
    """Output tokens, with ``prompt``."""

    @model_validator(mode="after")
    def _one_form(self) -> Lengths:
        if (self.prompt is None) != (self.output is None):
            given, missing = ("prompt", "output") if self.prompt else ("output", "prompt")
            raise ValueError(f"{given} is given but {missing} is not; give both")
        _exactly_one(self, ("histogram", "trace", "prompt"))
        if self.columns is not None and self.trace is None:
            raise ValueError("columns belong to a trace; remove them or name the trace")
        return self


def _exactly_one(document: Spec, forms: tuple[str, ...]) -> None:
    given = [form for form in forms if getattr(document, form) is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "none is given"
        raise mistake(f"give exactly one of {', '.join(forms)}; {what}", *given[1:2])
