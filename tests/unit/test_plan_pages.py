"""A plan against load, its late requests as stories, and the page that shows both."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.attribution.waterfall import late_stories
from planner.cli import main
from planner.planning.against_load import against_load
from planner.planning.tracing import trace_plan
from planner.reporting.plan_diagnosis_html import cliff_of
from tests.unit.test_plan_traces import POOL, hand_made

pytestmark = pytest.mark.minutes_in_plain


@pytest.fixture(scope="module")
def points():
    return against_load(hand_made(), Path(), (0.5, 1.0, 2.0, 4.0))


def test_every_miss_is_charged_and_goodput_is_within_throughput(points):
    for point in points:
        (chat,) = point.workloads
        charged = sum(chat.misses.model_dump().values())
        assert charged == pytest.approx(1 - chat.attainment, abs=1e-9)
        assert chat.offered_rps == pytest.approx(20 * point.multiple)
        assert point.goodput_rps == pytest.approx(chat.goodput_rps)
        assert point.goodput_rps <= point.completed_rps * 1.1  # of another span of the run


def test_more_load_attains_less_and_the_cliff_is_where_goodput_falls(points):
    attained = [point.workloads[0].attainment for point in points]
    assert attained == sorted(attained, reverse=True)
    goodput = {point.multiple: point.goodput_rps for point in points}
    edge = cliff_of(points)
    assert edge is not None
    assert goodput[edge[1]] < 0.98 * goodput[edge[0]]
    assert cliff_of(points[:1]) is None


def test_a_story_is_the_time_of_its_request_without_a_hole():
    (run,) = trace_plan(hand_made(), requests=1_500, folder=Path())
    stories = late_stories(run, 5)
    assert 0 < len(stories) <= 5
    assert len({story.request for story in stories}) == len(stories)
    late = set(run.pick(10**9, only_missed=True))
    for story in stories:
        assert story.request in late
        took = (run.records.finish - run.traffic.arrival)[story.request] * run.tick_s
        assert story.stretches[0].start_s == 0
        assert story.stretches[-1].end_s == pytest.approx(took, abs=1e-9)
        for one, two in zip(story.stretches, story.stretches[1:], strict=False):
            assert one.end_s == pytest.approx(two.start_s, abs=1e-12)
            assert one.stage != two.stage
        charges = run.charges(run.counted)
        row = run.counted.tolist().index(story.request)
        assert charges[story.cause][row] == max(share[row] for share in charges.values())


def test_the_page_from_the_command_line(tmp_path, capsys):
    file, page = tmp_path / "plan.json", tmp_path / "page.html"
    file.write_text(hand_made().model_dump_json())
    assert main(["diagnose", str(file), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    for words in ("Goodput and throughput against load", "1.5 times the demand", POOL):
        assert words in text
    assert "charged to" in text
    assert main(["diagnose", str(file), "--html", str(tmp_path / "page.txt")]) == 2
    assert "ends in .html" in capsys.readouterr().err
