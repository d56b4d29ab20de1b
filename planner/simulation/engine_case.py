"""Engine cases: a JSON file with traffic, engines and, if known, what must come out.

The file fixes integer time (its ``unit``), a topology (``single``, ``multi``, ``disagg``), step
laws, engine options and requests. :func:`read_case` checks it, :func:`run_case` serves it step by
step, :func:`differences` compares the result with the file's ``expected``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.kernels.engine import FATES, Traffic, simulate_fleet
from planner.kernels.engine.records import NEVER
from planner.kernels.stepwise import StepLimitError
from planner.simulation.engine_case_format import CASES
from planner.source import MAX_BYTES, Source, dotted, json_places, read_text, whole
from planner.spec import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.kernels.engine import FleetRecords, TracedStep
    from planner.simulation.engine_case_format import Case

MAX_STEPS: Final = 5_000_000
"""Steps after which a case is given up; a step takes about 20 to 100 us in plain Python."""
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
            ``file:line:column: path: what is wrong`` per mistake.
    """
    text = read_text(path, MAX_BYTES)
    data = _parse(text, str(path))
    topology = data.get("topology") if isinstance(data, dict) else None
    if not isinstance(data, dict):
        raise InputError(f"{path}:1:1: the document is {_kind(data)}; expected an object")
    if not isinstance(topology, str) or topology not in CASES:
        known = ", ".join(CASES)
        where = _with_places(text, path, data).at(("topology",))
        raise InputError(f"{where}: topology: expected one of {known}; got {_kind(topology)}")
    try:
        case = validate(Source(str(path), data, {(): str(path)}), CASES[topology])
    except InputError:  # found before looked up: a long case is seldom wrong
        case = validate(_with_places(text, path, data), CASES[topology])
    for count, what, most in _sizes(case):
        if count > most:
            where = _with_places(text, path, data).at(("requests",))
            raise InputError(
                f"{where}: requests: {count} {what} in all; a case may have {most}, so cut it"
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
    names = {dict: "an object", list: "a list", type(None): "nothing", bool: "true or false"}
    return names.get(type(value), "a number")


def _with_places(text: str, path: Path, data: object) -> Source:
    return Source(str(path), data, {(): str(path), **json_places(text, str(path))})


def _parse(text: str, path: str) -> object:
    """Read strict JSON: no repeated key, no NaN, no document that is too deep."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_repeats,
            parse_constant=_no_constant,
            parse_int=whole,
        )
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
        InputError: The case takes more than :data:`MAX_STEPS` steps, or passes the end of time.
    """
    traffic, order = case_traffic(case)
    try:
        records = simulate_fleet(
            traffic,
            case.setup(),
            token_times=case.emit_token_times,
            keep_steps=case.emit_steps,
            max_steps=MAX_STEPS,
        )
    except StepLimitError as error:
        raise InputError(f"{name or case.name}: {error}; cut its traffic") from error
    except OverflowError as error:
        raise InputError(f"{name or case.name}: {error}; take a longer unit of time") from error
    ids = [case.requests[i].id for i in order]
    served = dict(zip(order, _request_results(case, order, records), strict=True))
    names = list(case.engines())
    result: Result = {
        "requests": [served[i] for i in range(len(order))],
        "makespan": records.makespan,
        "n_steps": dict(zip(names, records.n_steps, strict=True)),
    }
    if records.steps is not None:
        result["steps"] = {
            name: _steps(steps, ids, engine.async_scheduling)
            for (name, engine), steps in zip(case.engines().items(), records.steps, strict=True)
        }
    return result


def case_traffic(case: Case) -> tuple[Traffic, list[int]]:
    """Return the requests as the engine wants them, and where in the file each one stands."""
    order = sorted(range(len(case.requests)), key=lambda i: _arrival_order(case, i))
    return _traffic(case, order), order


def _arrival_order(case: Case, i: int) -> tuple[int, int, int]:
    """Order by arrival, then by id if ids are numbers, then as listed."""
    request = case.requests[i]
    return (request.arrival, request.id if isinstance(request.id, int) else 0, i)


def _traffic(case: Case, order: list[int]) -> Traffic:
    """Write the requests as arrays, and number the names of prefixes."""
    requests = [case.requests[i] for i in order]
    numbers: dict[int | str, int] = {}
    names = [numbers.setdefault(name, len(numbers)) for r in requests for name in r.prefix]
    limits = [r.output if r.max_tokens is None else r.max_tokens for r in requests]
    deadlines = [NEVER if r.deadline is None else r.deadline for r in requests]
    return Traffic(
        arrival=np.array([r.arrival for r in requests], np.int64),
        prompt=np.array([r.prompt for r in requests], np.int32),
        output=np.array([r.output for r in requests], np.int32),
        limit=np.array(limits, np.int32),
        priority=np.array([r.priority for r in requests], np.int32),
        group=np.array([r.group for r in requests], np.int32),
        deadline=np.array(deadlines, np.int64),
        prefix_start=np.cumsum([0, *(len(r.prefix) for r in requests)], dtype=np.int64),
        prefix_name=np.array(names, np.int32),
    )


def _request_results(case: Case, order: list[int], records: FleetRecords) -> Iterator[Result]:
    """Write each row, in order of arrival, in the words of the file."""
    start = 0
    for rank, i in enumerate(order):
        row: Result = {
            name: int(column[rank])
            for name, column in records._asdict().items()
            if isinstance(column, np.ndarray) and name != "token_times"
        }
        if records.token_times is not None:
            row["token_times"] = records.token_times[start : start + row["tokens"]].tolist()
        start += case.requests[i].output
        yield _request_result(case, i, row)


def _request_result(case: Case, i: int, row: Result) -> Result:
    def known(name: str) -> int | None:
        return None if row[name] < 0 else int(row[name])

    def span(later: int, earlier: int) -> int | None:
        return later - earlier if later >= 0 and earlier >= 0 else None

    arrival = case.requests[i].arrival
    result: Result = {
        "id": case.requests[i].id,
        "fate": FATES[row["fate"]],
        "first_sched": known("first_scheduled"),
        "first_token": known("first_token"),
        "finish": known("finish"),
        "ttft": span(row["first_token"], arrival),
        "e2e": span(row["finish"], arrival),
        "decode_span": span(row["finish"], row["first_token"]),
        "max_token_gap": row["max_token_gap"],
        "preemptions": row["preemptions"],
    }
    if case.emit_token_times:
        result["token_times"] = row["token_times"]
    if case.topology == "multi":
        result["replica"] = row["replica"]
    if any(engine.prefix_caching for engine in case.engines().values()):
        result["cached_tokens"] = row["cached_tokens"]
    if case.topology == "disagg":
        result |= {
            "prefill_replica": row["replica"],
            "decode_replica": known("decode_replica"),
            "prefill_first_sched": known("first_scheduled"),
            "prefill_done": known("prefill_done"),
            "decode_arrival": known("decode_arrival"),
            "kv_start": known("kv_start"),
            "kv_end": known("kv_end"),
            "decode_first_sched": known("decode_first_scheduled"),
        }
    return result


def _steps(
    steps: tuple[TracedStep, ...], ids: list[int | str], scheduled_early: bool
) -> list[Result]:
    """Write the steps of one engine in the words of the file."""
    found = []
    for step in steps:
        written: Result = {
            "t": step.start,
            "dt": step.end - step.start,
            "sched": [[ids[rank], new, before] for rank, new, before, _, _ in step.items],
        }
        if step.preempted:
            written["preempted"] = [ids[rank] for rank in step.preempted]
        if scheduled_early:
            written["sched_at"] = step.scheduled_at
        found.append(written)
    return found


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
