"""Reader of rate ladders whose degrees and lengths stand in prose.

Only forms that say what they mean are read: ``8 x TP2`` is eight replicas of degree 2,
``8xTP1 prefill + 2xTP4 decode`` two stages, ``8xMi300x 2FP8`` eight devices in two replicas. The
devices that a form names must be those of the row.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.calibration.cells import (
    MOST_DEVICES,
    MOST_REQUESTS,
    MOST_RPS,
    number_in,
    required,
    text_in,
)
from planner.calibration.measured_run import MeasuredRun, per_rank, quantities_of
from planner.calibration.points import Stage, System
from planner.calibration.run import Client
from planner.calibration.silicon import find_llm, precision_of
from planner.curves.roofline import Degrees
from planner.errors import InputError
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.catalogue import Catalogue

COLUMNS: Final = frozenset({"system", "config", "workload", "rate_rps", "n_gpus"})
"""By which the table is told; any other may be missing, and is then not stated."""

_ACCELERATORS: Final = {
    "H100-80G": "h100-sxm",
    "H200": "h200-sxm",
    "RTX PRO 6000": "rtx-pro-6000-se",
}
_REPLICAS: Final = re.compile(r"(\d+) x TP(\d+)\b")
_STAGES: Final = re.compile(r"(\d+)xTP(\d+) prefill \+ (\d+)xTP(\d+) decode\b")
_DEVICES: Final = re.compile(r"(\d+)x(?:H100|Mi300x) +(\d+)FP8\b")
_PREFIX: Final = re.compile(
    r"shared-prefix: (\d+)-token shared system prompt \+ (\d+)-token question, (\d+)-token output"
)
_GROUPS: Final = re.compile(
    r"\d+ prefix groups x (\d+)-token prefix \+ (\d+) new tokens, (\d+) out"
    r"(?: \(working set ([\d.]+)x HBM\))?"
)
_RANDOM: Final = re.compile(r"random ISL (\d+) OSL (\d+)")
_DURATION: Final = re.compile(r"\b(\d+) s\b")
USUAL_S: Final = (60, 20, 180)
"""How long a rate is held by ladders that do not say, and at least and at most."""
_MEAN: Final = re.compile(r"\(mean in ([\d.]+)\)")


def rate_ladder_run(row: int, cells: Mapping[str, str], catalogue: Catalogue) -> MeasuredRun:
    """Read a row.

    Raises:
        InputError: It states too little, or in words that are not understood.
    """
    notes: list[str] = []
    name, _, _ = text_in(cells, "model").partition(" (")
    llm = find_llm(catalogue, name)
    stated = "fp8" if re.search(r"-FP8$", name) else "unstated"
    label = text_in(cells, "gpu")
    main, prefill = _stages(cells["config"], round(required(cells, "n_gpus", MOST_DEVICES)))
    engine, _, version = cells["system"].partition(" ")
    system = System(
        llm=llm,
        precision=precision_of(llm, stated),
        accelerator=catalogue.accelerator(_ACCELERATORS.get(label, label)),
        engine=engine.lower(),
        engine_version=version,
        mode="disaggregated" if prefill else "colocated",
        main=main,
        prefill=prefill,
    )
    arrivals = text_in(cells, "arrivals")
    if not arrivals.startswith("Poisson"):
        raise InputError(f"arrivals: {shown(arrivals)} says not how requests were spaced")
    client = _lengths(cells, notes)
    rate = required(cells, "rate_rps", MOST_RPS)
    sent = _requests(cells, rate, notes)
    client = replace(client, rate_rps=rate, requests=sent[0])
    perhaps = [replace(client, requests=n) for n in sent[1:]]
    perhaps += [replace(client, cached_tokens=c) for c in _cached_else(cells, client, notes)]
    return MeasuredRun(
        row,
        f"{name} {label} {cells['config']} {cells['rate_rps']} req/s",
        system,
        per_rank(client, system) if prefill is None else client,
        quantities_of(cells),
        ranks=1 if prefill else main.replicas,
        perhaps=tuple(per_rank(c, system) if prefill is None else c for c in perhaps),
        note="; ".join(notes),
    )


def _requests(cells: Mapping[str, str], rate: float, notes: list[str]) -> tuple[int, ...]:
    """Return how many requests were sent, and perhaps: beyond saturation, times depend on it."""
    sent = number_in(cells, "n_requests", MOST_REQUESTS)
    if sent:
        return (round(sent),)
    stated = _DURATION.search(text_in(cells, "arrivals"))
    if stated is not None:
        return (max(1, round(rate * float(stated[1]))),)
    notes.append(f"length of the run not stated: {USUAL_S[0]} s")
    return tuple(max(1, round(rate * seconds)) for seconds in USUAL_S)


def _cached_else(cells: Mapping[str, str], client: Client, notes: list[str]) -> tuple[int, ...]:
    """Return how many cached tokens there may be where hits are assumed: none, or the prefix."""
    if not any("hits of the prefix cache" in note for note in notes):
        return ()
    found = _PREFIX.match(cells["workload"]) or _GROUPS.match(cells["workload"])
    prefix = int(found[1]) if found else 0
    return tuple(c for c in (0, prefix) if c != client.cached_tokens)


def _stages(config: str, devices: int) -> tuple[Stage, Stage | None]:
    """Return the stage that decodes, and the one that computes prompts if it is another."""
    prefill = None
    if (found := _STAGES.match(config)) is not None:
        n, tp, m, degree = map(int, found.groups())
        prefill, main = Stage(Degrees(tp), n), Stage(Degrees(degree), m)
    elif (found := _REPLICAS.match(config)) is not None:
        replicas, tp = map(int, found.groups())
        main = Stage(Degrees(tp), replicas)
    elif (found := _DEVICES.match(config)) is not None:
        total, replicas = map(int, found.groups())
        if not replicas or total % replicas:
            raise InputError(f"config: {total} devices are no {replicas} equal replicas")
        main = Stage(Degrees(total // replicas), replicas)
    else:
        raise InputError(f"config: {config!r} states no degrees that are understood")
    used = sum(s.replicas * s.degrees.accelerators for s in (main, prefill) if s)
    if used != devices or used == 0:
        raise InputError(f"config: {config!r} takes {used} devices, and the row has {devices}")
    return main, prefill


def _lengths(cells: Mapping[str, str], notes: list[str]) -> Client:
    workload, config = cells["workload"], cells["config"]
    if (found := _PREFIX.match(workload)) is not None:
        prefix, question, output = map(int, found.groups())
        cached = prefix if "routing" in config else 0
        if not cached:
            notes.append("hits of the prefix cache not stated: none without affinity")
        return _client(prefix + question, output, cached)
    if (found := _GROUPS.match(workload)) is not None:
        prefix, new, output = (int(found[i]) for i in (1, 2, 3))
        held = min(1.0, 1 / float(found[4] or 1)) if "HBM only" in config else 1.0
        if held < 1:
            notes.append(f"hits of the prefix cache not stated: {held:.0%}, what memory holds")
        return _client(prefix + new, output, round(held * prefix))
    if (found := _RANDOM.search(workload)) is not None:
        return _client(int(found[1]), int(found[2]), 0)
    if (found := _MEAN.search(workload)) is not None:
        tokens, rate = (
            required(cells, "output_tok_s", 1e9),
            required(cells, "completed_rps", MOST_RPS),
        )
        return _client(round(float(found[1])), max(2, round(tokens / rate)), 0)
    raise InputError(f"workload: {workload!r} states no lengths that are understood")


def _client(prompt: int, output: int, cached: int) -> Client:
    return Client(
        arrivals="poisson", prompt_tokens=prompt, output_tokens=output, cached_tokens=cached
    )
