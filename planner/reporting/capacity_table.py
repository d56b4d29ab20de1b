"""A fleet by measured capacities as tables: what to run, and who serves which request size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, amount, rate, share, significant, usd
from planner.reporting.layout import grid

if TYPE_CHECKING:
    from rich.table import Table

    from planner.fleet import TableBucket, TableFleet


def unit_table(fleet: TableFleet) -> Table:
    """Lay out how many units there are, and how many of them the load takes."""
    return grid(
        ("template", ">units", ">accelerators", ">busy units", ">per hour"),
        [
            (
                u.template,
                amount(u.units),
                f"{amount(u.units * u.devices)} × {u.accelerator}",
                significant(u.busy_units),
                usd(u.usd_per_hour),
            )
            for u in fleet.units
        ],
    )


def bucket_table(fleet: TableFleet) -> Table:
    """Lay out each bucket with its load and the shares that templates serve of it."""
    headers = ("bucket", ">input", ">output", ">offered", "served by")
    return grid(headers, [_row(bucket) for bucket in fleet.buckets])


def _row(bucket: TableBucket) -> tuple[str, ...]:
    parts = [f"{r.template} {share(r.share)}" for r in bucket.routing]
    shed = 1 - sum(r.share for r in bucket.routing)
    if shed > SEEN:
        parts.append(f"turned away {share(shed)}")
    lengths = (bucket.input_tokens, bucket.output_tokens)
    return (
        bucket.id,
        *(NONE if tokens is None else amount(tokens) for tokens in lengths),
        rate(bucket.offered_rps),
        ", ".join(parts),
    )


SEEN = 1e-5
"""A share below this is the solver's rounding."""
