"""One model checkpoint: the geometry that memory, degrees and roofline depend on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.ids import Slug
from planner.spec import Spec

Precision = Literal["bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "mixed"]
"""Number format of a model's weights; ``mixed`` when a checkpoint holds several."""

KvPrecision = Literal["bf16", "fp8"]
"""Number format of the KV cache."""


class Mla(Spec):
    """Latent attention: one compressed vector a token instead of keys and values per head."""

    q_lora_rank: int | None = None
    """Width of the compressed query."""

    kv_lora_rank: int = Field(gt=0)
    """Width of the compressed keys and values; cached."""

    qk_nope_head_dim: int = Field(gt=0)
    """Width of a head's part without position."""

    qk_rope_head_dim: int = Field(gt=0)
    """Width of the part with position; cached, and shared by all heads."""

    v_head_dim: int = Field(gt=0)
    """Width of a head's value."""


class Indexer(Spec):
    """The small attention that picks which tokens a sparse layer reads."""

    heads: int = Field(gt=0)
    """Heads of the indexer."""

    head_dim: int = Field(gt=0)
    """Width of its key."""

    topk: int = Field(gt=0)
    """Tokens that a layer reads."""


class Experts(Spec):
    """The expert layers of a mixture."""

    count: int = Field(gt=0)
    """Routed experts of a layer."""

    active: int | None = Field(default=None, gt=0)
    """Routed experts that one token visits."""

    shared: int | None = None
    """Experts that every token visits."""

    shared_intermediate: int | None = None
    """Inner width of the shared expert, where it differs."""

    intermediate: int | None = Field(default=None, gt=0)
    """Inner width of a routed expert."""

    first_dense_layers: int | None = None
    """Leading layers without experts."""


class LayerMix(Spec):
    """How many layers attend to everything, to a window, or keep a fixed state."""

    full: int | None = None
    """Layers with attention over the whole context."""

    sliding: int | None = None
    """Layers that see a window only."""

    linear: int | None = None
    """Layers with a state of fixed size instead of a cache."""

    window: int | None = None
    """Tokens of the window."""


class Llm(Spec):
    """What is known of a checkpoint; what is not known is absent, never guessed."""

    format_version: Literal["1.0"] = "1.0"

    id: Slug
    """The checkpoint's name without its organisation, such as ``llama-3.1-70b``."""

    name: str
    """The name as published."""

    hf_id: str | None = None
    """``organisation/name`` on the hub; absent where only a quantised copy was described."""

    aliases: tuple[str, ...] = ()
    """Other spellings, and checkpoints of the same geometry."""

    base: Slug | None = None
    """The same model before quantisation, where that is another entry; step laws bear its id."""

    architecture: str
    """Class name of the architecture."""

    family: Literal["dense", "moe", "mla", "mla-dsa", "other"]
    """dense, moe: grouped-query attention; mla: latent; other: hybrid or special attention."""

    layers: int | None = Field(default=None, gt=0)
    """Transformer layers."""

    hidden: int = Field(gt=0)
    """Width of the residual stream."""

    query_heads: int = Field(gt=0)
    """Attention heads."""

    kv_heads: int | None = Field(default=None, gt=0)
    """Heads of keys and values; absent for latent attention."""

    head_dim: int | None = Field(default=None, gt=0)
    """Width of a head as configured; it need not be hidden / query_heads."""

    intermediate: int | None = Field(default=None, gt=0)
    """Inner width of a dense feed-forward layer."""

    vocab: int = Field(gt=0)
    """Tokens of the vocabulary."""

    tied_embeddings: bool = False
    """Whether input and output embeddings are one matrix."""

    mla: Mla | None = None
    """Latent attention, where used."""

    indexer: Indexer | None = None
    """Sparse attention's indexer, where used."""

    experts: Experts | None = None
    """Expert layers, where used."""

    layer_mix: LayerMix = LayerMix()
    """Kinds of attention layers; empty where all are full attention or the mix is unknown."""

    max_context: int = Field(gt=0)
    """Longest context of the configuration, in tokens."""

    weights_precision: Precision | None = None
    """Format in which the checkpoint's weights are published."""

    kv_precision: KvPrecision | None = None
    """Format of the KV cache that the checkpoint asks for, if it does."""

    params_total_b: float | None = Field(default=None, gt=0)
    """Parameters in 1e9, both embeddings included; vision and next-token layers are not."""

    params_active_b: float | None = Field(default=None, gt=0)
    """Parameters in 1e9 that one token visits."""

    kv: Literal["known", "upper-bound", "index-missing", "state-missing", "unknown"]
    """How much of the KV cache's size the entry tells.

    upper-bound: layers with chunked attention are counted as full ones. index-missing: the
    sparse indexer's keys come on top. state-missing: the fixed states of linear layers come on
    top. unknown: a formula for dense attention must not be put in its place.
    """

    note: str | None = None
    """What is missing or special."""

    source: str
    """Where the facts are from."""

    licence: str
    """Terms of the source."""

    @property
    def family_id(self) -> Slug:
        """The id under which step laws know this model: the base's, else its own."""
        return self.base or self.id
