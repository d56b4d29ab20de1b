"""Nodes in their places: racks, zones and regions, and the links between them."""

from planner.topology.cut import Bound, Cut, Part
from planner.topology.document import (
    LEVELS,
    Domain,
    Level,
    Link,
    Network,
    NodeGroup,
    NodeShape,
    Topology,
    UsersAt,
)
from planner.topology.paths import Way, ways_between, within_island
from planner.topology.tree import (
    LinkClass,
    bytes_per_s_out,
    common_level,
    domains_under,
    islands,
    link_between,
    link_class,
    place_at,
    transfer_s,
)

__all__ = [
    "LEVELS",
    "Bound",
    "Cut",
    "Domain",
    "Level",
    "Link",
    "LinkClass",
    "Network",
    "NodeGroup",
    "NodeShape",
    "Part",
    "Topology",
    "UsersAt",
    "Way",
    "bytes_per_s_out",
    "common_level",
    "domains_under",
    "islands",
    "link_between",
    "link_class",
    "place_at",
    "transfer_s",
    "ways_between",
    "within_island",
]
