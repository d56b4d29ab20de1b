"""Periods: calendars and series by hand; means, peaks and quantiles; what clustering loses."""

import numpy as np
import pytest
from pydantic import ValidationError

from planner.errors import InputError
from planner.problem.periods import MONTH_DAYS, Over, make_calendar
from planner.scenario.traffic import Growth, MonthEnd, Profile, Series, Traffic
from tests.shared import SHARED, needs_shared

FLAT = (1.0,) * 24
OFFICE = (0.0,) * 8 + (3.0,) * 8 + (0.0,) * 8


def calendar(tmp_path, *profiles, names=("chat",), rates=(10.0,), over=None, **fields):
    traffic = Traffic(profiles=profiles, **fields)
    return make_calendar(traffic, names, rates, tmp_path, over=over)


def mean(found, w=0):
    return sum(p.share * p.level[w] for p in found.periods)


def test_office_hours_by_hand(tmp_path):
    """Eight hours of 24 on weekdays only: 5/7 of a third of the time carries everything."""
    found = calendar(tmp_path, Profile(weekday=OFFICE, weekend=(0.0,) * 24))
    busy = 5 / 7 / 3
    assert found.target == pytest.approx((1 / busy,))
    assert mean(found) == pytest.approx(1.0)
    assert sum(p.share for p in found.periods) == pytest.approx(1.0)
    assert found.periods[-1].level == (0.0,)


@pytest.mark.parametrize(
    ("plan_for", "level"), [("peak", 4.2), ("mean", 1.0), ("p50", 0.0), ("p76", 0.0), ("p77", 4.2)]
)
def test_what_is_planned_for(tmp_path, plan_for, level):
    """Of the time, 76.19 % are quiet."""
    profile = Profile(weekday=OFFICE, weekend=(0.0,) * 24)
    found = calendar(tmp_path, profile, plan_for=plan_for)
    assert found.target == pytest.approx((level,))


@pytest.mark.parametrize(
    ("what", "attainment", "level"),
    [("worst_hour", 0.5, 3), ("period", 0.81, 3), ("period", 0.79, 2), ("period", 0.66, 1)],
)
def test_a_promise_over_the_hours_is_planned_for_its_share_of_requests(
    tmp_path, what, attainment, level
):
    """Hours of 1, 2 and 3: 20 + 2 x 2 + 2 x 3 = 30 parts, of which 20 come at the lowest load."""
    profile = Profile(weekday=(1.0,) * 20 + (2.0, 2.0, 3.0, 3.0))
    mean = 30 / 24
    other = Profile(workloads=("else",), weekday=OFFICE)
    found = calendar(
        tmp_path,
        profile,
        other,
        names=("chat", "else"),
        rates=(10.0, 1.0),
        over={0: Over(what, attainment)},
        plan_for="mean",
    )
    # 20 of 30 parts (67 %) come at 1, 24 (80 %) up to 2.
    assert found.target == pytest.approx((level / mean, 1.0))
    assert any("chat: its promise counts" in note for note in found.notes)
    assert not any("else: its promise counts" in note for note in found.notes)


def test_growth_and_peak_factor_multiply_what_is_planned_for(tmp_path):
    growth = Growth(per_quarter=0.1, quarters=3)
    found = calendar(tmp_path, Profile(weekday=FLAT), growth=growth, peak_factor=1.5)
    assert found.target == pytest.approx((1.1**3 * 1.5,))
    assert mean(found) == pytest.approx(1.1**3)
    assert "1.5" in found.notes[0]
    assert "1.1^3" in found.notes[0]


def test_the_end_of_a_month_takes_its_days(tmp_path):
    found = calendar(tmp_path, Profile(weekday=FLAT, month_end=MonthEnd(days=3, factor=2.0)))
    end = 3 / MONTH_DAYS
    base = 1 / (1 + end)
    assert found.target == pytest.approx((2 * base,))
    at_end = sum(p.share for p in found.periods if p.level[0] > 1.5 * base)
    assert at_end == pytest.approx(end)
    assert mean(found) == pytest.approx(1.0)


