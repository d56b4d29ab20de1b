"""How much to simulate. More where a decision depends on it, less without a compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass

from planner.kernels import COMPILED


@dataclass(frozen=True, slots=True)
class Effort:
    """Requests per run and numbers of replications, by purpose."""

    screen_requests: int
    """One run of the coarse search on one replica."""
    search_requests: int
    """One run of the search on a whole pool."""
    search_replications: int
    verify_requests: int
    """One replication of the fleet, at first; doubled while a verdict is undecided."""
    verify_replications: int
    verify_limit: int
    """Requests per replication at which an undecided verdict stays so."""
    capacity_requests: int
    """One run near the capacity of a single template, where that is the question."""
    capacity_replications: int
    """Replications of that search at most; fewer if the interval is narrow enough."""


COMPILED_EFFORT = Effort(20_000, 60_000, 6, 60_000, 8, 960_000, 100_000, 40)
PLAIN_EFFORT = Effort(5_000, 12_000, 4, 12_000, 5, 48_000, 20_000, 12)


def default_effort() -> Effort:
    """Return the effort that suits the kernel at hand; the plain one states wider intervals."""
    return COMPILED_EFFORT if COMPILED else PLAIN_EFFORT
