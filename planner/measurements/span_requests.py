"""OpenTelemetry spans as a request trace: one request a span, whatever became of it.

vLLM writes one span for a request; callers and gateways write spans of their own about the same
requests. Where the server's spans are in the file, they alone are counted. Else it is the
outermost span of each call: a gateway's, not those of its tries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.files import probe
from planner.measurements.request_parts import Parts, assemble
from planner.measurements.request_times import LATEST_S
from planner.measurements.text_lines import open_text, told
from planner.measurements.tools.otel import attributes_of, claims, number_of, spans_of, start_of
from planner.measurements.traces import LONGEST_TOKENS
from planner.source import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from planner.measurements.files import Probe
    from planner.measurements.node import Node
    from planner.measurements.request_trace import RequestTrace

PROMPT: Final = (
    "gen_ai.usage.prompt_tokens",
    "gen_ai.usage.input_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
)
OUTPUT: Final = (
    "gen_ai.usage.completion_tokens",
    "gen_ai.usage.output_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
)
_SERVER: Final = "gen_ai.latency."
_FIRST_TOKEN: Final = "gen_ai.latency.time_to_first_token"
_NO_CALL: Final = ("invoke_agent", "create_agent", "execute_tool", "invoke_workflow")
"""Operations that hold calls, and so sum up tokens that other spans count."""
_FAILED: Final = (2, "2", "STATUS_CODE_ERROR")
_HEAD: Final = re.compile(r'"resourceSpans"\s*:')
_ENDINGS: Final = frozenset({".json", ".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True)
class _Call:
    """What a span says of one request."""

    start_s: float
    prompt: float
    output: float
    failed: bool
    server: bool
    service: str
    session: str
    own: str
    parent: str


def find_spans(path: Path) -> Probe | None:
    """Return a file of OTLP spans, ready to be read; ``None`` if it is no such file.

    Raises:
        InputError: It cannot be read.
    """
    if is_folder(path) or not _ENDINGS.intersection(s.lower() for s in path.suffixes[-2:]):
        return None
    with told(path), open_text(path) as file:
        head = file.read(4_096)
    if _HEAD.search(head) is None:
        return None
    found = probe(path)
    return found if claims(found) else None


def read_span_requests(found: Probe) -> RequestTrace:
    """Read the requests of a file of spans.

    Raises:
        InputError: There is none, or a value of one makes no sense.
    """
    calls = [call for service, span in spans_of(found) if (call := _call(service, span))]
    if not calls:
        raise InputError(
            f"{found.path}: no span tells tokens of a request; expected {PROMPT[0]} or {PROMPT[1]}"
        )
    kept, note = _once(calls)
    failed = np.array([call.failed for call in kept])
    output = np.array([call.output for call in kept])
    parts = Parts(
        time=[np.array([call.start_s for call in kept])],
        prompt=[np.array([call.prompt for call in kept])],
        output=[np.where(failed & ~(output >= 1), np.nan, np.maximum(output, 1))],
        failed=[failed],
        start=f"{min(call.start_s for call in kept):.3f} s since 1970",
    )
    if any(call.session for call in kept):
        parts.session = [_numbered([call.session for call in kept], none=-1)]
    if not kept[0].server and len({call.service for call in kept}) > 1:
        parts.client = [_numbered([call.service for call in kept], none=0)]
    return assemble(found.path, "startTimeUnixNano", parts, *note)


def _call(service: str | None, span: Node) -> _Call | None:
    has = attributes_of(span)
    server = any(key.startswith(_SERVER) for key in has)
    counted = any(key in has for key in (*PROMPT, *OUTPUT))
    if not (server or counted or "gen_ai.request.model" in has):
        return None
    if _text(has, "gen_ai.operation.name") in _NO_CALL:
        return None
    start = start_of(span)
    if start is None or start > LATEST_S:
        raise span.refuse("a request without its time; expected nanoseconds", "startTimeUnixNano")
    prompt, output = _tokens(has, PROMPT), _tokens(has, OUTPUT)
    status = span.at("status", "code")
    failed = (status is not None and status.value in _FAILED) or "error.type" in has
    return _Call(
        start_s=start,
        prompt=prompt if prompt >= 1 else float("nan"),
        output=output,
        failed=failed or not (prompt >= 1 and output >= 1) or (server and _FIRST_TOKEN not in has),
        server=server,
        service=(service or "")[:200],
        session=_text(has, "gen_ai.conversation.id"),
        own=span.text("spanId") or "",
        parent=span.text("parentSpanId") or "",
    )


def _tokens(has: Mapping[str, Node], names: Sequence[str]) -> float:
    name = next((name for name in names if name in has), None)
    if name is None:
        return float("nan")
    value = number_of(has[name])
    if value > LONGEST_TOKENS or value != int(value):
        raise has[name].refuse(
            f"{name} is {value:g}; expected a whole number of tokens up to {LONGEST_TOKENS:,}"
        )
    return value


def _text(has: Mapping[str, Node], name: str) -> str:
    return (has[name].text("stringValue") or "") if name in has else ""


def _once(calls: list[_Call]) -> tuple[list[_Call], tuple[str, ...]]:
    """Leave out spans about requests that another span counts, and say so."""
    kept = [call for call in calls if call.server]
    why = "of callers and gateways are left out: the server's own count each request once"
    if not kept:
        own = {call.own for call in calls if call.own}
        kept = [call for call in calls if call.parent not in own or call.parent == call.own]
        why = "within a call are left out: the outermost counts each request once"
    gone = len(calls) - len(kept)
    if not kept:  # parents in a ring
        return calls, ()
    return kept, (f"{gone:,} spans {why}",) if gone else ()


def _numbered(names: list[str], *, none: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    codes = {"": none}
    first = none + 1
    for name in names:
        codes.setdefault(name, first + len(codes) - 1)
    return np.array([codes[name] for name in names], np.int32)
