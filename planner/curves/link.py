"""A curve on nodes whose devices are joined otherwise than where it was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.curves.roofline import Degrees, formats_of, geometry_of, roofline

if TYPE_CHECKING:
    from planner.catalogue import Accelerator
    from planner.curves.curve import Curve
    from planner.topology import NodeShape


def joined_by(accelerator: Accelerator, bytes_per_s: float, transport: str) -> Accelerator:
    """Return an accelerator whose devices reach each other over another link than usual."""
    if transport == "pcie":
        change = {"scaleup_bandwidth": None, "scaleup_domain": 1, "pcie_bandwidth": bytes_per_s}
    else:
        change = {"scaleup_bandwidth": bytes_per_s}
    return accelerator.model_copy(update=change)


def over_link(curve: Curve, shape: NodeShape, *, crosses: bool = False) -> Curve:
    """Return the curve of replicas on nodes of a shape.

    What collectives take longer over the nodes' link than over the one of the measurement is
    added to every step, by the roofline of both; a faster link gains nothing. One device sends
    nothing, and laws of the user's own measurements hold for the user's nodes as they are.

    Args:
        curve: As it was measured, over the accelerator's usual link.
        shape: What joins the devices of the nodes.
        crosses: Whether the replica lies over several scale-up domains: then the nodes' network
            is what its collectives go over.

    Raises:
        InputError: The catalogue knows too little of the model to say what is sent.
    """
    usual = curve.accelerator
    link = usual.scaleup_bandwidth or usual.pcie_bandwidth
    rate, transport = shape.scaleup.bytes_per_s, shape.scaleup.transport
    name = "PCIe" if transport == "pcie" else "the nodes' link"
    if crosses and shape.network_bytes_per_s is not None:
        across = shape.network_bytes_per_s / shape.devices
        if across < rate:
            rate, transport, name = across, "pcie", "the network"
    own = curve.row.origin is not None  # measured on the nodes that the scenario is about
    if own or curve.accelerators == 1 or (link is not None and rate >= link):
        return curve
    geometry = geometry_of(curve.llm)
    formats = formats_of(curve.precision, geometry.family)
    degrees = Degrees(curve.accelerators, curve.layout.dp_degree, curve.layout.ep_degree)
    here = roofline(geometry, formats, joined_by(usual, rate, transport), degrees).law
    there = roofline(geometry, formats, usual, degrees).law
    law = curve.step_law
    longer = [max(0.0, float(here.tokens_s(n)) - float(there.tokens_s(n))) for n in law.knots]
    slope = max(0.0, here.slope_beyond_s_per_token - there.slope_beyond_s_per_token)
    return replace(
        curve,
        step_law=replace(
            law,
            step_s=tuple(t + more for t, more in zip(law.step_s, longer, strict=True)),
            slope_beyond_s_per_token=law.slope_beyond_s_per_token + slope,
        ),
        source=f"{curve.source}, with collectives over {name} at {rate / 1e9:g} GB/s",
        caveat=f"{curve.caveat}; what collectives take longer over {name} is a roofline's",
    )
