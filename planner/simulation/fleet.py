"""A whole fleet: every pool under its share of every workload, over several replications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.problem.arrivals import UserArrivals
from planner.simulation.interval import Estimate, attainment_interval
from planner.simulation.points import measured, simulated, store_at_hand
from planner.simulation.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from planner.problem.deadlines import Deadlines
    from planner.simulation.draw import Draws
    from planner.simulation.effort import Effort, RunSize
    from planner.simulation.meter import Meter
    from planner.simulation.point_store import PointStore
    from planner.simulation.pool import PoolRun, PoolSetup

Verdict = Literal["kept", "broken", "undecided"]


@dataclass(frozen=True, slots=True)
class FleetPool:
    """A pool and the load it gets of each workload, in requests per second."""

    setup: PoolSetup
    load_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FleetSample:
    """Every replication of every pool: ``runs[pool][replication]``."""

    pools: tuple[FleetPool, ...]
    runs: tuple[tuple[PoolRun, ...], ...]
    users: tuple[tuple[int, UserArrivals], ...] = ()
    """Workloads whose users wait for their answers."""

    def attainment(self) -> NDArray[np.float64]:
        """Return attainment by replication and workload: loads of the pools weigh it."""
        loads = np.array([pool.load_rps for pool in self.pools])
        if self.users:
            return self._attainment_of_users(loads)
        shares = np.array([[run.attainment for run in pool] for pool in self.runs])
        total = loads.sum(axis=0)
        weighted: NDArray[np.float64] = np.einsum("pw,prw->rw", loads, shares)
        return weighted / np.where(total > 0, total, 1.0)

    def _attainment_of_users(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return attainment where users wait: pools that answer faster are asked more often."""
        asked = loads[:, None, :] * self._paces()
        shares = np.array([[run.attainment for run in pool] for pool in self.runs])
        weighted: NDArray[np.float64] = (asked * shares).sum(axis=0)
        total = asked.sum(axis=0)
        return weighted / np.where(total > 0, total, 1.0)

    def _paces(self) -> NDArray[np.float64]:
        """Return how often users ask as a multiple of their load: (pool, replication, workload)."""
        paces = np.ones((len(self.runs), len(self.runs[0]), len(self.pools[0].load_rps)))
        for p, pool in enumerate(self.runs):
            for r, run in enumerate(pool):
                if run.response_s is None:
                    continue
                for w, law in self.users:
                    paces[p, r, w] = law.pace(float(run.response_s[w]))
        return paces

    def paces(self) -> NDArray[np.float64]:
        """Return the offered rate of each workload as a multiple of its load; 1 unless it waits."""
        loads = np.array([pool.load_rps for pool in self.pools])
        if not self.users:
            return np.ones(loads.shape[1])
        asked, total = self.asked_rps().sum(axis=0), loads.sum(axis=0)
        return np.asarray(np.where(total > 0, asked / np.where(total > 0, total, 1.0), 1.0))

    def asked_rps(self) -> NDArray[np.float64]:
        """Return the offered rate by pool and workload, requests per second."""
        loads = np.array([pool.load_rps for pool in self.pools])
        return loads * self._paces().mean(axis=1) if self.users else loads

    def intervals(self, groups: Sequence[tuple[int, ...]] | None = None) -> tuple[Estimate, ...]:
        """Return attainment with its 95 % interval.

        Args:
            groups: Workloads that count as one, by their loads; each for itself if left out.
        """
        by_replication = self.attainment()
        offered = np.atleast_1d(sum(run.offered for pool in self.runs for run in pool))
        load = np.sum([pool.load_rps for pool in self.pools], axis=0)
        found = []
        for group in groups or [(w,) for w in range(by_replication.shape[1])]:
            shares = by_replication[:, group[0]]
            if len(group) > 1:
                mine = list(group)
                shares = by_replication[:, mine] @ load[mine] / load[mine].sum()
            found.append(attainment_interval(shares.tolist(), int(offered[list(group)].sum())))
        return tuple(found)

    def hit_rates(self) -> tuple[float, ...]:
        """Return the share of prompt tokens that each workload found; loads of pools weigh it."""
        rates = []
        for w in range(len(self.pools[0].load_rps)):
            load = found = 0.0
            for pool, runs in zip(self.pools, self.runs, strict=True):
                prompt = sum(int(run.prompt_tokens[w]) for run in runs)
                cached = sum(int(run.cached_tokens[w]) for run in runs)
                found += pool.load_rps[w] * cached / prompt if prompt else 0.0
                load += pool.load_rps[w]
            rates.append(found / load if load else 0.0)
        return tuple(rates)

    def unstable(self) -> tuple[bool, ...]:
        """Tell for each pool whether its backlog grows in most replications."""
        return tuple(2 * sum(run.unstable for run in pool) > len(pool) for pool in self.runs)


