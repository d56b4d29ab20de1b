"""How much to simulate. More where a decision depends on it, less without a compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.kernels import COMPILED


@dataclass(frozen=True, slots=True)
class RunSize:
    """How long and how often a pool or fleet is simulated."""

    requests: int
    """Per replication, over all pools."""
    replications: int
    """Independent runs, each with its own draws."""
    per_replica: int
    """Requests per simulated replica in a replication, at least: a run must be long against the
    time that a request stays."""

    def doubled(self) -> RunSize:
        """Return runs twice as long."""
        return RunSize(2 * self.requests, self.replications, 2 * self.per_replica)

    def halved(self) -> RunSize:
        """Return runs half as long."""
        return RunSize(self.requests // 2, self.replications, self.per_replica // 2)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to simulate, by purpose."""

    screen_requests: int
    """One run of the coarse search on one replica."""
    search: RunSize
    """The search for a pool's capacity, and its operating points."""
    verify: RunSize
    """The fleet, at first; doubled while a verdict is undecided."""
    verify_limit: int
    """Requests per replication at which an undecided verdict stays so."""
    capacity_requests: int
    """One run near the capacity of a single template, where that is the question."""
    capacity_replications: int
    """Replications of that search at most; fewer if the interval is narrow enough."""

    def halved(self) -> Effort:
        """Return runs half as long; where a verdict needs longer ones they still double.

        For requests that cost several times as much: those of pools that keep prefixes.
        """
        return replace(
            self,
            screen_requests=self.screen_requests // 2,
            search=self.search.halved(),
            verify=self.verify.halved(),
            capacity_requests=self.capacity_requests // 2,
        )


COMPILED_EFFORT = Effort(
    20_000, RunSize(60_000, 6, 5_000), RunSize(60_000, 8, 5_000), 960_000, 100_000, 40
)
PLAIN_EFFORT = Effort(
    5_000, RunSize(12_000, 4, 2_000), RunSize(12_000, 5, 4_000), 48_000, 20_000, 12
)


def default_effort() -> Effort:
    """Return the effort that suits the kernel at hand; the plain one states wider intervals."""
    return COMPILED_EFFORT if COMPILED else PLAIN_EFFORT
