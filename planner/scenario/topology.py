"""Where nodes stand, what links them, and how far users are from them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.errors import nearest
from planner.ids import Slug
from planner.spec import Spec, mistake
from planner.topology.document import MOST_NODES
from planner.units import BytesPerSecond, Seconds


class NodeLink(Spec):
    """What joins the devices of a node."""

    technology: Literal["scaleup", "pcie"]
    """``scaleup``: the accelerator's own link (NVLink, Infinity Fabric). ``pcie``: the host's."""
    devices: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Devices that reach each other over it; those of a node where left out."""
    bandwidth: BytesPerSecond | None = None
    """Per device, one direction; the catalogue's where left out."""
    latency: Seconds | None = None
    """Between two devices; 10 us where left out."""

    @model_validator(mode="after")
    def _carries_something(self) -> NodeLink:
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise mistake("must be above 0; a node whose devices are apart has none", "bandwidth")
        return self


class Nodes(Spec):
    """Nodes of one kind in one place."""

    id: Slug | None = None
    """Name of the domain that they make; made of place and accelerator where left out."""
    accelerator: str
    """One of the scenario's ``accelerators``."""
    preset: Slug | None = None
    """Shape of a usual node, such as ``nvlink-8``, ``nvl72-tray`` or ``pcie-8``."""
    devices: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Devices of one node, where no preset says it."""
    link: NodeLink | None = None
    """What joins them, where no preset says it; PCIe is assumed if neither does."""
    network: BytesPerSecond | None = None
    """What a node sends to others at most; the catalogue's usual rate per device, times devices,
    where left out."""
    count: Annotated[int, Field(ge=1, le=MOST_NODES)] = 1
    """How many nodes; in each rack, where ``racks`` are given."""
    free: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Devices of each node that are not used by others, the last ones; all where left out."""
    region: Slug = "region"
    """Where they stand."""
    zone: Slug = "zone"
    """Part of the region that fails alone."""
    rack: Slug | None = None
    """Which rack; not told apart where left out."""
    racks: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Racks of ``count`` nodes each, numbered from 1."""

    @model_validator(mode="after")
    def _one_shape(self) -> Nodes:
        for key in ("devices", "link"):
            if self.preset is not None and getattr(self, key) is not None:
                raise mistake("is said by the preset; keep one of the two", key)
        if self.preset is None and self.devices is None:
            raise mistake("give a preset, or the devices of a node")
        return self

    @model_validator(mode="after")
    def _sends_something(self) -> Nodes:
        if self.network is not None and self.network <= 0:
            raise mistake("must be above 0; leave it out where nobody knows", "network")
        return self

    @model_validator(mode="after")
    def _not_too_many(self) -> Nodes:
        if self.count * (self.racks or 1) > MOST_NODES:
            raise mistake(f"at most {MOST_NODES:,} nodes; got more in all racks", "racks")
        return self


class DomainLink(Spec):
    """What joins the parts of one level."""

    bandwidth: BytesPerSecond | None = None
    """What one node can send over it, one direction; the node's ``network`` where left out."""
    latency: Seconds | None = None
    """From node to node; 10 us for ``rdma`` where left out."""
    transport: Literal["rdma", "tcp"] = "rdma"
    """How KV is moved over it."""
    oversubscription: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = 1.0
    """How many times what its members can send is more than it carries."""

    @model_validator(mode="after")
    def _latency_is_known(self) -> DomainLink:
        if self.transport == "tcp" and self.latency is None:
            raise mistake("tcp has no usual latency; add it, such as 'latency: 50 us'")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise mistake("must be above 0; leave out a link that carries nothing", "bandwidth")
        return self


class DomainLinks(Spec):
    """What joins nodes whose nearest common place is a rack, a zone, a region or the world."""

    rack: DomainLink = DomainLink()
    """Between nodes of one rack."""
    zone: DomainLink = DomainLink()
    """Between racks of one zone, or nodes whose racks are not told apart."""
    region: DomainLink | None = None
    """Between zones of one region; nothing is moved between them where left out."""
    world: DomainLink | None = None
    """Between regions; nothing is moved between them where left out."""


class Users(Spec):
    """How far the users of some workloads are from each region."""

    origin: Slug
    """Name that workloads give as their ``origin``."""
    round_trip: dict[Slug, Seconds] = Field(min_length=1)
    """By region: network time there and back, which counts in every TTFT."""


class Topology(Spec):
    """Nodes in their places. A plan is then placed on them, node by node."""

    nodes: tuple[Nodes, ...] = Field(min_length=1, max_length=10_000)
    """All nodes that may be used."""

    links: DomainLinks = DomainLinks()
    """What joins nodes, by their nearest common place."""

    users: tuple[Users, ...] = Field(default=(), max_length=1000)
    """Where requests come from; users are next to the fleet where left out."""

    tp_may_cross: bool = False
    """Whether a tensor-parallel replica may lie over several scale-up domains."""

    @model_validator(mode="after")
    def _round_trips_name_regions(self) -> Topology:
        regions = sorted({n.region for n in self.nodes})
        seen: set[str] = set()
        for i, users in enumerate(self.users):
            if users.origin in seen:
                raise mistake(f"{users.origin!r} is given twice; keep one", "users", i, "origin")
            seen.add(users.origin)
            for name in users.round_trip:
                if name not in regions:
                    what = f"no node stands in region {name!r}; {nearest(name, regions)}"
                    raise mistake(what, "users", i, "round_trip", name)
            for name in regions:
                if name not in users.round_trip:
                    what = f"region {name!r} has nodes but no round trip; add it"
                    raise mistake(what, "users", i, "round_trip")
        return self

    @model_validator(mode="after")
    def _a_zone_lies_in_one_region(self) -> Topology:
        lies: dict[str, str] = {}
        for i, nodes in enumerate(self.nodes):
            first = lies.setdefault(nodes.zone, nodes.region)
            if first != nodes.region:
                what = f"zone {nodes.zone!r} lies in region {first!r} above; rename one"
                raise mistake(what, "nodes", i, "zone")
        return self

    @model_validator(mode="after")
    def _not_too_many_nodes(self) -> Topology:
        if sum(n.count * (n.racks or 1) for n in self.nodes) > MOST_NODES:
            raise mistake(f"at most {MOST_NODES:,} nodes are planned for; got more", "nodes")
        return self
