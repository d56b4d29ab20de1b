"""Whatever is in a file of requests, a diagnosis is a document or an InputError."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from planner.attribution.diagnosis import Due, diagnose_runs
from planner.attribution.log_diagnosis import diagnose_log
from planner.errors import InputError
from planner.measurements.engine_log import is_engine_log, read_engine_log
from planner.measurements.staged import read_staged
from planner.reporting.diagnosis_html import diagnosis_page
from planner.reporting.otlp import otlp_document
from tests.fleets import random_case
from tests.unit.test_diagnose import pd_trace
from tests.unit.test_engine_log import line
from tests.unit.test_span_requests import otlp
from tests.unit.test_trace_events import run_of

DATA = Path(__file__).parents[1] / "data" / "measurements"
ODD = [
    None, True, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**400, "", "x", "1", "9" * 400,
    [], {}, [None], {"doubleValue": -1}, {"stringValue": "\ud800"}, {"intValue": "7.5"},
]  # fmt: skip


def survives(path: Path, rng: np.random.Generator) -> int:
    """Read and diagnose; return how many runs there were."""
    wanted = rng.random(4) < 0.6
    wanted[int(rng.integers(4))] = True
    times = rng.uniform(0.01, 3, 4)
    due = Due(*(float(x) if w else None for x, w in zip(times, wanted, strict=True)))
    try:
        if is_engine_log(path):
            found = [diagnose_log(log) for log in read_engine_log(path)]
            return len([json.dumps(one.model_dump(mode="json"), allow_nan=False) for one in found])
        runs = diagnose_runs(read_staged(path), due)
    except InputError as error:
        assert str(error)
        return 0
    for run in runs:
        json.dumps(run.model_dump(mode="json"), allow_nan=False)
        total = sum(m.share for m in run.misses)
        assert total == pytest.approx(1 - run.attainment, abs=1e-9)
        assert run.least_possible - 1e-9 <= run.attainment
        assert run.attainment <= min(d.met for d in run.deadlines) + 1e-9
    assert "<svg" in diagnosis_page("x", runs)
    return len(runs)


def places(value, path=()):
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))


def spoil(document, rng: np.random.Generator):
    """Put something odd in the place of a value, or take it away."""
    spoiled = copy.deepcopy(document)
    where = [path for path in places(spoiled) if path]
    path = where[int(rng.integers(len(where)))]
    here = spoiled
    for key in path[:-1]:
        here = here[key]
    if rng.random() < 0.2 and isinstance(here, dict):
        del here[path[-1]]
    else:
        here[path[-1]] = ODD[int(rng.integers(len(ODD)))]
    return spoiled


DOCUMENTS = {
    "simulated": otlp_document([(run_of(random_case(93_001)), [0, 1, 2, 3, 4])]),
    "pair": otlp(*pd_trace("t1", 0, 0.1, 0.2, 0.1, 0.02), *pd_trace("t2", 1, 0.1, 0.2, 2, 0.02)),
    "engine": json.loads((DATA / "spans.json").read_text()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_spoiled_spans(tmp_path, name):
    rng, path = np.random.default_rng(7), tmp_path / "spans.json"
    read = 0
    for _ in range(150):
        path.write_text(json.dumps(spoil(DOCUMENTS[name], rng)))
        read += survives(path, rng)
    assert read > 0


@pytest.mark.parametrize("name", ["requests.csv", "engine-requests.csv"])
def test_spoiled_tables(tmp_path, name):
    rng, path = np.random.default_rng(8), tmp_path / name
    rows = [row.split(",") for row in (DATA / name).read_text().splitlines()]
    read = 0
    for _ in range(150):
        table = copy.deepcopy(rows)
        row = table[int(rng.integers(len(table)))]
        cells = ["", "-1", "nan", "inf", "x", "1e300", "0", '"', "9" * 30, "1,2"]
        row[int(rng.integers(len(row)))] = cells[int(rng.integers(len(cells)))]
        path.write_text("\n".join(map(",".join, table)))
        read += survives(path, rng)
    assert read > 0


def test_spoiled_logs(tmp_path):
    rng, path = np.random.default_rng(9), tmp_path / "engine.log"
    whole = "x\n" + line(10, 3, 99.0) * 4
    read = 0
    for _ in range(150):
        at, size = (int(x) for x in rng.integers(0, len(whole), 2))
        path.write_text(
            whole[:at] + "".join(map(chr, rng.integers(1, 300, 3))) + whole[at + size :]
        )
        read += survives(path, rng)
    assert read > 0


def test_every_sample_is_diagnosed_or_refused(tmp_path):
    rng = np.random.default_rng(10)
    for path in sorted(DATA.rglob("*")):
        survives(path, rng)
