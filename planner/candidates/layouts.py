"""Over how many devices a replica may be laid, and how: slices, ranks, whole experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.candidates.template import Removed, hardware_name
from planner.curves.curve import curves
from planner.problem.arrivals import UserArrivals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.catalogue import Catalogue
    from planner.curves.curve import Curve
    from planner.problem.resolve import Demand, Problem, Supply


def attention_dp_curves(
    problem: Problem, catalogue: Catalogue, demands: Sequence[Demand], what: tuple[str, Supply]
) -> list[Curve]:
    """Return the curves of replicas whose ranks share out requests, by degrees ascending.

    Only layouts with step laws of their own are candidates. With the same number of devices,
    latent attention's KV cache is kept once instead of on every rank, and a rank reads all of
    attention's weights instead of a slice: which is better is what the simulation says.

    Args:
        problem: Policies.
        catalogue: With the step laws.
        demands: Of one model.
        what: Precision of the weights, and the accelerator on offer.
    """
    precision, supply = what
    policies = problem.policies
    if policies.attention_dp == "never":
        return []
    found = curves(catalogue, demands[0].llm.id, supply.accelerator.id, policies.engine, precision)
    mine = [c for c in found if c.layout.dp_degree > 1 and c.layout.pp_degree == 1]
    mine = [c for c in mine if c.layout.tp_degree in policies.tp_degrees]
    if policies.expert_parallel != "search":
        whole = policies.expert_parallel == "always"
        mine = [c for c in mine if (c.layout.ep_degree > 1) == whole]
    return sorted(mine, key=lambda c: (c.layout.devices, c.layout.tp_degree, c.id))


def why_not_ranks_in_stages(ranked: Sequence[Curve], stages: Sequence[int]) -> Iterator[Removed]:
    """Yield why replicas of ranks are not put in pipeline stages, where stages are asked for.

    Args:
        ranked: Curves of replicas of ranks.
        stages: Degrees that the scenario lists.
    """
    why = (
        "ranks take their steps together, and stages have several under way: the two are not"
        " simulated together"
    )
    for curve in ranked:
        for degree in sorted(pp for pp in stages if pp > 1):
            layout = replace(curve.layout, pp_degree=degree)
            yield Removed(hardware_name(curve.accelerator.id, layout, curve.precision), why, {})


def why_not_step_wise(demands: Sequence[Demand]) -> str | None:
    """Say why ranks and stages cannot be simulated for the workloads of a model; None if so."""
    wait = [d.id for d in demands if isinstance(d.arrivals, UserArrivals)]
    if not wait:
        return None
    return (
        f"users who wait for their answers ({', '.join(wait)}) are simulated on replicas of one"
        " rank and one stage only"
    )
