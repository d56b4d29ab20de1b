"""What prompts of a workload begin with, as numbers: which requests can share computed prefixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TracePrefixes:
    """Each replayed request begins with the blocks that the trace names."""

    block_tokens: int


@dataclass(frozen=True, slots=True)
class HistoryPrefixes:
    """Each turn of a session begins with all that was said before."""


@dataclass(frozen=True, slots=True)
class SharedPrefixes:
    """Prompts begin with one system prompt, and some go on with one of several known texts.

    The k-th most popular of them is chosen with a weight of k to the power of ``-zipf``. A prompt
    that is shorter than its prefix shares as much as it holds.
    """

    system_tokens: int
    count: int
    """Texts to choose from; 0: there is only the system prompt."""
    tokens: int
    """Of each text."""
    zipf: float
    share: float
    """Of the requests that go on with one."""


@dataclass(frozen=True, slots=True)
class ConstantHits:
    """A share of all whole prompt blocks is found, wherever a request goes: an assumption."""

    rate: float


PrefixLaw = TracePrefixes | HistoryPrefixes | SharedPrefixes | ConstantHits


def can_find(law: PrefixLaw | None) -> bool:
    """Tell whether any cache could find anything of a workload's prompts."""
    return law is not None and not (isinstance(law, ConstantHits) and law.rate == 0)
