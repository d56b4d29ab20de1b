"""Engine cases: a JSON file with traffic, engines and, if known, what must come out.

The file fixes integer time (its ``unit``), a topology (``single``, ``multi``, ``disagg``), step
laws, engine options and requests. :func:`read_case` checks it, :func:`run_case` serves it on
the step-wise engine, :func:`differences` compares the result with the file's ``expected``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from planner.errors import InputError
from planner.kernels.stepwise import Job, StepLimitError, simulate
from planner.simulation.engine_case_format import CASES
from planner.source import MAX_BYTES, Source, dotted
from planner.spec import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.kernels.stepwise import Outcome, Record
    from planner.simulation.engine_case_format import Case

MAX_STEPS: Final = 5_000_000
"""Steps after which a case is given up; a step takes the engine about 20 to 100 us."""
MAX_OUTPUT_TOKENS: Final = 5_000_000
"""Output tokens of a whole case; the time of each is kept."""
MAX_CACHED_BLOCKS: Final = 5_000_000
"""Blocks that all requests of a case fill, where prefixes are cached: each has a name."""

Result = dict[str, Any]
"""One request's results, or a step, as plain JSON data."""


def read_case(path: Path) -> Case:
    """Read one case.

    Raises:
        InputError: The file cannot be read, is no JSON, or does not fit the format; one line
            ``file: path: what is wrong`` per mistake.
    """
    data = _read_json(path)
    topology = data.get("topology") if isinstance(data, dict) else None
    if not isinstance(data, dict):
        raise InputError(f"{path}: the document is {_kind(data)}; expected an object")
    if not isinstance(topology, str) or topology not in CASES:
        known = ", ".join(CASES)
        raise InputError(f"{path}: topology: expected one of {known}; got {_kind(topology)}")
    case = validate(Source(str(path), data, {(): str(path)}), CASES[topology])
    for count, what, most in _sizes(case):
        if count > most:
            raise InputError(
                f"{path}: requests: {count} {what} in all; a case may have {most}, so cut it"
            )
    return case


