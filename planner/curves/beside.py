"""What lies beside weights and KV cache in device memory: a draft, adapters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.catalogue import Llm
    from planner.curves.memory import KvRoom, Layout

ADAPTER_BYTES: Final = 2
"""Adapters are kept at 16 bits whatever the format of the weights."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Memory that the KV cache does not get, on each device."""

    bytes_per_device: float = 0.0
    kv_share: float = 0.0
    """Further cache of each token, as a share of the model's."""
    ahead_tokens: int = 0
    """Tokens of each running sequence for which blocks are held before they are accepted."""

    def plus(self, other: Beside) -> Beside:
        """Return both."""
        return Beside(
            self.bytes_per_device + other.bytes_per_device,
            self.kv_share + other.kv_share,
            self.ahead_tokens + other.ahead_tokens,
        )

    def leaves(self, room: KvRoom, max_num_seqs: int, *, logged: bool) -> KvRoom:
        """Return what is left of a cache.

        Args:
            room: Without this.
            max_num_seqs: Sequences that may hold blocks ahead.
            logged: Whether the blocks were counted by an engine that had all of it.
        """
        if logged or self == NOTHING:
            return room
        left = room.kv_bytes - self.bytes_per_device
        each = room.kv_bytes_per_token * (1 + self.kv_share) * room.block_size
        ahead = -(-max_num_seqs * self.ahead_tokens // room.block_size)
        blocks = int(max(left, 0.0) // each) - 1 - ahead
        return replace(room, kv_bytes=left, kv_blocks=max(blocks, 0))


NOTHING: Final = Beside()


def adapter_bytes_per_device(llm: Llm, rank: int, layout: Layout, *, inner: bool) -> float:
    """Return bytes of one low-rank adapter on one device, two matrices for each that it changes.

    As engines shard them: of query, key, value, gate and up the first matrix (rank wide, as long
    as the input) lies whole on every device and the second is sliced; of output and down the
    reverse.

    Args:
        llm: A dense model with grouped-query attention; of experts only attention is counted.
        rank: Of the adapter.
        layout: Degrees.
        inner: Whether gate, up and down are changed too.
    """
    assert llm.head_dim is not None  # a scenario is refused otherwise
    assert llm.kv_heads is not None
    assert llm.layers is not None
    tp = layout.tp_degree
    query, kv = llm.query_heads * llm.head_dim / tp, -(-llm.kv_heads // tp) * llm.head_dim
    width = 3 * llm.hidden + query + 2 * kv + query + llm.hidden
    if inner:
        assert llm.intermediate is not None
        width += 2 * llm.hidden + 3 * llm.intermediate / tp + llm.hidden
    layers = -(-llm.layers // layout.pp_degree)
    return float(ADAPTER_BYTES * layers * rank * width)