def test_each_workload_has_its_own_peak(tmp_path):
    night = (3.0,) * 8 + (0.0,) * 16
    found = calendar(
        tmp_path,
        Profile(workloads=("batch",), weekday=night),
        Profile(weekday=OFFICE),
        names=("chat", "batch", "steady"),
        rates=(10.0, 1.0, 5.0),
    )
    assert found.target == pytest.approx((3.0, 3.0, 3.0))
    assert "may not coincide" in found.notes[0]
    for w in range(3):
        assert mean(found, w) == pytest.approx(1.0)
        assert max(p.level[w] for p in found.periods) == pytest.approx(3.0)


def test_a_workload_in_no_profile_is_always_alike(tmp_path):
    profile = Profile(workloads=("batch",), weekday=OFFICE)
    found = calendar(tmp_path, profile, names=("chat", "batch"), rates=(10.0, 1.0))
    assert [p.level[0] for p in found.periods] == pytest.approx([1.0] * len(found.periods))


@pytest.mark.parametrize("clusters", [1, 2, 5, 40])
def test_clusters_keep_the_mean_and_the_peak_and_tell_their_error(tmp_path, clusters):
    rng = np.random.default_rng(0)
    day = tuple(rng.lognormal(0, 1, 24).tolist())
    found = calendar(tmp_path, Profile(weekday=day), clusters=clusters)
    assert len(found.periods) <= max(clusters, 2)
    assert mean(found) == pytest.approx(1.0)
    assert found.periods[0].level == pytest.approx((max(day) / np.mean(day),))
    assert "root mean square" in found.notes[-1]


def test_enough_clusters_lose_nothing(tmp_path):
    day = tuple(float(x + 1) for x in range(24))
    found = calendar(tmp_path, Profile(weekday=day), clusters=200)
    assert "by 0.0% (root mean square), at most 0.0%" in found.notes[-1]


def test_a_series_is_read_by_its_name(tmp_path):
    (tmp_path / "r.csv").write_text(
        "workload,window_start_s,requests_per_s\na,0,1\na,600,3\nb,0,5\nb,600,5\n"
    )
    profile = Profile(series=Series(file="r.csv", name="a"))
    found = calendar(tmp_path, profile)
    assert [p.level for p in found.periods] == [(1.5,), (0.5,)]
    assert found.periods[0].id == "day 1 00:10"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("workload,window_start_s,requests_per_s\na,0,1\nb,0,1\n", None, "several series"),
        ("workload,window_start_s,requests_per_s\na,0,1\n", "c", "no series 'c'"),
        ("window_start_s,rps\n0,1\n", None, "no column 'requests_per_s'"),
        ("window_start_s,requests_per_s\n0,-1\n", None, ":2:1: requests_per_s is '-1'; expected"),
        ("window_start_s,requests_per_s\n0,1\n0,1\n", None, "must ascend"),
        ("window_start_s,requests_per_s\n0,x\n", None, "no number"),
    ],
)
def test_a_series_that_makes_no_sense_is_refused(tmp_path, text, name, words):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        calendar(tmp_path, Profile(series=Series(file="r.csv", name=name)))


def test_an_unknown_workload_is_told(tmp_path):
    with pytest.raises(InputError, match="no workload 'chta'; did you mean 'chat'"):
        calendar(tmp_path, Profile(workloads=("chta",), weekday=FLAT))


@pytest.mark.parametrize(
    "fields",
    [
        {"profiles": (Profile(weekday=FLAT), Profile(weekday=FLAT))},
        {"profiles": (Profile(weekday=FLAT),), "plan_for": "p0"},
        {"profiles": (Profile(weekday=FLAT),), "plan_for": "best"},
    ],
)
def test_contradictions_are_refused(fields):
    with pytest.raises(ValidationError):
        Traffic(**fields)


@pytest.mark.parametrize(
    "fields", [{}, {"weekday": FLAT, "series": Series(file="x")}, {"weekday": (0.0,) * 24}]
)
def test_a_profile_has_one_form_and_some_load(fields):
    with pytest.raises(ValidationError):
        Profile(**fields)


@needs_shared
@pytest.mark.parametrize(
    ("name", "peak"),
    [("language/m-large", 2.98), ("language/m-mid", 1.92), ("reason/deepseek-r1", 2.66)],
)
def test_measured_series_have_their_published_peaks(tmp_path, name, peak):
    path = SHARED / "data" / "traces" / "servegen_total_rate.csv"
    found = calendar(tmp_path, Profile(series=Series(file=str(path), name=name)))
    assert found.target == pytest.approx((peak,), abs=0.006)
    assert mean(found) == pytest.approx(1.0)