@dataclass(frozen=True, slots=True)
class Study:
    """What all simulations of one problem share."""

    draws: Draws
    deadlines: Deadlines
    promise: tuple[float, ...]
    """Attainment promised to each workload."""
    meter: Meter
    points: PointStore | None = field(default_factory=store_at_hand)
    """Where measured points are remembered; None: nowhere."""


def sample_fleet(
    study: Study,
    pools: Sequence[FleetPool],
    size: RunSize,
    *,
    stream: int,
    multiple: float = 1.0,
    keep: bool = False,
    parts: bool = True,
) -> FleetSample:
    """Simulate a fleet several times.

    Args:
        study: Draws, deadlines and promises of the problem.
        pools: Pools that have a load.
        size: How long and how often.
        stream: Purpose of the random draws.
        multiple: All loads are multiplied by this.
        keep: Keep the latencies of every request.
        parts: With them where the time went.
    """
    total = sum(sum(pool.load_rps) for pool in pools)
    sizes = [
        p.setup.run_requests(round(size.requests * sum(p.load_rps) / total), size.per_replica)
        for p in pools
    ]
    draws = [
        [study.draws.named(p.load_rps, n, r, stream) for r in range(size.replications)]
        for p, n in zip(pools, sizes, strict=True)
    ]

    def one(job: tuple[int, int], _: object) -> PoolRun:
        p, r = job
        rate = sum(pools[p].load_rps) * multiple
        setup, draw = pools[p].setup, draws[p][r]
        if keep:
            return simulated(setup, draw, rate, study.deadlines, keep=True, parts=parts)
        return measured(study.points, setup, draw, rate, study.deadlines)

    jobs = [(p, r) for p in range(len(pools)) for r in range(size.replications)]
    runs = side_by_side(one, jobs)
    requests = sum(sizes) * size.replications
    users = tuple(
        (w, law) for w, law in enumerate(study.draws.arrivals) if isinstance(law, UserArrivals)
    )
    if users:
        requests = sum(run.simulated for run in runs)
    study.meter.count(requests)
    rows = tuple(
        tuple(runs[p * size.replications : (p + 1) * size.replications]) for p in range(len(pools))
    )
    return FleetSample(tuple(pools), rows, users)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return broken if any is, else undecided if any is, else kept."""
    found = {*verdicts}
    if "broken" in found:
        return "broken"
    return "undecided" if "undecided" in found else "kept"


def verdict_of(interval: Estimate, promise: float) -> Verdict:
    """Judge one promise: kept if the low end reaches it, broken if the high end does not."""
    if interval.low >= promise:
        return "kept"
    return "broken" if interval.high < promise else "undecided"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdicts on a fleet, with the longest sample that they rest on."""

    sample: FleetSample
    intervals: tuple[Estimate, ...]
    verdicts: tuple[Verdict, ...]
    over_time: tuple[Estimate | None, ...] = ()
    """Attainment over time of each workload whose promise counts there; by workload, or empty."""

    @property
    def verdict(self) -> Verdict:
        """The fleet's: broken if any promise is, else undecided if any is, else kept."""
        return worst(self.verdicts)


def judge_fleet(
    study: Study,
    pools: Sequence[FleetPool],
    *,
    effort: Effort,
    stream: int,
    half_width: float | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Judgement:
    """Simulate a fleet until each promise is kept or broken, or the run is long enough.

    The run doubles while a verdict is undecided. A pool whose backlog still grows in the
    longest run breaks the promises of the workloads it serves, whatever they attained so far.

    Args:
        study: Draws, deadlines and promises of the problem.
        pools: Pools that have a load.
        effort: How long and how often at first, and how long at most.
        stream: Purpose of the random draws.
        half_width: If given, the run also doubles while the 95 % interval of a workload's
            attainment is wider than twice this.
        over: Asked before a run is made longer; if the time is over, verdicts stay as they are.
    """
    size = effort.verify
    while True:
        sample = sample_fleet(study, pools, size, stream=stream)
        intervals = sample.intervals()
        verdicts = [verdict_of(i, p) for i, p in zip(intervals, study.promise, strict=True)]
        growing = [pool for pool, grows in zip(pools, sample.unstable(), strict=True) if grows]
        shaky = {w for pool in growing for w, load in enumerate(pool.load_rps) if load > 0}
        open_question = (
            "undecided" in verdicts
            or any(verdicts[w] != "broken" for w in shaky)
            or (half_width is not None and any(i.half_width > half_width for i in intervals))
        )
        if not open_question or 2 * size.requests > effort.verify_limit or over():
            break
        size = size.doubled()
    final: list[Verdict] = ["broken" if w in shaky else v for w, v in enumerate(verdicts)]
    return Judgement(sample, intervals, tuple(final))
