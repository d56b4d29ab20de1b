"""Which replica gets the next request."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from planner.kernels.stepwise.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.kernels.stepwise.engine import Engine
    from planner.kernels.stepwise.options import RouterOptions
    from planner.kernels.stepwise.request import Job


class Router:
    """Chooses among engines by what is seen at the instant of arrival.

    Step and transfer completions of that instant are seen, and so are requests routed before
    in the same instant. Ties go to the lowest index.
    """

    def __init__(self, options: RouterOptions, engines: Sequence[Engine]) -> None:
        self._options = options
        self._engines = engines
        self._turn: dict[int, int] = {}

    def choose(self, job: Job) -> int:
        """Return the index of the replica that gets ``job``."""
        route, engines = self._options.route, self._engines
        if route == "least_outstanding":
            return min(range(len(engines)), key=lambda i: (engines[i].outstanding, i))
        if route == "least_kv":
            return min(range(len(engines)), key=self._kv_then_outstanding)
        if route == "prefix_affinity":
            slack = self._options.slack
            fewest = min(engine.outstanding for engine in engines)
            near = [
                i
                for i, engine in enumerate(engines)
                if slack is None or engine.outstanding <= fewest + slack
            ]
            return min(near, key=lambda i: self._least_cached(job, i))
        return self._in_turn(job)

    def _kv_then_outstanding(self, i: int) -> tuple[int, int, int]:
        engine = self._engines[i]
        return (engine.state.pool.held, engine.outstanding, i)

    def _least_cached(self, job: Job, i: int) -> tuple[int, int, int]:
        """Rank a replica: the longest cached prefix first, then the fewest requests."""
        engine = self._engines[i]
        probe = Request(rank=-1, job=job, arrival=job.arrival, target=1, limit=1)
        return (-len(engine.state.pool.lookup(probe)), engine.outstanding, i)

    def _in_turn(self, job: Job) -> int:
        """Go round the replicas, or round those of the job's length band or class."""
        options, group = self._options, 0
        members: Sequence[int] = range(len(self._engines))
        if options.route == "by_length":
            group = min(bisect_left(options.boundaries, job.prompt), len(options.groups) - 1)
            members = options.groups[group]
        elif options.route == "by_class":
            group = job.group % len(options.groups)
            members = options.groups[group]
        turn = self._turn.get(group, 0)
        self._turn[group] = turn + 1
        return members[turn % len(members)]


class GroupRouters:
    """A router for each group of engines: a job stays in the group that its class says."""

    def __init__(self, options: RouterOptions, engines: Sequence[Engine], groups: int) -> None:
        self._each = len(engines) // groups
        cuts = range(0, len(engines), self._each)
        self._routers = [Router(options, engines[i : i + self._each]) for i in cuts]

    def choose(self, job: Job) -> int:
        """Return the index, among all engines, of the replica that gets ``job``."""
        group = job.group % len(self._routers)
        return group * self._each + self._routers[group].choose(job)
