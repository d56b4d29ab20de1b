"""A curve on nodes whose devices are joined otherwise than where it was measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.curves.roofline import TYPICAL, Degrees, formats_of, geometry_of, roofline

if TYPE_CHECKING:
    from planner.catalogue import Accelerator
    from planner.curves.curve import Curve
    from planner.curves.roofline import Geometry
    from planner.topology import NodeShape


def joined_by(accelerator: Accelerator, bytes_per_s: float, transport: str) -> Accelerator:
    """Return an accelerator whose devices reach each other over another link than usual."""
    if transport == "pcie":
        change = {"scaleup_bandwidth": None, "scaleup_domain": 1, "pcie_bandwidth": bytes_per_s}
    else:
        change = {"scaleup_bandwidth": bytes_per_s}
    return accelerator.model_copy(update=change)


@dataclass(frozen=True, slots=True)
class Across:
    """What joins the scale-up domains over which one replica lies."""

    parts: int
    """Scale-up domains of the replica, two or more."""
    device_bytes_per_s: float
    """What each device has of the network, one direction, with all of its node sending."""
    latency_s: float


def over_link(curve: Curve, shape: NodeShape, across: Across | None = None) -> Curve:
    """Return the curve of replicas on nodes of a shape.

    What collectives take longer over the nodes' link than over the one of the measurement is
    added to every step, by the roofline of both; a faster link gains nothing. One device sends
    nothing, and laws of the user's own measurements hold for the user's nodes as they are.

    Args:
        curve: As it was measured, over the accelerator's usual link.
        shape: What joins the devices of the nodes.
        across: The network, where the replica lies over several scale-up domains.

    Raises:
        InputError: The catalogue knows too little of the model to say what is sent.
    """
    usual = curve.accelerator
    link = usual.scaleup_bandwidth or usual.pcie_bandwidth
    rate, transport = shape.scaleup.bytes_per_s, shape.scaleup.transport
    own = curve.row.origin is not None  # measured on the nodes that the scenario is about
    if own or curve.accelerators == 1 or (across is None and link is not None and rate >= link):
        return curve
    law = curve.step_law
    geometry = geometry_of(curve.llm)
    if across is not None:
        name = f"the network between {across.parts} scale-up domains"
        told = across.device_bytes_per_s
        per_token, fixed = _across(curve, geometry, link or rate, rate, across)
        longer = [max(0.0, fixed + per_token * n) for n in law.knots]
        slope = max(0.0, per_token)
    else:
        name, told = "PCIe" if transport == "pcie" else "the nodes' link", rate
        formats = formats_of(curve.precision, geometry.family)
        degrees = Degrees(curve.accelerators, curve.layout.dp_degree, curve.layout.ep_degree)
        here = roofline(geometry, formats, joined_by(usual, rate, transport), degrees).law
        there = roofline(geometry, formats, usual, degrees).law
        longer = [max(0.0, float(here.tokens_s(n)) - float(there.tokens_s(n))) for n in law.knots]
        slope = max(0.0, here.slope_beyond_s_per_token - there.slope_beyond_s_per_token)
    return replace(
        curve,
        step_law=replace(
            law,
            step_s=tuple(t + more for t, more in zip(law.step_s, longer, strict=True)),
            slope_beyond_s_per_token=law.slope_beyond_s_per_token + slope,
        ),
        source=f"{curve.source}, with collectives over {name} at {told / 1e9:g} GB/s a device",
        caveat=f"{curve.caveat}; what collectives take longer over {name} is a roofline's",
    )


def _across(
    curve: Curve, g: Geometry, usual: float, rate: float, across: Across
) -> tuple[float, float]:
    """Return what all-reduces of a step take longer over a network: by token, and in any case.

    By levels, as collective libraries do it: the devices of a scale-up domain reduce and scatter
    among themselves, each then all-reduces its part with its peers in the other domains over its
    own share of the network, and the parts are gathered again. Of S bytes a device sends
    2 S (k - 1)/k within its domain of k, and 2 S/k (m - 1)/m to its m - 1 peers in 2 (m - 1) turns.
    The measured law has 2 S (d - 1)/d over the usual link instead.
    """
    d, m = curve.accelerators // curve.layout.pp_degree, across.parts
    k = max(1, d // m)
    sent = 2.0 * g.hidden  # bytes of a token's values, at 16 bits
    within = 2 * (k - 1) / k / rate
    between = 2 * (m - 1) / m / k / across.device_bytes_per_s
    longer = (within + between - 2 * (d - 1) / d / usual) * sent / TYPICAL.link
    return 2 * g.layers * longer, 2 * g.layers * 2 * (m - 1) * across.latency_s
