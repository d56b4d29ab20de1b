"""One measured run of a ladder: a system under a client, and what was seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.calibration.cells import MOST_MS, MOST_RPS, number_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.calibration.points import System
    from planner.calibration.run import Client

QUANTITIES: Final = (
    "ttft_mean", "ttft_p50", "ttft_p90", "ttft_p99", "tpot_mean", "tpot_p50", "tpot_p90", "tpot_p99"
)  # fmt: skip
_SPELT: Final = {"ttft_p50": "ttft_median_ms", "tpot_p50": "tpot_median_ms"}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One row: a system under a client, and what was measured, by the names of ``Outcome``."""

    row: int
    id: str
    system: System
    client: Client
    """Its share that one rank of one replica sees."""
    measured: Mapping[str, float]
    """Seconds, requests per second, and the attainment as a share."""
    ranks: int = 1
    """How many ranks share the load alike: rates of the whole are so many times one's."""
    others: tuple[tuple[System, Client], ...] = ()
    """What else the row may mean; the prediction takes the first that meets the deadlines, or
    else the one that does best."""
    perhaps: tuple[Client, ...] = ()
    """What the client may have done as well, as far as the row tells: part of the band."""
    note: str = ""
    """What the row does not state and the prediction assumes."""
    blind: tuple[str, ...] = ()
    """Kinds of quantities that the row states too little to predict: ``ttft``, ``goodput`` ..."""


def per_rank(client: Client, system: System) -> Client:
    """Return what one rank sees of a client whose requests are spread evenly over all."""
    ranks = system.main.replicas * system.main.degrees.dp_degree
    return replace(
        client,
        users=-(-client.users // ranks),
        rate_rps=client.rate_rps / ranks,
        requests=-(-client.requests // ranks),
    )


def quantities_of(cells: Mapping[str, str]) -> dict[str, float]:
    """Return the measured times of a row, in seconds, with goodput and attainment."""
    found: dict[str, float] = {}
    for quantity in QUANTITIES:
        value = number_in(cells, f"{quantity}_ms", MOST_MS) or number_in(
            cells, _SPELT.get(quantity, ""), MOST_MS
        )
        if value:
            found[f"{quantity}_s"] = value / 1e3
    for name, high in (("goodput_rps", MOST_RPS), ("attainment", 1.0)):
        value = number_in(cells, name, high)
        if value is not None:
            found[name] = value
    return found
