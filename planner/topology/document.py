"""The frozen document of a topology: every rate known, every domain named."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake

Level = Literal["scaleup", "node", "rack", "zone", "region", "world"]
"""Nearest common place of two devices, nearest first."""

MOST_NODES: Final = 200_000
"""Of a topology: what ids and drawings are made for."""

LEVELS: Final[tuple[Level, ...]] = ("scaleup", "node", "rack", "zone", "region", "world")


class Link(Spec):
    """What joins the devices of a node or of a scale-up domain."""

    transport: Literal["scaleup", "pcie"]
    bytes_per_s: Annotated[float, Field(gt=0)]
    """Of one device, one direction."""
    latency_s: Annotated[float, Field(ge=0)]


class Network(Spec):
    """What joins nodes whose nearest common place is of one level."""

    transport: Literal["rdma", "tcp"]
    bytes_per_s: Annotated[float, Field(gt=0)] | None
    """What one node can send over it, one direction; None: whatever the node can send."""
    latency_s: Annotated[float, Field(ge=0)]
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """How many times what its members can send is more than it carries."""


class NodeShape(Spec):
    """What nodes of a kind have in common."""

    accelerator: str
    """Id in the catalogue."""
    devices: Annotated[int, Field(ge=1, le=1024)]
    """Of one node."""
    scaleup_devices: Annotated[int, Field(ge=1, le=4096)]
    """Devices of a scale-up domain: those that ``scaleup`` joins. Over PCIe: the node's."""
    scaleup: Link
    """What joins them; PCIe where there is nothing faster."""
    network_bytes_per_s: float | None = None
    """What a node can send to others; None where nobody knows."""
    assumed_pcie: bool = False
    """Whether nobody said what joins the devices."""

    @model_validator(mode="after")
    def _domains_are_whole(self) -> NodeShape:
        inner, outer = sorted((self.devices, self.scaleup_devices))
        if outer % inner:
            raise mistake("a scale-up domain divides a node, or is made of whole ones")
        return self

    @property
    def nodes_per_island(self) -> int:
        """Nodes of one scale-up domain: 1 unless the link joins nodes."""
        return max(1, self.scaleup_devices // self.devices)


class NodeGroup(Spec):
    """Nodes of a domain that have equally many devices free, named by consecutive numbers."""

    first: Annotated[int, Field(ge=0, le=MOST_NODES)]
    """Number of the first node in its domain, from 0."""
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)]
    free: Annotated[int, Field(ge=0, le=1024)]
    """Devices of each node that can be used: the last ones."""


class Domain(Spec):
    """Nodes of one kind in one rack, or in a zone whose racks are not told apart."""

    id: str
    region: str
    zone: str
    rack: str | None
    shape: NodeShape
    groups: tuple[NodeGroup, ...] = Field(min_length=1)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(group.nodes for group in self.groups)

    @property
    def free_devices(self) -> int:
        """Devices that can be used."""
        return sum(group.nodes * group.free for group in self.groups)

    def node_name(self, number: int) -> str:
        """Return the name of the node with a number, counted from 0."""
        return f"{self.id}.n{number + 1}"


class UsersAt(Spec):
    """How far users of one origin are from each region."""

    origin: str
    round_trip_s: dict[str, float]
    """By region; counts in every TTFT."""


class Topology(Spec):
    """All domains, and the links between them."""

    domains: tuple[Domain, ...] = Field(min_length=1)
    """By their order in the scenario."""
    networks: dict[Level, Network | None]
    """Between nodes whose nearest common place is a rack, a zone, a region or the world; None:
    nothing is moved."""
    users: tuple[UsersAt, ...] = ()
    tp_may_cross: bool = False
    """Whether a tensor-parallel replica may lie over several scale-up domains."""
    notes: tuple[str, ...] = ()
    """What was assumed."""

    @model_validator(mode="after")
    def _names_and_nodes_in_bounds(self) -> Topology:
        if len({d.id for d in self.domains}) < len(self.domains):
            raise mistake("two domains have the same id", "domains")
        if sum(d.nodes for d in self.domains) > MOST_NODES:
            raise mistake(f"at most {MOST_NODES:,} nodes are planned for; got more", "domains")
        return self

    def domain(self, domain_id: str) -> Domain:
        """Return a domain by its id.

        Raises:
            KeyError: There is none.
        """
        for one in self.domains:
            if one.id == domain_id:
                return one
        raise KeyError(domain_id)

    def shape_of(self, accelerator: str) -> NodeShape:
        """Return the shape of the nodes that hold an accelerator; all are joined alike.

        Raises:
            KeyError: No node holds it.
        """
        for one in self.domains:
            if one.shape.accelerator == accelerator:
                return one.shape
        raise KeyError(accelerator)

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions in which nodes stand, in the order of the scenario."""
        return tuple(dict.fromkeys(d.region for d in self.domains))

    def free_devices(self, accelerator: str) -> int:
        """Return how many devices of a kind can be used."""
        return sum(d.free_devices for d in self.domains if d.shape.accelerator == accelerator)

    def round_trip_s(self, origin: str | None, region: str) -> float:
        """Return the network time between users and a region; 0 where no origin is given.

        Raises:
            KeyError: No users have this origin.
        """
        if origin is None:
            return 0.0
        for users in self.users:
            if users.origin == origin:
                return users.round_trip_s[region]
        raise KeyError(origin)
