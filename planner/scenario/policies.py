"""How replicas may be built and run: the settings that the planner searches."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from planner.scenario.disaggregation import Disaggregation
from planner.scenario.speculation import SpeculativeDecoding
from planner.spec import Spec, mistake
from planner.units import Share

MOST_CHOICES: Final = 32
"""Values of one list: every combination of the lists is a template to look at."""

Routing = Literal["round_robin", "least_outstanding", "prefix_affinity"]
ExpertParallel = Literal["search", "always", "never"]
AttentionDp = Literal["search", "always", "never"]
Degree = Annotated[int, Field(ge=1, le=1024)]
PipelineDegree = Annotated[int, Field(ge=1, le=64)]
BatchedTokens = Annotated[int, Field(ge=16, le=131_072)]
Sequences = Annotated[int, Field(ge=1, le=8192)]


class Policies(Spec):
    """The choices open to the planner; lists are searched, single values are fixed.

    Names are the engine's own.
    """

    engine: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Whose step times are used. The scheduler that is simulated is vLLM V1's."""

    tp_degrees: tuple[Degree, ...] = Field(
        default=(1, 2, 4, 8), min_length=1, max_length=MOST_CHOICES
    )
    """Tensor-parallel degrees."""

    expert_parallel: ExpertParallel = "search"
    """Whether the ranks of a replica hold whole experts each, rather than a slice of every expert:
    let the planner choose, or fix it. For models with experts, where step times are known."""

    pipeline_degrees: tuple[PipelineDegree, ...] | None = Field(
        default=None, min_length=1, max_length=MOST_CHOICES
    )
    """Pipeline stages of a replica. Left out: 1, and where a model fits on no tensor-parallel group
    of a node, the fewest that hold it. Stages were not measured: a plan with them says so."""

    attention_dp: AttentionDp = "search"
    """Whether the ranks of a replica hold all of attention and requests of their own each
    (attention data parallel), rather than a slice of every request: let the planner choose, or fix
    it. Only where step times of such replicas are known: of models with latent attention, whose
    KV cache tensor parallelism does not divide. ``max_num_seqs`` and ``max_num_batched_tokens``
    are then those of a rank."""

    max_num_batched_tokens: tuple[BatchedTokens, ...] = Field(
        default=(2048, 8192), min_length=1, max_length=MOST_CHOICES
    )
    """Tokens that one step may compute: the chunk budget."""

    max_num_seqs: tuple[Sequences, ...] = Field(
        default=(64, 256), min_length=1, max_length=MOST_CHOICES
    )
    """Requests that may run at once in a replica."""

    search: Literal["listed", "around"] = "listed"
    """Which settings are candidates: the listed values of ``max_num_batched_tokens`` and
    ``max_num_seqs`` in every combination; or, from the best of these on, whatever halving and
    doubling them leads to, for the replicas that may be chosen."""

    router: Routing = "least_outstanding"
    """How requests are spread over the replicas of a pool. ``prefix_affinity``: to the one that
    keeps the longest part of the prompt, else as ``least_outstanding``."""

    affinity_slack: Annotated[int, Field(ge=0, le=100_000)] = 8
    """For ``prefix_affinity``: a replica with more requests than this above the fewest on any is
    passed over, however much it keeps; with few seats, one with all seats more."""

    prefix_caching: bool = True
    """Whether replicas keep the KV of prompts for later ones that begin alike; simulated for
    workloads with a ``prefix``."""

    scheduling_policy: tuple[Literal["fcfs", "priority"], ...] = Field(
        default=("fcfs", "priority"), min_length=1, max_length=2
    )
    """Whom replicas that workloads of different ``priority`` share admit first, and preempt
    last: who came first, or the lower priority. Elsewhere the two are the same."""

    sharing: Literal["search", "shared", "segregated"] = "search"
    """Whether workloads of one model share replicas: let the planner choose, or fix it."""

    memory_utilisation: Annotated[Share, Field(gt=0, le=1, allow_inf_nan=False)] = 0.9
    """Share of device memory that the engine may use."""

    block_size: Literal[8, 16, 32, 64, 128] = 16
    """Tokens per KV block."""

    reserve_full_prompt: bool = True
    """Admit a request only if all its current tokens fit in free KV blocks."""

    watermark: Annotated[Share, Field(ge=0, lt=0.5, allow_inf_nan=False)] = 0.0
    """Share of KV blocks kept free when a request is admitted beside running ones."""

    extrapolation: bool = True
    """Whether step times may be used outside the range that was measured; a plan says so."""

    speculative_decoding: tuple[SpeculativeDecoding, ...] = Field(default=(), max_length=8)
    """Ways to draft tokens and verify several in a step; none, where left out."""

    disaggregation: Disaggregation | None = None
    """Prefill and decode apart, over a link that is stated; without it replicas do both."""

    @field_validator(
        "tp_degrees",
        "pipeline_degrees",
        "max_num_batched_tokens",
        "max_num_seqs",
        "scheduling_policy",
    )
    @classmethod
    def _no_repeats(cls, value: tuple[int | str, ...] | None) -> tuple[int | str, ...] | None:
        if value is not None and len(set(value)) != len(value):
            raise ValueError(f"a value is listed twice in {list(value)}; keep one")
        return value

    @model_validator(mode="after")
    def _drafts_are_told_apart(self) -> Policies:
        names = [(one.name, one.model) for one in self.speculative_decoding]
        for i, one in enumerate(names):
            if one in names[:i]:
                raise mistake(f"{one[0]} is given twice; keep one", "speculative_decoding", i)
        return self

    @model_validator(mode="after")
    def _sequences_fit_in_a_step(self) -> Policies:
        fewest, most = min(self.max_num_seqs), max(self.max_num_batched_tokens)
        if fewest > most:
            given = self.model_fields_set
            key = "max_num_batched_tokens" if "max_num_batched_tokens" in given else "max_num_seqs"
            raise mistake(
                f"no max_num_seqs ({fewest} at least) is within max_num_batched_tokens ({most} at"
                f" most), as the engine demands; allow a max_num_seqs of {most} or fewer",
                key,
            )
        return self
