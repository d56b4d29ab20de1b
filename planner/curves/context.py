"""The largest context that a device holds, and what would make it larger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.catalogue.degrees import tp_degrees_of
from planner.curves.memory import (
    DEFAULTS,
    ONE_DEVICE,
    KvRoom,
    Layout,
    Settings,
    generic_reserve,
    kv_bytes_of_sequence,
    kv_room,
    law_reserve,
)
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Llm, StepLawRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A way to run a model on an accelerator, as far as memory is concerned."""

    llm: Llm
    accelerator: Accelerator
    precision: str
    kv_dtype: str = "bf16"
    layout: Layout = ONE_DEVICE
    settings: Settings = DEFAULTS
    row: StepLawRow | None = None
    """The step law whose account of memory counts; without one, the generic model's."""

    def room(self, logged_blocks: int | None = None) -> KvRoom:
        """Return the KV cache that this choice leaves on a rank; a logged count overrides."""
        if self.row is None:
            reserve = generic_reserve(self.llm, self.precision, self.layout, self.settings)
        else:
            reserve = law_reserve(self.row, self.llm, self.settings)
        return kv_room(
            self.llm,
            self.accelerator,
            reserve,
            self.layout,
            self.settings,
            self.kv_dtype,
            logged_blocks,
        )


@dataclass(frozen=True, slots=True)
class Lever:
    """One change, and the largest context after it."""

    change: str
    largest_context: int


def largest_context(
    llm: Llm, room: KvRoom, tp_degree: int = 1, kv_dtype: str = "bf16", pp_degree: int = 1
) -> int:
    """Return the longest single request, prompt and output, that a rank's cache holds, in tokens.

    At most the model's own limit. Windows of a single long request weigh less than those of
    many short ones, so this may exceed ``room.kv_tokens``.
    """
    budget = room.kv_tokens * room.kv_bytes_per_token
    low, high = 0, llm.max_context
    while low < high:
        middle = (low + high + 1) // 2
        if kv_bytes_of_sequence(llm, middle, tp_degree, kv_dtype, pp_degree) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def levers(choice: Choice) -> tuple[Lever, ...]:
    """Return single changes that would enlarge the largest context, best first.

    Another degree or precision is judged by the generic memory model: it has another step law.
    """
    c = choice
    now = _reach(c)
    changes: dict[str, Choice] = {}
    for tp in [tp for tp in tp_degrees_of(c.llm) if tp > c.layout.tp_degree][:1]:
        layout = replace(c.layout, tp_degree=tp)
        changes[f"tp_degree {tp}"] = replace(c, layout=layout, row=None)
    if c.settings.utilisation < 0.95:
        settings = replace(c.settings, utilisation=0.95)
        changes["memory_utilisation 0.95"] = replace(c, settings=settings)
    for tokens in [n for n in (2048, 512) if n < c.settings.max_num_batched_tokens][:1]:
        settings = replace(c.settings, max_num_batched_tokens=tokens)
        changes[f"max_num_batched_tokens {tokens}"] = replace(c, settings=settings)
    for seqs in [n for n in (256, 64) if n < c.settings.max_num_seqs][:1]:
        settings = replace(c.settings, max_num_seqs=seqs)
        changes[f"max_num_seqs {seqs}"] = replace(c, settings=settings)
    if c.kv_dtype == "bf16":
        changes["KV cache in fp8"] = replace(c, kv_dtype="fp8")
    if c.precision == "bf16":
        changes["weights in fp8"] = replace(c, precision="fp8", row=None)
    reached = [Lever(what, _reach(other)) for what, other in changes.items()]
    return tuple(
        sorted((x for x in reached if x.largest_context > now), key=lambda x: -x.largest_context)
    )


def check_context(choice: Choice, context: int) -> KvRoom:
    """Return the room if a request of ``context`` tokens fits.

    Raises:
        InputError: It does not: says why, the largest context that does, and the levers.
    """
    room = choice.room()
    why = room.why_not(context)
    if context > choice.llm.max_context:
        why = f"the model is made for {choice.llm.max_context} tokens at most"
    if why is None:
        return room
    reach = _reach(choice)
    helps = [f"{x.change} ({x.largest_context} tokens)" for x in levers(choice)]
    mend = f"; what helps: {', '.join(helps)}" if helps else ""
    what = f"{choice.llm.id} on {choice.accelerator.id} tp{choice.layout.tp_degree}"
    raise InputError(
        f"{what}: a request of {context} tokens does not fit: {why}; "
        f"the largest that does has {reach} tokens{mend}"
    )


def _reach(choice: Choice) -> int:
    return largest_context(choice.llm, choice.room(), choice.layout.tp_degree, choice.kv_dtype)
