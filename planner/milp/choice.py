"""The answer of one solve, in the words of the instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.milp.check import GAP_FLOOR, relative_gap
from planner.milp.objective import COSTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.milp.formulation import Model
    from planner.milp.nodes import Loss
    from planner.milp.objective import Objective
    from planner.milp.program import Floats

    Point = tuple[str, str]

NEGLIGIBLE = 1e-12
"""A weight that is no more than this share of a template's units is left out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One solve on the way to the answer."""

    theta: float
    """What was asked of a dollar: compliant req/s per USD/h; 0 for the other objectives."""
    goodput_rps: float
    """Compliant goodput of the fleet that was found, weighted by worth."""
    cost_usd_per_hour: float
    """Cost of the fleet that was found."""
    bound: float
    """Best bound of the objective known after this step, in the objective's unit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A fleet, and how good it is proven to be."""

    name: Objective
    """What was wanted."""
    units: Mapping[str, int]
    """Units by template, the most of any period; templates without units are left out."""
    weights: Mapping[Point, float]
    """Units of template j at point o (idle included), by (j, o), mean over the hours; zeros are
    left out."""
    units_in: Mapping[tuple[str, str, str], int]
    """n_jdt by (j, d, t); zeros are left out."""
    weights_in: Mapping[tuple[str, str, str], float]
    """x_jot by (j, o, t); zeros are left out."""
    shed_rps: Mapping[str, float]
    """Load that is turned away, by workload, req/s, mean over the hours."""
    lent: Mapping[tuple[str, str, str], int]
    """Units of template j lent to deferrable workload b in period t, by (j, b, t)."""
    deferred: Mapping[tuple[str, str], float]
    """What is done of deferrable workload b in slot k, requests, by (b, k)."""
    waiting: Mapping[tuple[str, str], float]
    """What of it waits at the end of slot k, requests, by (b, k)."""
    nodes: Mapping[str, int]
    """Nodes taken, by domain; zeros are left out."""
    losses: tuple[Loss, ...]
    """The failures that shaped the fleet; it survives all others too."""
    held: Mapping[tuple[str, str, str], int]
    """R_gcd: accelerators on steady terms, by (g, c, d); zeros are left out."""
    hired: Mapping[tuple[str, str, str, str], int]
    """O_gcdt: accelerators hired by period, by (g, c, d, t); zeros are left out."""
    on: Mapping[tuple[str, str, str], int]
    """Units of template j on way p, by (j, p, t); zeros are left out."""
    flow: Mapping[tuple[str, str, str], float]
    """What goes over way p, in units of j that send their most, by (j, p, t)."""
    started: Mapping[tuple[str, str, str, str, str], int]
    """Y_gcdab: of these, those started for b after a, by (g, c, d, a, b); zeros are left out."""
    goodput_rps: Mapping[str, float]
    """Compliant goodput by workload, req/s, mean over the hours."""
    bill: Mapping[str, float]
    """USD/h by cost term that there is; sums to ``cost_usd_per_hour``."""
    cost_usd_per_hour: float
    objective: float
    """Recomputed from the whole units: USD/h; req/s weighted by worth; req/s per USD/h."""
    bound: float
    """No fleet of these templates is better than this; infinite if nothing is proven."""
    gap: float
    """``|bound - objective| / objective``."""
    status: Literal["optimal", "feasible"]
    """``optimal``: the gap is at most what was asked for. ``feasible``: a limit came first."""
    steps: tuple[Step, ...]
    """The solves in their order: how the best ratio was closed in on."""
    coefficient_ratio: float
    """Largest over smallest coefficient of the rows: above 1e7 the numbers deserve a look."""

    @property
    def compliant_requests_per_usd(self) -> float:
        """Compliant requests of all workloads per dollar, unweighted; inf if nothing is paid."""
        goodput_rps = sum(self.goodput_rps.values())
        if self.cost_usd_per_hour == 0:
            return float("inf") if goodput_rps else 0.0
        return goodput_rps * 3600 / self.cost_usd_per_hour

    def unproven(self, asked: float) -> str:
        """Say why the fleet is not proven best to the gap that was asked for; empty if it is."""
        if self.status == "optimal":
            return ""
        return f"the solver proved no more than a gap of {self.gap:.2g}; {asked:.2g} was asked for"


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A fleet as columns, with its bound: what the objectives hand to :func:`choice_of`."""

    name: Objective
    x: Floats
    objective: float
    bound: float
    steps: tuple[Step, ...]


def choice_of(model: Model, found: Found, gap: float) -> Choice:
    """Put a found fleet into the words of the instance.

    Args:
        model: The written program.
        found: Columns, whole where they must be, and the bound.
        gap: Relative gap that was asked for.
    """
    data, v = model.data, model.v
    value = {var.name: float(y) for var, y in zip(model.problem.variables(), found.x, strict=True)}
    shares = data.shares()
    units_in = {i: round(value[n.name]) for i, n in v.n.items()}
    held = {i: round(value[n.name]) for i, n in v.N.items()}
    units = {j: max(held[j, t] for t in data.T) for j in data.J}
    weights_in = {
        (j, o, t): value[x.name]
        for (j, o, t), x in v.x.items()
        if value[x.name] > NEGLIGIBLE * held[j, t] and held[j, t]
    }
    weights: dict[Point, float] = {}
    for (j, o, t), weight in weights_in.items():
        weights[j, o] = weights.get((j, o), 0.0) + shares[t] * weight
    goodput_rps = dict.fromkeys(data.W, 0.0)
    for (j, o, w), rate in data.goodput_rps.items():
        goodput_rps[w] += rate * weights.get((j, o), 0.0)
    bill = {
        line: float(sum(a * value[var.name] for var, a in columns.items()))
        for line, term in COSTS.items()
        if (columns := term(data, v))
    }
    reached = relative_gap(found.objective, found.bound)
    return Choice(
        name=found.name,
        units={j: n for j, n in units.items() if n},
        weights=weights,
        units_in={i: n for i, n in units_in.items() if n},
        weights_in=weights_in,
        shed_rps={
            w: sum(share * value[v.z[w, t].name] for t, share in shares.items()) for w in data.W
        },
        lent={i: round(value[u.name]) for i, u in v.u.items() if round(value[u.name])},
        deferred={i: value[y.name] for i, y in v.y.items()},
        waiting={i: value[q.name] for i, q in v.q.items()},
        nodes={d: n for d, m in v.nodes.m.items() if (n := round(value[m.name]))},
        losses=data.nodes.losses if data.nodes else (),
        held={i: round(value[r.name]) for i, r in v.R.items() if round(value[r.name])},
        hired={i: round(value[o.name]) for i, o in v.O.items() if round(value[o.name])},
        on={i: n for i, on in v.links.on.items() if (n := round(value[on.name]))},
        flow={i: value[f.name] for i, f in v.links.flow.items()},
        started={i: round(value[y.name]) for i, y in v.Y.items() if round(value[y.name])},
        goodput_rps=goodput_rps,
        bill=bill,
        cost_usd_per_hour=sum(bill.values()),
        objective=found.objective,
        bound=found.bound,
        gap=reached,
        status="optimal" if reached <= max(gap, GAP_FLOOR) else "feasible",
        steps=found.steps,
        coefficient_ratio=model.program.coefficient_ratio(),
    )
