"""Parquet logs: the same requests as in CSV, whatever the types; broken ones are told."""

import datetime as dt
import io

import numpy as np
import polars as pl
import pytest

from planner.cli import main
from planner.errors import InputError
from planner.measurements.request_files import ROWS
from planner.measurements.requests import RequestColumns, read_requests

START = dt.datetime(2024, 5, 10, 0, 0, tzinfo=dt.UTC)


def parquet(path, **columns):
    pl.DataFrame(columns).write_parquet(path, row_group_size=50_000)
    return path


def test_a_log_is_the_same_as_parquet_and_as_csv(tmp_path):
    rng = np.random.default_rng(0)
    n = ROWS + 5_000
    table = pl.DataFrame(
        {
            "arrival_s": np.cumsum(rng.exponential(1.0, n)).round(3),
            "prompt_tokens": rng.integers(1, 5_000, n),
            "output_tokens": rng.integers(1, 500, n),
            "status": rng.choice(["200", "429"], n),
            "client_id": rng.integers(0, 9, n),
        }
    )
    table.write_parquet(tmp_path / "log.parquet", row_group_size=7_000)
    table.write_csv(tmp_path / "log.csv")
    one, two = (read_requests(tmp_path / f"log.{kind}") for kind in ("parquet", "csv"))
    for name in ("time_s", "prompt", "output", "failed", "client"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_dates_of_any_kind_become_seconds(tmp_path, zone, unit):
    moments = [START + dt.timedelta(milliseconds=ms) for ms in (0, 1_500, 4_000)]
    column = pl.Series(moments).dt.cast_time_unit(unit).dt.convert_time_zone(zone or "UTC")
    column = column if zone else column.dt.replace_time_zone(None)
    path = parquet(
        tmp_path / "log.parquet", timestamp=column, prompt_tokens=[1, 2, 3], output_tokens=[4, 5, 6]
    )
    assert read_requests(path).time_s == pytest.approx([0.0, 1.5, 4.0], abs=1e-5)


def test_structs_are_reached_by_dots_and_lists_are_blocks(tmp_path):
    usage = [{"prompt_tokens": 7, "completion_tokens": 3}, None]
    path = parquet(
        tmp_path / "log.parquet", usage=usage, hash_ids=[[4, 5], [4]], who=[{"id": {"x": "a"}}] * 2
    )
    trace = read_requests(path, RequestColumns(client="who.id.x"))
    assert trace.prompt.tolist() == [7, 7]
    assert trace.failed.tolist() == [False, True]  # unknown lengths stay in the demand
    assert trace.prefix.name.tolist() == [0, 1, 0]
    assert trace.client.tolist() == [1, 1] or trace.client.tolist() == [0, 0]


def test_odd_numbers_are_numbers(tmp_path):
    path = parquet(
        tmp_path / "log.parquet",
        prompt_tokens=pl.Series([1, 2], dtype=pl.UInt8),
        output_tokens=pl.Series(["3", "4"]).cast(pl.Decimal(10, 2)),
    )
    assert read_requests(path).output.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"prompt_tokens": [1], "output_tokens": [[1]]}, "row 1: output_tokens is a list, no"),
        ({"prompt_tokens": [1], "output_tokens": [True]}, "row 1: output_tokens is true, no"),
        ({"prompt_tokens": [1], "output_tokens": [b"\0"]}, "row 1: output_tokens is"),
        ({"prompt_tokens": [1, 1], "output_tokens": [1.0, 2.5]}, "row 2: output_tokens is 2.5"),
        ({"prompt_tokens": [1, 1], "output_tokens": [1, -2]}, "row 2: output_tokens is -2"),
        ({"prompt_tokens": [None], "output_tokens": [None]}, "no request has both lengths"),
        ({"prompt_tokens": [], "output_tokens": []}, "is empty"),
        ({"a": [1], "b": [{"c": 1}]}, "no known pair of length columns among a, b.c"),
        (
            {"ts": [START, None], "prompt_tokens": [1, 1], "output_tokens": [1, 1]},
            "row 2: ts is missing",
        ),
        (
            {"ts": [dt.time(1)], "prompt_tokens": [1], "output_tokens": [1]},
            "row 1: ts is '01:00:00', no date with a time",
        ),
        (
            {"ts": [dt.timedelta(1)], "prompt_tokens": [1], "output_tokens": [1]},
            "row 1: ts is '1 day, 0:00:00', no date with a time",
        ),
    ],
)
def test_what_makes_no_sense_is_told_with_its_row(tmp_path, columns, told):
    path = parquet(tmp_path / "log.parquet", **columns)
    with pytest.raises(InputError) as error:
        read_requests(path)
    assert told in str(error.value)


def test_a_broken_file_is_told_in_a_line(tmp_path, capfd):
    good = io.BytesIO()
    pl.DataFrame({"prompt_tokens": range(500), "output_tokens": range(500)}).write_parquet(good)
    raw, path = good.getvalue(), tmp_path / "log.parquet"
    rng = np.random.default_rng(0)
    broken = [b"", b"PAR1", b"no parquet at all", raw[:-4], raw[: len(raw) // 2], raw[9:]]
    for _ in range(60):
        one = bytearray(raw)
        one[rng.integers(len(one))] = rng.integers(256)
        broken.append(bytes(one))
    for one in broken:
        path.write_bytes(one)
        code = main(["workload", str(path)])
        error = capfd.readouterr().err
        assert code == 0 or (code == 2 and str(path) in error), error
        assert "Traceback" not in error


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_requests(tmp_path / "nowhere.parquet")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_requests(tmp_path / "folder.parquet")
