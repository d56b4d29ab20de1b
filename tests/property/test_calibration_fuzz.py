"""Whatever is in a table of measurements, its rows are used, refused one by one, or it is told."""

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.calibration.cells import MOST_DEVICES, MOST_TOKENS, MOST_USERS
from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.silicon import read_closed_loop_means
from planner.catalogue import Catalogue
from planner.errors import InputError
from tests.unit.test_calibration_reading import TABLES

QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ODD = st.sampled_from(
    ["", "0", "-1", "nan", "inf", "1e999", "1e18", "3.5", "x", "None", "é", "1,000", '"', "1e-300",
     "9" * 5000, "A" * 140_000, "1_000", "\u0663", "\n", "vllm", "sglang 0.5", "fp4", "disagg"]
)  # fmt: skip


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue()


def read(path, catalogue):
    """Read a file by either reader; an InputError is the only way out."""
    try:
        if is_ladder(path):
            found = read_ladder(path, catalogue)
            for run in found.runs:
                c = run.client
                assert 0 <= c.users <= MOST_USERS
                assert np.isfinite(c.rate_rps)
                assert 0 < c.prompt_tokens <= MOST_TOKENS
                assert all(np.isfinite(v) and v >= 0 for v in run.measured.values())
            return len(found.runs) + len(found.unusable), found.rows
        table = read_closed_loop_means(path, catalogue)
    except InputError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return 0, 0
    for point in table.points:
        assert 0 < point.load.users <= MOST_USERS
        assert 0 < point.load.prompt_tokens <= MOST_TOKENS
        assert 0 < point.system.main.degrees.accelerators <= MOST_DEVICES**2
        assert all(t is None or (np.isfinite(t) and t > 0) for t in (point.ttft_s, point.tpot_s))
    return len(table.points) + len(table.unusable), table.rows


@QUICK
@given(
    kind=st.sampled_from(sorted(TABLES)),
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), ODD), max_size=4),
    cut=st.integers(0, 3),
)
def test_every_row_is_used_or_refused(tmp_path, catalogue, kind, places, cut):
    rows = list(csv.reader(io.StringIO(TABLES[kind])))
    rows.append(list(rows[1]))
    for row, column, value in places:
        rows[row][column % len(rows[row])] = value
    del rows[2][len(rows[2]) - cut :]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = tmp_path / "rows.csv"
    path.write_text(text.getvalue())
    told, there = read(path, catalogue)
    assert told == there


@QUICK
@given(kind=st.sampled_from(sorted(TABLES)), at=st.integers(0, 10**4), raw=st.binary(max_size=4))
def test_bytes_put_anywhere(tmp_path, catalogue, kind, at, raw):
    text = TABLES[kind].encode()
    at %= len(text)
    path = tmp_path / "rows.csv"
    path.write_bytes(text[:at] + raw + text[at + 1 :])
    told, there = read(path, catalogue)
    assert told == there
