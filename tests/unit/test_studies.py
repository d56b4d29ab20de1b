"""Studies: which runs, that all come out whatever is killed, and that mistakes come first."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.app import run
from planner.errors import InputError
from planner.reporting.study import study_csv
from planner.scenario.load import load_question
from planner.spec import read_spec
from planner.studies.grid import Axis, Study, axis_of_words, runs_of, spread
from planner.studies.runner import StudyResult, StudyRow
from planner.studies.store import RunStore, key_of

TABLE = Path("scenarios/capacity-table.yaml").resolve()
RATES = "capacity_tables.rate=20 req/s..80 req/s/7"
BUDGETS = "limits.budget=60 USD/h,90 USD/h"


def study(**changes: object) -> Study:
    base = {"format_version": "1.0", "name": "x", "scenario": str(TABLE)}
    return Study.model_validate(base | changes)


def asked(found: Study) -> list[tuple[str, ...]]:
    return [r.settings for r in runs_of(found, load_question(TABLE), 1000)]


def test_all_combinations_the_first_axis_slowest():
    axes = [
        {"path": "capacity_tables.rate", "values": ["10 req/s", "20 req/s"]},
        {"path": "limits.budget", "low": "50 USD/h", "high": "70 USD/h", "steps": 3},
    ]
    found = asked(study(over=axes, settings=["solver.gap=1%"]))
    assert found == [
        ("solver.gap=1%", f"capacity_tables.rate={a} req/s", f"limits.budget={b} USD/h")
        for a in (10, 20)
        for b in (50, 60, 70)
    ]


def test_zip_takes_values_together_and_alternatives_all_of_them():
    axes = [
        {"path": "capacity_tables.rate", "values": ["10 req/s", "20 req/s"]},
        {"path": "limits.budget", "values": ["50 USD/h", "70 USD/h"]},
    ]
    others = [{"id": "as-is"}, {"id": "dear", "settings": ["accelerators.small.price=2 USD/h"]}]
    runs = runs_of(study(over=axes, combine="zip", alternatives=others), load_question(TABLE), 1000)
    assert [(r.alternative, *r.values.values()) for r in runs] == [
        ("as-is", "10 req/s", "50 USD/h"),
        ("as-is", "20 req/s", "70 USD/h"),
        ("dear", "10 req/s", "50 USD/h"),
        ("dear", "20 req/s", "70 USD/h"),
    ]


def test_axes_of_unequal_length_are_not_zipped():
    axes = [{"path": "a", "values": [1, 2]}, {"path": "b", "values": [1]}]
    with pytest.raises(ValueError, match="axes of one length; here: a 2, b 1"):
        study(over=axes, combine="zip")


@given(
    st.floats(0.01, 1e4),
    st.floats(1.01, 100),
    st.integers(2, 50),
    st.sampled_from(["even", "ratio"]),
)
def test_ranges_reach_from_end_to_end(low, factor, steps, spacing):
    texts = spread(f"{low:.6g} USD/h", f"{low * factor:.6g} USD/h", steps, spacing)
    values = [float(text.split()[0]) for text in texts]
    assert len(values) == steps
    assert values[0] == pytest.approx(low, rel=1e-5)
    assert values[-1] == pytest.approx(low * factor, rel=1e-5)
    assert values == sorted(values)
    middle = values[steps // 2]
    k = steps // 2 / (steps - 1)
    even = spacing == "even"
    should = low + (low * factor - low) * k if even else low * factor**k
    assert middle == pytest.approx(should, rel=1e-4)


def test_words_of_an_axis():
    assert axis_of_words("a.b=1,[2, 3],'x,y'").texts == ("1", "[2, 3]", "'x,y'")
    assert axis_of_words("a=1 s..3 s/3").texts == ("1 s", "2 s", "3 s")
    for bad in ("a", "a=", "=1", "a=1 s..3 ms", "a=x..y"):
        with pytest.raises(InputError, match="--over"):
            axis_of_words(bad)


def test_a_range_needs_two_ends_of_one_unit():
    for bad in ({"low": "1 s"}, {"low": "1 s", "high": "2 ms"}, {}, {"values": [1], "low": "1"}):
        with pytest.raises(ValueError, match=r"two ends|one unit|either values"):
            Axis.model_validate({"path": "a", **bad})


def test_mistakes_come_before_any_run_and_all_at_once(tmp_path, capsys):
    words = ["whatif", str(TABLE), "--over", "limits.budget=-3 USD/h,9 USD,60 USD/h"]
    assert run([*words, "-o", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "must be at least 0" in told or "above 0" in told
    assert "'USD' is no unit of price" in told
    assert len(told.splitlines()) == 2
    assert run(["whatif", str(TABLE), "--over", "limits.bugdet=9 USD/h"]) == 2
    assert "budget" in capsys.readouterr().err


def test_too_many_runs_are_refused_with_their_number(capsys):
    words = ["whatif", str(TABLE), "--over", "capacity_tables.rate=1 req/s..2 req/s/2000"]
    assert run(words) == 2
    assert "2,000 runs are more than 1,000" in capsys.readouterr().err


def test_a_study_file_beside_its_scenario(tmp_path, capsys):
    (tmp_path / "s.yaml").write_bytes(TABLE.read_bytes())
    file = tmp_path / "study.yaml"
    file.write_text(
        "format_version: '1.0'\nname: Budgets\nscenario: s.yaml\n"
        "over:\n  - {path: limits.budget, values: [60 USD/h, 1 USD/h]}\n",
        encoding="utf-8",
    )
    assert run(["whatif", str(file), "--json", "--jobs", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["status"] for row in rows] == ["optimal", "infeasible"]
    assert "budget" in rows[1]["reason"]
    file.write_text("format_version: '1.0'\nname: x\nscenario: s.yaml\novr: []\n", encoding="utf-8")
    assert run(["whatif", str(file)]) == 2
    assert "study.yaml:4:1" in capsys.readouterr().err


def test_shipped_studies_can_be_asked():
    for path in Path("scenarios/studies").glob("*.yaml"):
        if "scenario:" not in path.read_text(encoding="utf-8"):
            continue
        found = read_spec(path, Study)
        assert len(runs_of(found, load_question(path.parent / found.scenario), 1000)) > 1


def start(folder: Path) -> subprocess.Popen[bytes]:
    words = ["-m", "planner", "whatif", str(TABLE), "--over", RATES, "--over", BUDGETS]
    return subprocess.Popen(
        [sys.executable, *words, "-o", str(folder), "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kept(folder: Path) -> dict[str, str]:
    """Return what the database holds, by key."""
    try:
        with sqlite3.connect(f"file:{folder / 'runs.sqlite'}?mode=ro", uri=True) as database:
            return dict(database.execute("SELECT key, check_sum FROM runs"))
    except sqlite3.Error:
        return {}


def wait_for(rows: int, folder: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while len(kept(folder)) < rows and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> str:
    """The rows of a study that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert start(folder).wait(120) == 0
    return (folder / "rows.json").read_text(encoding="utf-8")


