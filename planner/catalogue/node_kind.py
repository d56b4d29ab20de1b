"""A usual node: how many devices it holds, and over what they reach each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.ids import Slug
from planner.spec import Spec
from planner.units import Seconds


class NodeKind(Spec):
    """A shape of nodes that many makers share; rates are those of the accelerator in it."""

    format_version: Literal["1.0"] = "1.0"

    id: Slug
    """Lower-case name, such as ``nvlink-8``."""

    name: str
    """What it is, in words."""

    devices: Annotated[int, Field(ge=1, le=1024)]
    """Devices of one node."""

    link: Literal["scaleup", "pcie"]
    """Over what its devices reach each other: the accelerator's scale-up link, or the host's."""

    scaleup_devices: Annotated[int, Field(ge=1, le=4096)]
    """Devices that reach each other over that link; more than ``devices`` where it joins nodes."""

    latency: Seconds
    """Between two devices of a node."""

    source: str
    """Where the counts are from."""

    latency_source: str
    """Where the latency is from."""

    licence: str
    """Terms of the sources."""
