"""Reckon what of models/ follows from geometry, and hold the files against it.

    python tools/check_models.py [MODELS]

Parameters and active parameters of every checkpoint follow from its layers, heads and widths; the
KV cache of every step law from the heads, the degree and the format; shapes of nodes from the
accelerators that stand in them. Prints how much was checked and what differs; ends with 1 if
anything does. What the geometry does not tell (hybrid and special attention) is counted as such.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.catalogue import Catalogue
from planner.curves.memory import KV_BYTES
from planner.data import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.catalogue import Llm, StepLawRow
    from planner.catalogue.llm import Experts

ROUNDED: Final = 0.005e9
"""Files give parameters in 1e9 with two decimals."""
BIASED: Final = "GptOssForCausalLM"
"""Architecture whose attention, router and experts have biases, and attention one sink a head."""
NORMED_HEADS: Final = ("Qwen3", "MiniMaxM2")
"""Beginnings of architectures that normalise queries and keys of each head; too few parameters to
tell, but told."""


def counted(llm: Llm) -> tuple[int, int] | None:
    """Return parameters, and those that one token visits; None where geometry does not tell.

    Both embeddings count, vision and next-token layers do not.
    """
    if llm.family == "other" or llm.layers is None:
        return None
    hidden, experts = llm.hidden, llm.experts
    plain = llm.layers if experts is None else experts.first_dense_layers or 0
    if plain and llm.intermediate is None:
        return None
    ends = llm.vocab * hidden * (1 if llm.tied_embeddings else 2) + hidden
    common = ends + llm.layers * (_attention(llm) + 2 * hidden)
    common += plain * 3 * hidden * (llm.intermediate or 0)
    if experts is None:
        return common, common
    biased = llm.architecture == BIASED
    each = _expert(hidden, experts, biased=biased)
    mixed = llm.layers - plain
    routed = hidden * experts.count + (experts.count if biased else 0) + _shared(hidden, experts)
    total, active = (
        common + mixed * (routed + n * each) for n in (experts.count, experts.active or 0)
    )
    return total, active


def _attention(llm: Llm) -> int:
    """Count one layer's attention."""
    hidden, heads = llm.hidden, llm.query_heads
    if llm.mla is not None:
        m = llm.mla
        width = heads * (m.qk_nope_head_dim + m.qk_rope_head_dim)
        query = hidden * width
        if m.q_lora_rank is not None:
            query = m.q_lora_rank * (hidden + width + 1)
        latent = hidden * (m.kv_lora_rank + m.qk_rope_head_dim) + m.kv_lora_rank
        latent += m.kv_lora_rank * heads * (m.qk_nope_head_dim + m.v_head_dim)
        return query + latent + heads * m.v_head_dim * hidden + _indexer(llm)
    assert llm.head_dim is not None  # grouped-query attention
    assert llm.kv_heads is not None
    query, kv = heads * llm.head_dim, llm.kv_heads * llm.head_dim
    found = hidden * (2 * query + 2 * kv)
    if llm.architecture == BIASED:
        found += query + 2 * kv + hidden + heads
    if llm.architecture.startswith(NORMED_HEADS):
        found += 2 * llm.head_dim
    return found


def _indexer(llm: Llm) -> int:
    """Count what picks the tokens of a sparse layer: its queries, its key, a weight a head."""
    if llm.indexer is None or llm.mla is None:
        return 0
    width = llm.indexer.heads * llm.indexer.head_dim
    keys = llm.hidden * llm.indexer.head_dim + 2 * llm.indexer.head_dim
    return (llm.mla.q_lora_rank or llm.hidden) * width + keys + llm.hidden * llm.indexer.heads


def _expert(hidden: int, experts: Experts, *, biased: bool) -> int:
    width = experts.intermediate or 0
    return 3 * hidden * width + (2 * width + hidden if biased else 0)


def _shared(hidden: int, experts: Experts) -> int:
    """Count what every token of an expert layer visits beside the routed experts."""
    if experts.shared_intermediate is not None:
        return 3 * hidden * experts.shared_intermediate
    return (experts.shared or 0) * 3 * hidden * (experts.intermediate or 0)


def kv_bytes(llm: Llm, row: StepLawRow) -> int:
    """Return bytes that a device caches for a token, every layer counted as full attention."""
    assert llm.layers is not None  # there is a law
    element = KV_BYTES[row.kv_dtype]
    if llm.mla is not None:
        return round(llm.layers * (llm.mla.kv_lora_rank + llm.mla.qk_rope_head_dim) * element)
    assert llm.kv_heads is not None
    assert llm.head_dim is not None
    return round(llm.layers * 2 * -(-llm.kv_heads // row.tp_degree) * llm.head_dim * element)


def wrong_parameters(llm: Llm) -> Iterator[str]:
    """Say what of a checkpoint's parameters differs from its geometry."""
    found = counted(llm)
    for name, given, n in (
        ("params_total_b", llm.params_total_b, found and found[0]),
        ("params_active_b", llm.params_active_b, found and found[1]),
    ):
        if n is None and given is not None:
            yield f"{llm.id}: {name} is {given}, which its geometry does not tell"
        elif n is not None and (given is None or abs(given * 1e9 - n) > ROUNDED * (1 + 1e-9)):
            yield f"{llm.id}: {name} is {given}; its geometry makes {n / 1e9:.3f}"


def wrong_caches(catalogue: Catalogue) -> Iterator[str]:
    """Say which step laws have another KV cache than their geometry makes."""
    for row in catalogue.laws():
        expected = kv_bytes(catalogue.llm(row.model), row)
        if row.kv_bytes_per_token != expected:
            yield f"{row.id}: kv_bytes_per_token is {row.kv_bytes_per_token}, not {expected}"


def wrong_nodes(catalogue: Catalogue) -> Iterator[str]:
    """Say which shapes of nodes no accelerator of the catalogue stands in."""
    devices = [catalogue.accelerator(name) for name in catalogue.accelerator_ids()]
    shapes = {(d.accelerators_per_node, d.scaleup_domain) for d in devices}
    for kind in catalogue.node_kinds():
        shape = (kind.devices, kind.scaleup_devices)
        if kind.link == "scaleup" and shape not in shapes:
            yield f"{kind.id}: no accelerator stands {shape[0]} to a node and {shape[1]} joined"
        if kind.link == "pcie" and (shape[0] != shape[1] or kind.id != f"pcie-{shape[0]}"):
            yield f"{kind.id}: {shape[0]} devices over PCIe are not what its name says"


def main() -> int:
    """Check, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="?", default=shipped("models"), type=Path)
    catalogue = Catalogue(parser.parse_args().models)
    llms = [catalogue.llm(name) for name in catalogue.llm_ids()]
    told = [llm for llm in llms if counted(llm) is not None]
    wrong = [line for llm in llms for line in wrong_parameters(llm)]
    wrong += [*wrong_caches(catalogue), *wrong_nodes(catalogue)]
    print(f"parameters of {len(told)} checkpoints follow from their geometry")
    print(f"of {len(llms) - len(told)} they do not, and none are given")
    print(f"KV caches of {len(catalogue.laws())} step laws, {len(catalogue.node_kinds())} nodes")
    print("\n".join(wrong) or "nothing differs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
