"""Tensor-parallel degrees that a model's heads allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.catalogue.llm import Llm


def admissible_tp_degrees(query_heads: int, kv_heads: int) -> tuple[int, ...]:
    """Return the degrees that divide the query heads and agree with the KV heads, ascending.

    Up to ``kv_heads`` a degree must divide them; beyond, it must be a multiple of them, and
    every KV head is stored on several ranks.
    """
    return tuple(
        tp
        for tp in range(1, query_heads + 1)
        if query_heads % tp == 0 and (kv_heads % tp == 0 if tp <= kv_heads else tp % kv_heads == 0)
    )


def tp_degrees_of(llm: Llm) -> tuple[int, ...]:
    """Return the degrees that a model admits; latent attention has one KV head, on every rank."""
    return admissible_tp_degrees(llm.query_heads, kv_heads_of(llm))


def kv_heads_of(llm: Llm) -> int:
    """Return the KV heads that the degree rule sees: 1 for latent attention.

    Raises:
        InputError: The catalogue does not know them.
    """
    if llm.mla is not None:
        return 1
    if llm.kv_heads is None:
        raise InputError(f"{llm.id}: the catalogue does not know its KV heads; {llm.note}")
    return llm.kv_heads


def kv_replication(llm: Llm, tp_degree: int) -> int:
    """Return on how many ranks of a tensor-parallel group each KV head is stored."""
    return max(1, tp_degree // kv_heads_of(llm))


def check_tp_degree(llm: Llm, tp_degree: int) -> None:
    """Refuse a degree that the heads do not allow.

    Raises:
        InputError: Names the heads, the degree and the nearest allowed ones.
    """
    allowed = tp_degrees_of(llm)
    if tp_degree in allowed:
        return
    below = [tp for tp in allowed if tp < tp_degree][-1:]
    above = [tp for tp in allowed if tp > tp_degree][:1]
    near = " or ".join(str(tp) for tp in below + above)
    heads = kv_heads_of(llm)
    why = f"it does not divide the {llm.query_heads} query heads"
    if llm.query_heads % tp_degree == 0:
        why = f"it neither divides the {heads} KV heads nor is a multiple of them"
    raise InputError(f"{llm.id}: tp_degree {tp_degree} is not possible: {why}; use {near}")
