"""Tables of closed-loop means (``silicon_ttft_ms``, ``silicon_tpot_ms``), one run a row.

Rows of public InferenceX exports have lengths uniform between 80 % and 100 % of the nominal ones
and all requests offered at once behind the cap; the other rows have the nominal lengths exactly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planner.measurements.build import CLIENT_TTFT, TOKEN_TPOT, finished, nominal
from planner.measurements.files import rows_of
from planner.measurements.measurement import Arrivals, Group, Measurement, Statistics
from planner.measurements.node import MS
from planner.measurements.tools.inferencex import SHORTEST, SPECULATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.node import Node

_PUBLIC: Final = re.compile(r"db-dump|2026-03-25|2026-04-06|gap-analysis")


def claims(found: Probe) -> bool:
    """Tell a table of closed-loop means."""
    needs = {"silicon_ttft_ms", "silicon_tpot_ms", "isl", "osl"}
    return found.kind == "csv" and found.keys >= needs


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per row.

    Raises:
        InputError: A cell is no number or out of bounds.
    """
    for row in rows_of(found):
        yield _measurement(row, found)


def _measurement(row: Node, found: Probe) -> Measurement:
    public = bool(_PUBLIC.search(row.text("silicon_data_source") or ""))
    users = row.number("x_concurrency")
    if users is None:
        users = row.number("batch_size")
    low = SHORTEST if public else None
    spec = row.text("x_spec") or "unknown"
    mode = "unlimited" if public else "closed_loop"
    ttft, tpot = (row.number(f"silicon_{name}_ms", scale=MS) for name in ("ttft", "tpot"))
    precision = row.first_text("x_precision", "precision")
    line = row.where.rpartition(":")[2]
    return finished(
        Measurement(
            format="closed-loop means",
            tool="inferencex" if public else "aiconfigurator",
            path=found.path,
            location=f"line {line}: {row.text('id') or ''}".rstrip(": "),
            engine=row.text("backend"),
            engine_version=row.text("backend_version"),
            model=row.first_text("x_model", "model_path"),
            accelerator=row.text("system"),
            precision=None if precision == "unstated" else precision,
            arrivals=Arrivals(mode, concurrency=users) if users else None,  # type: ignore[arg-type]
            prompt=nominal(row.number("isl"), low=low),
            output=nominal(row.number("osl"), low=low),
            prefix_hit_rate=0.0 if public else None,
            latencies=CLIENT_TTFT.of(Statistics(mean=ttft), "silicon_ttft_ms")
            + TOKEN_TPOT.of(Statistics(mean=tpot), "silicon_tpot_ms"),
            settings=((SPECULATES, spec),) if spec not in ("none", "none_likely") else (),
            notes=(note,) if (note := row.text("x_note")) else (),
            **_degrees(row),
        )
    )


def _degrees(row: Node) -> dict[str, Any]:
    devices, replicas = row.whole("x_gpus"), row.whole("x_replicas")
    if row.text("mode") == "disagg":
        layout = tuple(
            Group(
                role,
                replicas=row.whole(f"{role}_num_workers"),
                tp_degree=row.whole(f"{role}_tp_size"),
                pp_degree=row.whole(f"{role}_pp_size"),
                ep_degree=row.whole(f"{role}_moe_ep_size"),
                dp_degree=row.whole(f"{role}_attention_dp_size"),
            )
            for role in ("prefill", "decode")
        )
        return {"accelerators": devices, "layout": layout}
    return {
        "accelerators": devices * replicas if devices and replicas else devices,
        "replicas": replicas,
        "tp_degree": row.whole("tp_size"),
        "pp_degree": row.whole("pp_size"),
        "ep_degree": row.whole("x_ep") or None,
        "dp_degree": row.whole("x_attn_dp") or None,
    }
