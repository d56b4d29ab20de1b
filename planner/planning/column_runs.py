"""What pricing simulates of templates: one run at a load, a short search, or a whole frontier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.candidates.columns import pool_size
from planner.candidates.frontier import measure_frontier, setup_of
from planner.simulation.capacity import SCREENING, coarse_capacity, margin_at
from planner.simulation.side_by_side import THREADS, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Template
    from planner.planning.clock import Clock
    from planner.planning.teller import Teller
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

    Job = tuple[Template, float]
    """A template, and a load of one unit in requests per second."""

OTHER_SIZE: Final = 2.0
"""Ratio of the pool that a capacity asks for to that in which it was found from which it is sought
again: a pool shares bursts and long requests, so that units carry more in a larger one."""
MOST_SIZES: Final = 3
"""Pools in which the capacity of one template is sought."""


@dataclass(slots=True)
class ColumnRuns:
    """Simulates templates in the pools that their loads ask for, several at once."""

    study: Study
    router: Routing
    effort: Effort
    clock: Clock
    tell: Teller
    threads: int = THREADS
    """Templates at once; results do not depend on it."""

    def margins(self, jobs: Sequence[Job]) -> list[float]:
        """Return by how much pools keep their promises at loads of one unit, by one short run."""
        return side_by_side(self._margin, jobs, check=self.clock.check, threads=self.threads)

    def searched_rps(self, jobs: Sequence[Job]) -> list[float]:
        """Return the load that a unit carries by a short search from a guess; 0 for none."""
        return side_by_side(self._searched_rps, jobs, check=self.clock.check, threads=self.threads)

    def frontiers(self, jobs: Sequence[Job]) -> list[Frontier | None]:
        """Measure templates, from guesses; None where the promise holds at no load."""
        return side_by_side(self._frontier, jobs, check=self.clock.check, threads=self.threads)

    def _margin(self, job: Job, _: Callable[[], None]) -> float:
        template, load_rps = job
        size = pool_size(template, load_rps)
        setup = setup_of(template.build, size, self.router)
        run = self.effort.search
        requests = setup.run_requests(self.effort.screen_requests, run.per_replica)
        draw = self.study.draws.named(template.mix_rps, requests, 0, SCREENING)
        return margin_at(self.study, setup, draw, load_rps * size)

    def _searched_rps(self, job: Job, go_on: Callable[[], None]) -> float:
        template, rate = job
        size = 0
        for _ in range(MOST_SIZES):
            if rate <= 0 or not _asks_for_other(template, rate, size):
                break
            size = pool_size(template, rate)
            setup = setup_of(template.build, size, self.router)
            each = max(
                self.effort.screen_requests // setup.simulated, self.effort.search.per_replica
            )
            mix = template.mix_rps
            rate = coarse_capacity(self.study, setup, mix, rate * size, each, go_on) / size
        return rate

    def _frontier(self, job: Job, go_on: Callable[[], None]) -> Frontier | None:
        template, rate = job
        self.tell(f"measuring {template.id}")
        size, frontier = 0, None
        for _ in range(MOST_SIZES):
            if not _asks_for_other(template, rate, size):
                break
            size = pool_size(template, rate)
            frontier = measure_frontier(
                self.study, template, self.router, size, rate, self.effort, go_on
            )
            if frontier is None:
                break
            rate = frontier.capacity_rps.value
        return frontier


def _asks_for_other(template: Template, rate_rps: float, size: int) -> bool:
    """Tell whether a load of one unit asks for a pool of quite another size; 0: none yet."""
    wanted = pool_size(template, rate_rps)
    return not (size / OTHER_SIZE < wanted < size * OTHER_SIZE)
