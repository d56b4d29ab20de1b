"""What an export must carry of every pool, and what a reader recovers from it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from planner.spec import Spec

if TYPE_CHECKING:
    from planner.fleet import Pool

Whole = Annotated[int, Field(ge=1, strict=True)]
LONGEST: Final = 40
"""Of a name in a cluster: pods put numbers behind it, and 63 letters are all there are."""


class PoolFacts(Spec):
    """Pools, replicas, degrees and limits, as a manifest states them."""

    id: str
    accelerator: str
    role: Literal["colocated", "prefill", "decode"]
    replicas: Whole
    tp_degree: Whole
    pp_degree: Whole
    dp_degree: Whole
    expert_parallel: bool
    max_model_len: Whole
    max_num_seqs: Whole
    max_num_batched_tokens: Whole
    kv_dtype: str
    memory_utilisation: float
    block_size: Whole
    prefix_caching: bool
    chunked_prefill: bool
    scheduling_policy: str


def facts_of(pool: Pool) -> PoolFacts:
    """Return what an export must carry of a pool."""
    return PoolFacts(
        id=pool.id,
        accelerator=pool.accelerator,
        role=pool.role,
        replicas=pool.replicas,
        tp_degree=pool.tp_degree,
        pp_degree=pool.pp_degree,
        dp_degree=pool.dp_degree,
        expert_parallel=pool.ep_degree > 1,
        max_model_len=pool.max_model_len,
        max_num_seqs=pool.max_num_seqs,
        max_num_batched_tokens=pool.max_num_batched_tokens,
        kv_dtype=pool.kv_dtype,
        memory_utilisation=pool.memory_utilisation,
        block_size=pool.block_size,
        prefix_caching=pool.prefix_caching,
        chunked_prefill=pool.chunked_prefill,
        scheduling_policy=pool.scheduling_policy,
    )


def file_name(pool_id: str) -> str:
    """Return a name for a pool that files and clusters accept; different pools, different names.

    Lower-case letters, digits and hyphens, with a few digits of a hash that tell alike ones apart.
    """
    short = re.sub(r"[^a-z0-9]+", "-", pool_id.lower()).strip("-")[: LONGEST - 9].strip("-")
    mark = hashlib.sha256(pool_id.encode("utf-8")).hexdigest()[:8]
    return f"{short}-{mark}" if short[:1].isalpha() else f"p-{short}-{mark}".replace("--", "-")


def devices_of(facts: PoolFacts) -> int:
    """Return the accelerators of one replica."""
    return facts.tp_degree * facts.pp_degree * facts.dp_degree


def plain(text: str) -> str:
    """Keep words of a plan from being read as markup, on one line."""
    kept = "".join(c if c.isprintable() else "?" for c in text)
    for c in "\\`*_[]<>|#":
        kept = kept.replace(c, f"\\{c}")
    return kept
