"""How the experts of a model are laid over the ranks of a replica: sliced, or whole ones each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.curves.curve import Curve, NoCurve, curves

if TYPE_CHECKING:
    from planner.catalogue import Catalogue
    from planner.scenario.policies import ExpertParallel


def expert_layouts(
    catalogue: Catalogue, curve: Curve, choice: ExpertParallel
) -> tuple[Curve, ...] | NoCurve:
    """Return the curves that differ from one in nothing but ``ep_degree``, ascending.

    Only layouts with step laws of their own are candidates. Weights and KV cache take the same
    bytes either way: experts are shared out over the same devices, and attention is not touched.

    Args:
        catalogue: With the step laws.
        curve: Of a model, precision, accelerator, engine and the other degrees.
        choice: Whether to take sliced experts, whole ones, or both.
    """
    if curve.llm.experts is None:
        return (curve,)
    alike: dict[int, Curve] = {curve.layout.ep_degree: curve}
    others = curves(catalogue, curve.llm.id, curve.accelerator.id, curve.engine, curve.precision)
    for other in others:
        here, there = curve.layout, other.layout
        if (here.tp_degree, here.pp_degree, here.dp_degree) == (
            there.tp_degree,
            there.pp_degree,
            there.dp_degree,
        ):
            alike.setdefault(there.ep_degree, other)
    devices = curve.layout.tp_degree * curve.layout.dp_degree
    chosen = tuple(
        alike[degree]
        for degree in sorted(alike)
        if choice == "search" or devices == 1 or (degree > 1) == (choice == "always")
    )
    if chosen:
        return chosen
    known = ", ".join(found.id for found in alike.values())
    return NoCurve(
        f"policies.expert_parallel is {choice}, and there are {known}",
        tuple(found.id for found in alike.values()),
    )
