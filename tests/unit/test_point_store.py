"""What was kept comes back whole or not at all, whatever happens to the file and the folder."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from planner.simulation.point_folder import cache_folder, points_kept_in
from planner.simulation.point_store import PointStore
from planner.simulation.points import store_at_hand

ONE, TWO = b"1" * 24, b"2" * 24


@pytest.fixture
def told():
    return []


@pytest.fixture
def filled(tmp_path):
    with PointStore(tmp_path) as store:
        store.keep(ONE, b"one")
        store.keep(TWO, b"two")
    return store.path


def found(path: Path, key: bytes, told: list[str]) -> bytes | None:
    with PointStore(path.parent, told.append) as store:
        return store.find(key)


def change(path: Path, words: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(words, values)
    connection.close()


def test_what_was_kept_comes_back_in_another_run(filled, told):
    assert found(filled, ONE, told) == b"one"
    assert found(filled, b"3" * 24, told) is None
    assert told == []


def test_it_counts_what_it_was_asked_and_what_it_found(filled):
    with PointStore(filled.parent) as store:
        store.find(ONE)
        store.find(b"3" * 24)
    assert (store.found, store.asked) == (1, 2)


def test_what_is_fresh_is_found_before_it_is_written(tmp_path):
    with PointStore(tmp_path) as store:
        store.keep(ONE, b"one")
        assert store.find(ONE) == b"one"


def test_an_entry_whose_bits_changed_is_not_trusted_and_is_replaced(filled, told):
    change(filled, "UPDATE points SET value = substr(value, 1, 16) || ? WHERE key = ?", b"on!", ONE)
    assert found(filled, ONE, told) is None
    with PointStore(filled.parent, told.append) as store:
        store.keep(ONE, b"again")
    assert found(filled, ONE, told) == b"again"
    assert told == []


def test_an_entry_under_the_name_of_another_is_not_trusted(filled, told):
    change(filled, "UPDATE points SET value = (SELECT value FROM points WHERE key = ?)", TWO)
    assert found(filled, ONE, told) is None
    assert found(filled, TWO, told) == b"two"


@pytest.mark.parametrize(
    "text", [b"no database at all" * 500, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_file_that_is_harmed_is_made_anew(filled, told, text):
    filled.write_bytes(text)
    assert found(filled, ONE, told) is None
    with PointStore(filled.parent, told.append) as store:
        store.keep(ONE, b"one")
    assert found(filled, ONE, told) == b"one"
    assert len(told) <= 1


def test_a_file_cut_short_does_no_harm(filled, told):
    filled.write_bytes(filled.read_bytes()[:6000])
    assert found(filled, ONE, told) in (None, b"one")
    assert len(told) <= 1


@pytest.mark.parametrize("words", ["DROP TABLE points", "ALTER TABLE points RENAME key TO name"])
def test_a_file_of_ours_without_its_table_is_made_anew(filled, told, words):
    change(filled, words)
    assert found(filled, ONE, told) is None
    with PointStore(filled.parent, told.append) as store:
        store.keep(ONE, b"one")
    assert found(filled, ONE, told) == b"one"
    assert told == []


def test_a_database_of_somebody_else_is_left_alone(tmp_path, told):
    path = PointStore(tmp_path).path
    change(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()
    assert found(path, ONE, told) is None
    assert path.read_bytes() == before
    assert told == [f"measured points are not kept: {tmp_path}: the file belongs to something else"]


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path, told):
    (tmp_path / "file").write_text("")
    with PointStore(tmp_path / "file" / "folder", told.append) as store:
        for _ in range(3):
            assert store.find(ONE) is None
            store.keep(ONE, b"one")
    assert len(told) == 1
    assert "\n" not in told[0]


def test_a_full_disk_is_told_in_one_line(tmp_path, told, monkeypatch):
    store = PointStore(tmp_path, told.append)
    store.keep(ONE, b"one")
    connection = store._open()
    assert connection is not None
    size = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {size}")
    for i in range(2000):
        store.keep(i.to_bytes(24, "big"), b"x" * 200)
    store.close()
    assert len(told) == 1
    assert "full" in told[0]


def test_the_file_keeps_to_its_size_and_forgets_what_was_used_longest_ago(tmp_path):
    most = 200_000
    for run in range(40):
        with PointStore(tmp_path, most_bytes=most) as store:
            assert run == 0 or store.find(ONE) == b"kept in use"
            store.keep(ONE, b"kept in use") if run == 0 else None
            for i in range(20):
                store.keep((1000 * run + i).to_bytes(24, "big"), b"x" * 1000)
    assert store.path.stat().st_size <= most
    with PointStore(tmp_path) as store:
        assert store.find((1000 * 39).to_bytes(24, "big")) is not None
        assert store.find((0).to_bytes(24, "big")) is None


AT_ONCE = """
import sys
from pathlib import Path
from planner.simulation.point_store import PointStore
with PointStore(Path(sys.argv[1]), print) as store:
    for i in range(600):
        store.find(i.to_bytes(24, "big"))
        store.keep(i.to_bytes(24, "big"), b"value %d" % i)
"""


def test_several_runs_at_once_share_the_file(tmp_path, told):
    runs = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [run.communicate()[0] for run in runs] == [b""] * 3
    with PointStore(tmp_path, told.append) as store:
        for i in range(600):
            assert store.find(i.to_bytes(24, "big")) == b"value %d" % i


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/homes/ann"}, "/homes/ann/.cache/goodput-planner"),
        ({"HOME": "/homes/ann", "XDG_CACHE_HOME": "/fast"}, "/fast/goodput-planner"),
        (
            {"HOME": "/homes/ann", "XDG_CACHE_HOME": "not/absolute"},
            "/homes/ann/.cache/goodput-planner",
        ),
        ({"HOME": "/homes/ann", "PLANNER_CACHE_DIR": "/else"}, "/else"),
        ({"HOME": "/homes/ann", "PLANNER_CACHE_DIR": "off"}, None),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_the_folder_is_that_of_the_environment(environment, folder):
    assert cache_folder(environment) == (None if folder is None else Path(folder))


def test_a_home_that_nobody_has_is_told_in_one_line(told):
    with points_kept_in(Path("~nobody-is-called-so/points"), told.append) as store:
        assert store is None
    assert told == [
        "measured points are not kept: ~nobody-is-called-so/points: nobody's home is called so"
    ]


def test_a_tilde_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with points_kept_in(Path("~/points")) as store:
        assert store is not None
        assert store.path.parent == tmp_path / "points"


def test_studies_remember_inside_only(tmp_path):
    with points_kept_in(tmp_path) as store:
        assert store_at_hand() is store is not None
    assert store_at_hand() is None
    with points_kept_in(None) as store:
        assert store is None


def test_the_suite_reads_no_cache_of_a_developer():
    assert cache_folder(os.environ) is None
