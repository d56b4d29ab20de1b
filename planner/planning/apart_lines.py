"""The difference between two fleets' bills, line by line: arithmetic alone.

Of two fleets for the same demand D (req/s), the best whose replicas do both and the best of groups,
C_together and C_apart are what they cost. With k the measured capacity of a unit, a fleet of units
of price c costs D c / k if units could be cut. From the one bill to the other leads a chain of such
costs, each with one cause more or less; a line is a step of it:

    whole units, together      D c / k - C_together                                 <= 0
    interference removed       D c (1 / k_calm - 1 / k)                             <= 0
    stranded prefill compute   D c (1 / k_P= - s)                                   >= 0
    stranded decode compute    D c (1 / k_D= - (1 / k_calm - s))
    suited builds              D (c_P / k_P+ + c_D / k_D++ - c (1 / k_P= + 1 / k_D=))
    stranded prefill HBM       D c_D (1 / k_D+ - 1 / k_D++)                         >= 0
    stranded decode HBM        D c_P (1 / k_P - 1 / k_P+)                           >= 0
    weight replication         D c_D (1 / k_D - 1 / k_D+)                           >= 0
    ratio rounding             D (c_G / x - c_P / k_P - c_D / k_D)                  >= 0
    joint deadlines            D c_G (1 / k_free - 1 / x)                           >= 0
    hand-off                   D c_G (1 / k_hop - 1 / k_free)                       >= 0
    exposed transfer           D c_G (1 / k_G - 1 / k_hop)                          >= 0
    whole units, apart         C_apart - D c_G / k_G                                >= 0

    x = min(n_P k_P, n_D k_D)

k_calm is k with interference forgiven; s is the time that a prompt takes of a replica busy with
nothing else (at most 1 / k_calm). k_P and k_D are loads per replica of a group whose other side is
abundant and whose way between takes no time: k_P= and k_D= with the shared replica's build on both
sides, k_P and k_D with the group's own; k_D+ if the room of the prefill side's weights were
decode's cache, k_D++ if prefill's idle cache were too, k_P+ if decode's idle cache were prefill's;
k_free is the group whose link and hand-off take no time, k_hop with its hand-off, k_G as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES: Final = (
    "whole_units_together",
    "interference_removed",
    "stranded_prefill_compute",
    "stranded_decode_compute",
    "suited_builds",
    "stranded_prefill_hbm",
    "stranded_decode_hbm",
    "weight_replication",
    "ratio_rounding",
    "joint_deadlines",
    "hand_off",
    "exposed_transfer",
    "whole_units_apart",
)
"""From the bill together to the bill apart, in this order."""


@dataclass(frozen=True, slots=True)
class Together:
    """A pool of replicas that do both; rates of one unit, req/s."""

    load_rps: float
    """Of the whole pool."""
    unit_usd_per_hour: float
    capacity_rps: float
    calm_rps: float
    """With interference forgiven; at least the capacity."""
    prompt_s: float
    """What a mean prompt takes of a replica that computes prompts alone and is never idle."""
    as_prefill_rps: float
    """Of the replica as the prefill side of a group with nothing else to limit it."""
    as_decode_rps: float
    """Of the replica as the decode side of such a group."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Capacities of a group and of what it would be without one cause after the other, req/s.

    None is below one with a cause more: what is there besides need not be used.
    """

    group: float
    hop: float
    """Whose link takes no time."""
    free: float
    """And whose hand-off takes none."""
    prefill: float
    """Of one prefill replica of that group, decode being abundant."""
    prefill_roomy: float
    """And with the idle cache of the decode side."""
    decode: float
    """Of one decode replica of that group, prefill being abundant."""
    decode_once: float
    """And with weights that lie once over both sides."""
    decode_roomy: float
    """And with the idle cache of the prefill side."""


@dataclass(frozen=True, slots=True)
class Apart:
    """A pool of groups."""

    load_rps: float
    """Of the whole pool."""
    n_prefill: int
    n_decode: int
    prefill_usd_per_hour: float
    """Of one replica, as the next."""
    decode_usd_per_hour: float
    rps: Sides

    @property
    def unit_usd_per_hour(self) -> float:
        """Price of a group."""
        n_p, n_d = self.n_prefill, self.n_decode
        return n_p * self.prefill_usd_per_hour + n_d * self.decode_usd_per_hour


def dollar_lines(
    together: Sequence[Together], apart: Sequence[Apart], usd_together: float, usd_apart: float
) -> dict[str, float]:
    """Split the difference of two bills; see the head of this module.

    Args:
        together: Pools of the fleet whose replicas do both.
        apart: Pools of the fleet of groups.
        usd_together: What the first fleet costs, USD/h.
        usd_apart: What the second costs.

    Returns:
        USD/h by line, in the order of ``LINES``, more where apart is dearer; they sum to
        ``usd_apart - usd_together``.
    """
    lines = dict.fromkeys(LINES, 0.0)
    lines["whole_units_together"] -= usd_together
    lines["whole_units_apart"] += usd_apart
    for one in together:
        c = one.load_rps * one.unit_usd_per_hour
        calm = 1 / one.calm_rps
        prompts = min(one.prompt_s, calm)
        lines["whole_units_together"] += c / one.capacity_rps
        lines["interference_removed"] += c * (calm - 1 / one.capacity_rps)
        sides = 1 / one.as_prefill_rps, 1 / one.as_decode_rps
        lines["stranded_prefill_compute"] += c * (sides[0] - prompts)
        lines["stranded_decode_compute"] += c * (sides[1] - (calm - prompts))
        lines["suited_builds"] -= c * sum(sides)
    for pool in apart:
        rps, demand = pool.rps, pool.load_rps
        c_p, c_d = demand * pool.prefill_usd_per_hour, demand * pool.decode_usd_per_hour
        c_g = demand * pool.unit_usd_per_hour
        balance = min(pool.n_prefill * rps.prefill, pool.n_decode * rps.decode)
        lines["suited_builds"] += c_p / rps.prefill_roomy + c_d / rps.decode_roomy
        lines["stranded_prefill_hbm"] += c_d * (1 / rps.decode_once - 1 / rps.decode_roomy)
        lines["stranded_decode_hbm"] += c_p * (1 / rps.prefill - 1 / rps.prefill_roomy)
        lines["weight_replication"] += c_d * (1 / rps.decode - 1 / rps.decode_once)
        lines["ratio_rounding"] += c_g / balance - c_p / rps.prefill - c_d / rps.decode
        lines["joint_deadlines"] += c_g * (1 / rps.free - 1 / balance)
        lines["hand_off"] += c_g * (1 / rps.hop - 1 / rps.free)
        lines["exposed_transfer"] += c_g * (1 / rps.group - 1 / rps.hop)
        lines["whole_units_apart"] -= c_g / rps.group
    return lines
