"""What is to be placed, what came of it, and what was short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.topology import Cut, Level


@dataclass(frozen=True, slots=True)
class Wanted:
    """Replicas of one pool, and what was promised of their places."""

    pool: str
    accelerator: str
    devices: int
    """Of one replica; they lie in one scale-up domain."""
    replicas: int
    domain: str | None = None
    """Where all of them must be; anywhere where None."""
    regions: frozenset[str] | None = None
    """Where each of them may be; anywhere where None."""
    group: str | None = None
    """Pools of one group are placed in units together."""
    per_unit: int = 1
    """Replicas of this pool in each unit of its group."""
    within: Level = "world"
    """Nearest common place of a unit at most."""
    at: tuple[tuple[str, int], ...] = ()
    """Domains and how many replicas stand in each, unit by unit; anywhere where empty."""


@dataclass(frozen=True, slots=True, order=True)
class Placed:
    """One replica on its devices of one node; a replica over several nodes has several rows."""

    pool: str
    replica: int
    """From 0."""
    domain: str
    node: int
    """Number in its domain, from 0."""
    devices: tuple[int, ...]
    unit: int | None = None
    """Of its group, from 0."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Every wanted replica in its place."""

    placed: tuple[Placed, ...]
    """By pool in the order wanted, then by replica and node."""
    moved: int
    """Replicas of the existing placement that are still wanted but had to move."""
    opened: int
    """Scale-up domains that hold at least one replica."""
    proven: bool
    """Whether no placement moves less, spreads better, or opens fewer."""


@dataclass(frozen=True, slots=True)
class Short:
    """A capacity that is too small: ``sum over pools of weight × replicas`` is above ``has``."""

    accelerator: str
    domains: tuple[str, ...]
    """In which the capacity lies; all pools of the row can be nowhere else."""
    weights: tuple[tuple[str, int], ...]
    """By pool."""
    has: int
    needs: int
    reason: str
    size: int | None = None
    """Where replicas of so many devices or more are counted; None where devices are."""
    regions: frozenset[str] | None = None
    """Whose nodes are short for what may stand nowhere else; None: all nodes."""


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """No placement keeps every promise, or none was found in time."""

    shorts: tuple[Short, ...]
    """Never empty where it was proven; the most binding first."""
    proven: bool
    reason: str
    cuts: tuple[Cut, ...] = ()
    """Rows that this fleet breaks and every fleet keeps that has a place; none where nothing was
    proven, or where pools were told which domain to be in."""
