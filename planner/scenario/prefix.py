"""What prompts begin with, where an engine that keeps prefixes could find it computed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Fraction, Tokens

MOST_TEXTS: int = 10**6


class PopularTexts(Spec):
    """Several known texts, one of which prompts go on with; few are asked for often."""

    count: Annotated[int, Field(ge=1, le=MOST_TEXTS)]
    """How many there are."""
    tokens: Tokens
    """Length of each."""
    zipf: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = 1.0
    """The k-th most popular is chosen with a weight of k to the power of minus this; 0: all
    alike."""
    share: Annotated[Fraction, Field(gt=0)] = 1.0
    """Share of the requests that go on with one."""


_FORMS = ("trace", "history", "hit_rate")


class Prefix(Spec):
    """What prompts begin with. One of: a trace, the history of sessions, known texts, a rate.

    How much of it is found computed follows from the router and the size of the caches, but for
    ``hit_rate``, which is an assumption.
    """

    trace: str | None = None
    """Trace whose requests name the blocks of their prompts; the same file as ``lengths.trace``
    and ``arrivals.replay``, as reuse depends on who comes after whom."""

    history: Literal[True] | None = None
    """Turns of ``arrivals.sessions`` begin with what was said before."""

    system_prompt: Tokens | None = None
    """First tokens of every prompt, the same for all; the lengths count them."""
    popular: PopularTexts | None = None
    """What prompts go on with after the system prompt, if any; the lengths count it."""

    hit_rate: Fraction | None = None
    """Share of the whole blocks of prompts that is found, wherever a request goes: an
    assumption, and the plan says so."""

    @model_validator(mode="after")
    def _one_form(self) -> Prefix:
        given = [form for form in _FORMS if getattr(self, form) is not None]
        if self.system_prompt is not None or self.popular is not None:
            given.append("popular" if self.popular is not None else "system_prompt")
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "none is given"
            raise mistake(
                "give one of trace, history, hit_rate, or system_prompt with or without popular;"
                f" {what}",
                *given[1:2],
            )
        return self
