"""What a ``--why-not`` means: part of a name, or parts of a template in any order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS: Final = re.compile(r"[.@]")
_NUMBERED: Final[Mapping[str, str]] = {
    "tp": "tp_degrees",
    "b": "max_num_batched_tokens",
    "s": "max_num_seqs",
}
"""Letters before a number in a template's name, and the policy that lists it."""


def matches(pattern: str, name: str) -> bool:
    """Tell whether a template's name holds a pattern, or each of its parts.

    ``h200.tp8`` finds ``h200-sxm.tp8.fp8.b2048.s256@chat``: an accelerator may be cut short at a
    dash, every other part stands as it is.
    """
    word, full = pattern.casefold().strip(), name.casefold()
    if word in full:
        return bool(word)
    parts = [p for p in _PARTS.split(word) if p]
    own = _PARTS.split(full)
    return bool(parts) and all(_is_part(p, own) for p in parts)


def _is_part(part: str, own: list[str]) -> bool:
    return any(part == x or x.startswith(f"{part}-") for x in own)


def not_considered(pattern: str, scenario: Mapping[str, Any]) -> str | None:
    """Say which choice of a scenario keeps a pattern out of the search; None if none does.

    Args:
        pattern: What was asked about.
        scenario: The document of the scenario that was answered.
    """
    offered = [str(x.get("id", "")).casefold() for x in scenario.get("accelerators", ())]
    for part in _PARTS.split(pattern.casefold().strip()):
        if offered and _is_kind(part):
            if not _is_part(part, offered):
                return f"{part} is not offered; accelerators are {', '.join(offered)}"
            continue
        why = (
            _policy(part, scenario.get("policies", {}))
            or _precision(part, scenario)
            or _kv_dtype(part, scenario)
            or _draft(part, scenario.get("policies", {}))
        )
        if why is not None:
            return why
    return None


def _policy(part: str, policies: Mapping[str, Any]) -> str | None:
    """Say which policy does not list a degree, a budget of tokens, or a number of sequences."""
    if part == "priority" and "priority" not in policies.get("scheduling_policy", ()):
        return "policies.scheduling_policy does not allow priority; add it to search it"
    found = re.fullmatch(r"(tp|b|s)(\d+)", part)
    if found is None:
        return None
    name = _NUMBERED[found[1]]
    listed = policies.get(name, ())
    if int(found[2]) in listed:
        return None
    values = ", ".join(map(str, listed))
    return f"policies.{name} allows {values}, not {found[2]}; add it to search it"


def _precision(part: str, scenario: Mapping[str, Any]) -> str | None:
    """Say that no workload accepts a precision."""
    if not re.fullmatch(r"(bf|fp|int|nvfp|mxfp|w\d+a)\d+", part):
        return None
    given = [w.get("precisions") for w in scenario.get("workloads", ())]
    asked = sorted({p for precisions in given for p in precisions or ()})
    if part in asked:
        return None
    what = ", ".join([*asked, *(["the model's own"] if None in given else [])])
    return f"no workload accepts {part}; precisions are {what}; list it to search it"


def _kv_dtype(part: str, scenario: Mapping[str, Any]) -> str | None:
    """Say that no workload names a format of the KV cache."""
    if part not in ("kvbf16", "kvfp8"):
        return None
    given = [w.get("kv_dtypes") for w in scenario.get("workloads", ())]
    asked = sorted({kv for kinds in given for kv in kinds or ()})
    if part.removeprefix("kv") in asked:
        return None
    what = ", ".join([*asked, *(["the measured one"] if None in given else [])])
    return f"no workload names {part[2:]} in kv_dtypes; they are {what}; list it to search it"


def _draft(part: str, policies: Mapping[str, Any]) -> str | None:
    """Say that no way to draft tokens bears a name."""
    if not re.fullmatch(r"(draft|eagle|mtp|ngram)\d+", part):
        return None
    ways = policies.get("speculative_decoding", ())
    known = [f"{w.get('method')}{w.get('draft_tokens')}" for w in ways]
    if part in known:
        return None
    what = ", ".join(known) or "nothing"
    return f"policies.speculative_decoding lists {what}, not {part}; add it to search it"


def _is_kind(part: str) -> bool:
    """Tell whether a part names an accelerator of the catalogue, perhaps cut short."""
    from planner.catalogue import Catalogue

    return bool(part) and _is_part(part, [x.casefold() for x in Catalogue().accelerator_ids()])
