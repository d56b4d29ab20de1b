"""How engines schedule, and the launch settings that a row does not state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.kernels.closed_loop import Scheduler
from planner.units import shown

if TYPE_CHECKING:
    from planner.calibration.points import Load, System


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Scheduling rules of an engine under given launch settings."""

    scheduler: Scheduler
    max_num_batched_tokens: int
    max_num_seqs: int
    reserved_output: float
    poll_steps: int = 0
    late_steps: int = 1
    dispersed: bool = True
    """Whether equal requests drift apart: engines that mix prompts into decode steps let no
    cohort stay together, those that stop decoding for prompts keep cohorts in lock-step."""


RESERVED_OUTPUT: Final = {"vllm": 0.0, "sglang": 0.5, "trtllm": 1.0}
"""Share of the output for which cache is held back at admission: vLLM none (it preempts),
SGLang an estimate between its new-token ratio's bounds, TensorRT-LLM all (nothing is evicted)."""

_SCHEDULER: Final = {
    "vllm": Scheduler.MIXED,
    "sglang": Scheduler.PREFILL_FIRST,
    "trtllm": Scheduler.MIXED_WHOLE,
}

_POLL_UNLOADED, _POLL_LOADED, _POLL_USERS = 10, 30, 16
"""``scheduler-recv-interval`` of SGLang recipes for Blackwell: decode steps between two looks at
the inbox, larger from 16 users on."""


def known_engine(name: str) -> str:
    """Return the name of an engine whose scheduler is known.

    Raises:
        InputError: It is not.
    """
    if name not in _SCHEDULER:
        known = ", ".join(sorted(_SCHEDULER))
        raise InputError(f"engine {shown(name)}: its scheduler is not known; known are {known}")
    return name


def settings_of(system: System, load: Load, users: int) -> EngineSettings:
    """Return the rules under which one rank serves its share of the users.

    Args:
        system: What serves.
        load: What the client sends.
        users: Requests in flight on one rank.

    Raises:
        InputError: The engine's scheduler is not known.
    """
    engine = known_engine(system.engine)
    budget = max(_budget(system, load), users, 1)
    return EngineSettings(
        scheduler=_SCHEDULER[engine],
        max_num_batched_tokens=budget,
        max_num_seqs=min(1024, budget),
        reserved_output=RESERVED_OUTPUT[engine],
        poll_steps=_poll_steps(system, users),
        dispersed=engine != "sglang",
    )


def _budget(system: System, load: Load) -> int:
    """Tokens per step that the public recipe of a deployment sets, or the engine's default."""
    engine, model, device = system.engine, system.llm.id, system.accelerator.id
    if engine == "sglang":
        if model.startswith("deepseek"):
            return 16384 if device == "b300-sxm" else 32768
        return 16384 if model.startswith("qwen3.5") else 8192
    if engine == "trtllm":
        if model == "gpt-oss-120b":
            return 20000
        return max(8192, load.users // system.main.replicas + load.prompt_tokens + 64)
    if model == "minimax-m2.5" and device in ("b200-sxm", "b300-sxm") and load.lengths == "uniform":
        return 2 * load.prompt_tokens
    return 8192


def _poll_steps(system: System, users: int) -> int:
    slow = system.llm.id.startswith(("deepseek", "qwen3.5")) and system.engine == "sglang"
    if not slow or system.accelerator.id in ("h200-sxm", "h100-sxm"):
        return 0
    return _POLL_LOADED if users >= _POLL_USERS else _POLL_UNLOADED
