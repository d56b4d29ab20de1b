"""InferenceX (formerly InferenceMAX) result rows, as JSON or CSV, in seconds.

A closed loop: all requests are offered at once behind a cap of ``conc``, 10 × ``conc`` prompts,
lengths uniform between 80 % and 100 % of ``isl`` and ``osl``, end of sequence ignored. TTFT so
carries the first burst.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    TOKEN_TPOT,
    finished,
    keyed_statistics,
    nominal,
)
from planner.measurements.files import rows_of
from planner.measurements.measurement import Arrivals, Group, Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency
    from planner.measurements.node import Node

SHORTEST: Final = 0.8
"""Shortest length as a share of the nominal one."""
SPECULATES: Final = "speculative decoding"
_TAG: Final = re.compile(r":v?(\d+\.\d+[0-9A-Za-z.]*)")
_NO: Final = ("none", "false", "no", "off")
_YES: Final = ("true", "yes", "1")


def claims(found: Probe) -> bool:
    """Tell a result row, or a list of them."""
    needs = {"hw", "conc", "isl", "osl", "framework"}
    return found.kind in ("json", "jsonl", "csv") and found.keys >= needs


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per row.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    for i, row in enumerate(rows_of(found)):
        yield _measurement(row, found, i)


def version_of(image: str | None) -> str | None:
    """Return the version in the tag of a container image, such as 0.19.0 of ``vllm:v0.19.0``."""
    match = _TAG.search(image) if image else None
    return match[1] if match else None


def _measurement(node: Node, found: Probe, number: int) -> Measurement:
    users = node.number("conc")
    layout = _layout(node)
    tp = node.whole("tp", low=1)
    devices = sum(group.accelerators or 0 for group in layout) or tp
    per_device = node.number("output_tput_per_gpu")
    latencies: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "ttft"),
        (TOKEN_TPOT, "tpot"),
        (CHUNK_ITL, "itl"),
        (CLIENT_E2E, "e2el"),
    ):
        names = {"mean": f"mean_{name}", "std": f"std_{name}", "p50": f"median_{name}"}
        names |= {q: f"{q}_{name}" for q in ("p90", "p95", "p99")}
        latencies += definition.of(keyed_statistics(node, names), name)
    spec = (node.text("spec_decoding") or "none").lower()
    image = node.text("image")
    m = Measurement(
        format="inferencex",
        tool="inferencex",
        path=found.path,
        location=node.path or f"row {number}",
        engine=node.text("framework"),
        engine_version=version_of(image),
        model=node.first_text("model", "infmax_model_prefix"),
        accelerator=node.text("hw"),
        accelerators=devices,
        tp_degree=None if layout else tp,
        ep_degree=None if layout else node.whole("ep", low=1),
        dp_degree=None if layout else _attention_dp(node, tp),
        layout=layout,
        precision=node.text("precision"),
        arrivals=Arrivals("unlimited", concurrency=users) if users else None,
        output_tokens_per_s=per_device * devices if per_device and devices else None,
        prompt=nominal(node.number("isl"), low=SHORTEST),
        output=nominal(node.number("osl"), low=SHORTEST),
        prefix_hit_rate=0.0,
        latencies=latencies,
        settings=((SPECULATES, spec),) if spec not in _NO else (),
        notes=(f"engine version from the image {image[:120]}",)
        if version_of(image) and image
        else (),
    )
    return finished(m)


def _attention_dp(node: Node, tp: int | None) -> int | None:
    """Read whether attention is data parallel: over all ranks of the replica, or not at all."""
    word = _flag(node, "dp_attention")
    if word is None:
        return None
    return tp if word else 1


def _flag(node: Node, name: str) -> bool | None:
    if not node.has(name):
        return None
    return str(node.value[name]).strip().lower() in _YES


def _layout(node: Node) -> tuple[Group, ...]:
    """Read the groups of a disaggregated row."""
    if not (node.has("num_prefill_gpu") or _flag(node, "disagg")):
        return ()
    groups = [
        Group(
            role,
            accelerators=node.whole(f"num_{role}_gpu", low=1),
            tp_degree=node.whole(f"{role}_tp", low=1),
            ep_degree=node.whole(f"{role}_ep", low=1),
            replicas=node.whole(f"{role}_num_workers", low=1),
        )
        for role in ("prefill", "decode")
    ]
    return tuple(
        replace(
            group, dp_degree=group.tp_degree if _flag(node, f"{group.role}_dp_attention") else 1
        )
        if node.has(f"{group.role}_dp_attention")
        else group
        for group in groups
    )