def _sizes(case: Case) -> Iterator[tuple[int, str, int]]:
    """Yield what makes a case long to serve: how much of it there is, and may be."""
    requests = case.requests
    yield sum(request.output for request in requests), "output tokens", MAX_OUTPUT_TOKENS
    for name, engine in case.engines().items():
        budget = engine.max_num_batched_tokens
        chunks = sum(-(-request.prompt // budget) for request in requests)
        yield chunks, f"prefill chunks on {name}", MAX_STEPS
        if engine.prefix_caching:
            size = engine.block_size
            blocks = sum((request.prompt + request.output) // size for request in requests)
            yield blocks, f"KV blocks on {name}", MAX_CACHED_BLOCKS


def _kind(value: object) -> str:
    """Name a JSON value without repeating it at length."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    names = {dict: "an object", list: "a list", type(None): "nothing"}
    return names.get(type(value), f"a {type(value).__name__}")


def _read_json(path: Path) -> object:
    """Read strict JSON: no repeated key, no NaN, no document that is too long or too deep."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: is longer than {MAX_BYTES >> 20} MiB")
    try:
        return json.loads(
            raw.decode("utf-8-sig"), object_pairs_hook=_no_repeats, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise InputError(f"{place}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{path}: the document nests too deep") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {str(error).splitlines()[0]}") from error


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {_kind(repeated)} is repeated; keep one")
    return found


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no number")


def run_case(case: Case, name: str | None = None) -> Result:
    """Serve a case and return its results in the shape of ``expected``.

    Args:
        case: What to serve.
        name: What errors call it; by default its own name.

    Returns:
        ``requests`` in the order of the file (times in the case's unit, ``None`` where it did
        not happen), ``makespan``, ``n_steps`` and, unless the case declines, ``steps`` per
        engine and the token times of each request.

    Raises:
        InputError: The case takes more than :data:`MAX_STEPS` steps.
    """
    order = sorted(range(len(case.requests)), key=lambda i: _arrival_order(case, i))
    jobs = [_job(case, i) for i in order]
    try:
        outcome = simulate(jobs, case.setup(), keep_steps=case.emit_steps, max_steps=MAX_STEPS)
    except StepLimitError as error:
        raise InputError(f"{name or case.name}: {error}; cut its traffic") from error
    ids = [case.requests[i].id for i in order]
    records = dict(zip(order, outcome.records, strict=True))
    names = list(case.engines())
    result: Result = {
        "requests": [_request_result(case, i, records[i]) for i in range(len(order))],
        "makespan": outcome.makespan,
        "n_steps": dict(zip(names, outcome.n_steps, strict=True)),
    }
    if case.emit_steps:
        result["steps"] = {
            name: _steps(outcome, k, ids, engine.async_scheduling)
            for k, (name, engine) in enumerate(case.engines().items())
        }
    return result


def _arrival_order(case: Case, i: int) -> tuple[int, int, int]:
    """Order by arrival, then by id if ids are numbers, then as listed."""
    request = case.requests[i]
    return (request.arrival, request.id if isinstance(request.id, int) else 0, i)


def _job(case: Case, i: int) -> Job:
    request = case.requests[i]
    return Job(
        arrival=request.arrival,
        prompt=request.prompt,
        output=request.output,
        max_tokens=request.max_tokens,
        priority=request.priority,
        deadline=request.deadline,
        prefix=request.prefix,
        group=request.group,
    )


def _request_result(case: Case, i: int, record: Record) -> Result:
    """Write a record in the words of the file."""

    def known(tick: int) -> int | None:
        return None if tick < 0 else tick

    def span(later: int, earlier: int) -> int | None:
        return later - earlier if later >= 0 and earlier >= 0 else None

    result: Result = {
        "id": case.requests[i].id,
        "fate": record.fate,
        "first_sched": known(record.first_scheduled),
        "first_token": known(record.first_token),
        "finish": known(record.finish),
        "ttft": span(record.first_token, record.arrival),
        "e2e": span(record.finish, record.arrival),
        "decode_span": span(record.finish, record.first_token),
        "max_token_gap": record.max_token_gap,
        "preemptions": record.preemptions,
    }
    if case.emit_token_times:
        result["token_times"] = list(record.token_times)
    if case.topology == "multi":
        result["replica"] = record.replica
    if any(engine.prefix_caching for engine in case.engines().values()):
        result["cached_tokens"] = record.cached_tokens
    if case.topology == "disagg":
        result |= {
            "prefill_replica": record.replica,
            "decode_replica": known(record.decode_replica),
            "prefill_first_sched": known(record.first_scheduled),
            "prefill_done": known(record.prefill_done),
            "decode_arrival": known(record.decode_arrival),
            "kv_start": known(record.kv_start),
            "kv_end": known(record.kv_end),
            "decode_first_sched": known(record.decode_first_scheduled),
        }
    return result


def _steps(
    outcome: Outcome, engine: int, ids: list[int | str], scheduled_early: bool
) -> list[Result]:
    """Write the steps of one engine in the words of the file."""
    steps = []
    for step in outcome.steps[engine]:
        written: Result = {
            "t": step.start,
            "dt": step.end - step.start,
            "sched": [[ids[item.request.rank], item.new, item.before] for item in step.items],
        }
        if step.preempted:
            written["preempted"] = [ids[rank] for rank in step.preempted]
        if scheduled_early:
            written["sched_at"] = step.scheduled_at
        steps.append(written)
    return steps


def differences(case: Case, result: Result) -> list[str]:
    """Compare a result with what the case expects.

    Returns:
        One line ``path: expected X, got Y`` per difference, in the order of the file; empty if
        all agree. Only what the file states is compared.

    """
    expected = dict(case.expected or {})
    found: list[str] = []
    wanted = expected.pop("requests", [])
    if isinstance(wanted, list):
        found += _request_differences(wanted, result)
    else:
        found.append(f"expected.requests: is {_kind(wanted)}; a list is compared")
    for key, value in expected.items():
        if key in result:
            found += _compare(("expected", key), value, result[key])
        else:
            found.append(f"expected.{key}: is not something that this simulator tells")
    return found


def _request_differences(wanted: list[object], result: Result) -> Iterator[str]:
    """Compare requests by id, field by field."""
    by_id = {request["id"]: request for request in result["requests"]}
    told = set()
    for i, request in enumerate(wanted):
        where = ("expected", "requests", i)
        key = request.get("id") if isinstance(request, dict) else None
        if not isinstance(request, dict) or not isinstance(key, int | str) or key not in by_id:
            yield f"{dotted(where)}: no request of the case has this id"
            continue
        told.add(key)
        for name, value in request.items():
            if name in by_id[key]:
                yield from _compare((*where, name), value, by_id[key][name])
            else:
                yield f"{dotted((*where, name))}: is not something that this simulator tells"
    missing = [key for key in by_id if key not in told]
    if missing:
        yield f"expected.requests: says nothing about {len(missing)} of {len(by_id)} requests"


def _compare(where: tuple[int | str, ...], wanted: object, got: object) -> Iterator[str]:
    """Walk into lists and objects, and tell each value that differs."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in [*wanted, *(key for key in got if key not in wanted)]:
            if key not in wanted or key not in got:
                yield f"{dotted((*where, key))}: only {'got' if key in got else 'expected'}"
            else:
                yield from _compare((*where, key), wanted[key], got[key])
    elif isinstance(wanted, list) and isinstance(got, list):
        for i, (left, right) in enumerate(zip(wanted, got, strict=False)):
            yield from _compare((*where, i), left, right)
        if len(wanted) != len(got):
            yield f"{dotted(where)}: expected {len(wanted)} entries, got {len(got)}"
    elif wanted != got or isinstance(wanted, bool) != isinstance(got, bool):
        yield f"{dotted(where)}: expected {_shown(wanted)}, got {_shown(got)}"


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