@pytest.mark.minutes_in_plain
def test_killed_three_times_it_ends_with_the_same_rows(tmp_path, whole):
    folder = tmp_path / "out"
    folder.mkdir()
    for rows in (1, 4, 9):
        process = start(folder)
        wait_for(rows, folder, process)
        before = kept(folder)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        assert before.items() <= kept(folder).items()
    process = start(folder)
    assert process.wait(120) == 0
    assert (folder / "rows.json").read_text(encoding="utf-8") == whole
    assert len(json.loads(whole)["rows"]) == len(kept(folder)) == 14


@pytest.mark.minutes_in_plain
def test_a_lost_worker_costs_only_its_run(tmp_path, whole):
    folder = tmp_path / "out"
    folder.mkdir()
    process = start(folder)
    wait_for(1, folder, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    commands = {c: Path(f"/proc/{c}/cmdline").read_bytes() for c in children.split()}
    workers = [int(c) for c, words in commands.items() if b"spawn_main" in words]
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait(120) == 0
    assert (folder / "rows.json").read_text(encoding="utf-8") == whole


def test_a_damaged_or_foreign_row_is_planned_again(tmp_path):
    store = RunStore(tmp_path)
    store.put("a", "{}")
    assert store.get("a") == "{}"
    store.close()
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        database.execute("UPDATE runs SET plan = x'00'")
    again = RunStore(tmp_path)
    assert again.get("a") is None
    again.close()
    (tmp_path / "runs.sqlite").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(InputError, match="name another folder"):
        RunStore(tmp_path)


def test_the_key_follows_the_question_and_the_files_it_names(tmp_path):
    file, table = tmp_path / "s.yaml", tmp_path / "t.json"
    file.write_text(
        "format_version: '1.0'\nname: x\nobjective: min_cost\ncapacity_tables: {file: t.json}\n",
        encoding="utf-8",
    )
    body = {
        "gpu_info": {"A": {"cost": 1.0, "tputs": [[5.0]]}},
        "workload_distribution": [[1.0]],
        "total_request_rate": 4.0,
    }
    table.write_text(json.dumps(body), encoding="utf-8")
    first = key_of(load_question(file))
    assert key_of(load_question(file)) == first
    assert key_of(load_question(file, ["limits.budget=9 USD/h"])) != first
    table.write_text(json.dumps({**body, "total_request_rate": 5.0}), encoding="utf-8")
    assert key_of(load_question(file)) != first


@given(st.text(min_size=1, max_size=20))
def test_no_cell_of_the_csv_is_a_formula(text):
    row = StudyRow(
        run=1, alternative=text, values={"a": text}, seed=0, status="optimal", reason=text
    )
    told = study_csv(StudyResult(name="x", asked=1, rows=(row,)))
    for cell in list(csv.reader(io.StringIO(told, newline="")))[1]:
        signed = cell[:1] in ("+", "-") and (cell[1:2].isdigit() or cell[1:2] == ".")
        assert cell[:1] not in ("=", "@", "+", "-") or signed
