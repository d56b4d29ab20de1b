"""Every reader of files from outside, by name, with files to begin from."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.request_rows import is_requests
from planner.catalogue import Catalogue
from planner.catalogue.accelerator import Accelerator
from planner.catalogue.llm import Llm
from planner.catalogue.measured import read_measured_laws
from planner.explanation.why import explain_plan
from planner.fleet import read_plan
from planner.measurements.checks import findings, findings_together
from planner.measurements.engine_log import is_engine_log, read_engine_log
from planner.measurements.rate_series import COLUMNS, has_rates_only, read_rate_series
from planner.measurements.read import read_measurements
from planner.measurements.scrapes import is_scrape, read_scrape
from planner.measurements.staged import read_staged
from planner.measurements.traces import read_histogram
from planner.planning.replay import fleet_in
from planner.problem.demand import read_trace
from planner.problem.resolve import resolve
from planner.problem.tables import resolve_tables
from planner.scenario.load import LoadedScenario, load_question, question_of_table
from planner.simulation.engine_case import read_case
from planner.source import read_source
from planner.spec import dump_json, read_spec, validate
from planner.studies.grid import Study, runs_of
from planner.studies.owning_question import read_owning
from tests.plans import plan
from tests.unit.test_engine_case import SINGLE, SPLIT

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = Path(__file__).parent / "seeds"
MEASURED: Final = ROOT / "tests" / "data" / "measurements"
CATALOGUE: Final = Catalogue()


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader, the endings of its files, and what to begin from."""

    name: str
    read: Callable[[Path], object]
    endings: tuple[str, ...]
    seeds: Callable[[], tuple[bytes, ...]]


def _files(*patterns: str, folder: Path = SEEDS) -> Callable[[], tuple[bytes, ...]]:
    @cache
    def read() -> tuple[bytes, ...]:
        found = sorted(path for pattern in patterns for path in folder.glob(pattern))
        assert found, patterns
        return tuple(path.read_bytes() for path in found if path.is_file())

    return read


def _scenario(path: Path) -> None:
    """As ``planner check`` does."""
    loaded = load_question(path)
    if isinstance(loaded, LoadedScenario):
        resolve(loaded, CATALOGUE)
    else:
        resolve_tables(loaded)


def _table(path: Path) -> None:
    resolve_tables(question_of_table(path))


def _plan(path: Path) -> None:
    found = read_plan(path)
    explain_plan(found)
    if found.pools:
        fleet_in(found, None, path.parent)


@cache
def _plans() -> tuple[bytes, ...]:
    return tuple(dump_json(one).encode() for one in (plan(), plan(pools=[])))


@cache
def _cases() -> tuple[bytes, ...]:
    return tuple(json.dumps(case).encode() for case in (SINGLE, SPLIT))


def _study(path: Path) -> None:
    study = validate(read_source(path), Study)
    runs_of(study, load_question(SEEDS / "small.yaml"), 1000)


def _measurements(path: Path) -> None:
    found = read_measurements(path)
    for one in found:
        findings(one)
    findings_together(found)


def _workload(path: Path) -> None:
    """As ``planner workload`` tells what it was given."""
    if has_rates_only(path):
        read_rate_series(path, COLUMNS)
    elif is_scrape(path):
        read_scrape(path)
    else:
        read_trace(path)


def _staged(path: Path) -> None:
    """As ``planner diagnose`` and ``planner confirm`` do."""
    if is_engine_log(path):
        read_engine_log(path)
    else:
        read_staged(path)


def _rows(path: Path) -> None:
    """As ``planner calibrate`` and ``planner validate`` do."""
    if is_ladder(path) and not is_requests(path):
        read_ladder(path, CATALOGUE)
    else:
        read_measurements(path)


def _record(path: Path) -> None:
    read_spec(path, Accelerator if b"bandwidth" in path.read_bytes() else Llm)


@cache
def _archives() -> tuple[bytes, ...]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, text in (
            ("chunk-0-trace.csv", "0,1,1,Gamma,1,1\n600,2,1,Weibull,1,1\n"),
            (
                "chunk-0-dataset.json",
                '{"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{7: 1.0}"}}',
            ),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return (file.getvalue(),)


@cache
def _parquets() -> tuple[bytes, ...]:
    import polars as pl

    found = []
    for table in (
        {"timestamp": [0.0, 1.0, 2.5], "prompt_tokens": [5, 9, 3], "output_tokens": [2, 1, 7]},
        {"ts": ["2024-01-01 00:00:00"], "usage": [{"prompt_tokens": 3, "completion_tokens": 4}]},
    ):
        file = io.BytesIO()
        pl.DataFrame(table).write_parquet(file)
        found.append(file.getvalue())
    return tuple(found)


READERS: Final = (
    Reader("scenario", _scenario, (".yaml",), _files("small.yaml", "terms.yaml", "inline.yaml")),
    Reader("shipped", _scenario, (".yaml",), _files("*.yaml", folder=ROOT / "scenarios")),
    Reader("tables", _scenario, (".yaml",), _files("tables.yaml", "inline.yaml")),
    Reader("table", _table, (".json",), _files("table.json")),
    Reader("plan", _plan, (".json",), _plans),
    Reader("study", _study, (".yaml",), _files("study.yaml")),
    Reader("owning", lambda path: read_owning(path), (".yaml",), _files("own.yaml")),
    Reader(
        "workload",
        _workload,
        (".csv", ".jsonl", ".csv.gz", ".jsonl.gz", ".prom", ".json"),
        _files("log.csv", "azure.csv", "log.jsonl", "rates.csv", "metrics.prom"),
    ),
    Reader("parquet", _workload, (".parquet",), _parquets),
    Reader("clients", _workload, (".tar.gz", ".tar"), _archives),
    Reader("histogram", read_histogram, (".csv", ".csv.gz"), _files("histogram.csv")),
    Reader("spans", _staged, (".json", ".jsonl"), _files("spans.json", folder=MEASURED)),
    Reader(
        "requests",
        _staged,
        (".csv", ".json", ".csv.gz"),
        _files("*requests*", "vllm-detailed*.json", "llmperf-responses.json", folder=MEASURED),
    ),
    Reader("log", _staged, (".log", ".csv", ".log.gz"), _files("engine.log")),
    Reader(
        "results",
        _measurements,
        (".json", ".jsonl", ".csv", ".yaml", ".txt", ".prom", ".gz"),
        _files("*.*", folder=MEASURED),
    ),
    Reader("rows", _rows, (".csv",), _files("levels.csv", "closed-loop*.csv", folder=MEASURED)),
    Reader(
        "curves",
        lambda path: read_measured_laws(path, CATALOGUE),
        (".yaml",),
        _files("curves.yaml"),
    ),
    Reader("case", lambda path: read_case(path), (".json",), _cases),
    Reader(
        "record",
        _record,
        (".yaml",),
        _files("accelerators/[hl]*.yaml", "llms/*.yaml", folder=ROOT / "models"),
    ),
)
