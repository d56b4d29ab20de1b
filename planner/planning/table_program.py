"""From measured capacities to the program's data, and from its solution to units and loads.

A bucket of request sizes is a workload of the program, a unit of the table a template, and
"serves nothing but this bucket, at its measured capacity" an operating point. Weights on points
add, so that a rate r of a bucket takes r / capacity units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.milp import Instance, choose

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.milp import Choice
    from planner.problem.tables import TableProblem


@dataclass(frozen=True, slots=True)
class TableProgram:
    """The data of the solve; names of the table are mapped to such as the program can bear."""

    problem: TableProblem
    instance: Instance
    template_ids: Mapping[str, str]
    accelerator_ids: Mapping[str, str]

    @classmethod
    def of(cls, problem: TableProblem) -> TableProgram:
        """Write down what can be bought and what is demanded."""
        j_of = _program_ids(t.id for t in problem.templates)
        g_of = _program_ids(s.accelerator for s in problem.supplies)
        demand = {bucket.id: bucket.rate_rps for bucket in problem.demanded}
        rates = {
            (j_of[t.id], bucket, bucket): capacity
            for t in problem.templates
            for bucket, capacity in t.capacity_rps.items()
            if bucket in demand
        }
        instance = Instance(
            W=tuple(demand),
            J=tuple(j_of.values()),
            G=tuple(g_of.values()),
            O={
                j_of[t.id]: tuple(bucket for bucket in t.capacity_rps if bucket in demand)
                for t in problem.templates
            },
            demand_rps=demand,
            # At a point every request is within its deadlines: what C2 and C5 have served is
            # compliant, and C3 would say it once more.
            promise=dict.fromkeys(demand, 0.0),
            load_rps=rates,
            goodput_rps=rates,
            devices={j_of[t.id]: t.devices for t in problem.templates},
            accelerator_of={j_of[t.id]: g_of[t.accelerator] for t in problem.templates},
            usd_per_hour={j_of[t.id]: problem.usd_per_hour(t) for t in problem.templates},
            stock={g_of[s.accelerator]: s.stock for s in problem.supplies if s.stock is not None},
            shed_limit=dict.fromkeys(demand, problem.shed_limit) if problem.shed_limit else {},
            budget_usd_per_hour=problem.budget_usd_per_hour,
        )
        return cls(problem, instance, j_of, g_of)

    def choose(self) -> Choice:
        """Solve the program once."""
        problem = self.problem
        return choose(
            self.instance,
            problem.objective,
            time_limit_s=problem.time_limit_s,
            gap=problem.gap,
            seed=problem.seed,
            solver=problem.solver,
        )

    def units(self, choice: Choice) -> dict[str, int]:
        """Return the units of each template of the table that is in the fleet."""
        found = {t: choice.units.get(j, 0) for t, j in self.template_ids.items()}
        return {t: n for t, n in found.items() if n}

    def loads(self, choice: Choice) -> dict[tuple[str, str], float]:
        """Return the busy units by template and bucket."""
        loads = {
            (t, bucket.id): choice.weights.get((j, bucket.id), 0.0)
            for t, j in self.template_ids.items()
            for bucket in self.problem.demanded
        }
        return {key: weight for key, weight in loads.items() if weight > 0}


def _program_ids(names: Iterable[str]) -> dict[str, str]:
    """Map names of any spelling to ids of the program, as like as can be and each its own."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9@.:-]", "-", name)
        unique, count = plain, 1
        while unique in taken:
            count += 1
            unique = f"{plain}:{count}"
        taken.add(unique)
        ids[name] = unique
    return ids
