"""``planner capacity``: table, document and picture say the same, and wrong wishes are told."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from planner import load
from planner.cli import main
from planner.data import shipped
from planner.fleet import Interval
from planner.planning.capacity import (
    GoodputPoint,
    TemplateCapacity,
    Wanted,
    WorkloadMix,
    capacity_of,
)
from planner.reporting.goodput_svg import goodput_html, goodput_svg
from planner.simulation.effort import PLAIN_EFFORT

QUICKSTART = str(shipped("scenarios") / "quickstart.yaml")
TWO = str(shipped("scenarios") / "two-classes.yaml")
SVG = "{http://www.w3.org/2000/svg}"


def point(offered: float, completed: float, compliant: float, *, unstable: bool = False):
    return GoodputPoint(
        offered_rps=offered,
        completed_rps=completed,
        compliant_rps=compliant,
        attainment=(compliant / offered,),
        unstable=unstable,
    )


@pytest.fixture
def known() -> TemplateCapacity:
    """A curve by hand: peak of 9.5 at 10.5, gone at 16."""
    curve = (
        point(5, 5, 5),
        point(10, 10, 9.4),
        point(10.5, 10.5, 9.5),
        point(16, 12, 0.1, unstable=True),
    )
    return TemplateCapacity(
        planner_version="0",
        seed=0,
        scenario="s",
        template="a<b>.tp1.bf16.b1.s1@w&x",
        replicas=2,
        accelerators=2,
        router="round_robin",
        usd_per_hour=3.6,
        workloads=(WorkloadMix(id="w", share=1.0, promise=0.94),),
        capacity_rps=Interval(value=10.0, low=9.9, high=10.1),
        wanted_precision=0.005,
        precise=False,
        limited_by="max_num_seqs",
        usd_per_thousand_compliant=3.6 / 3.6 / 9.4,
        peak=curve[2],
        collapsed=True,
        curve=curve,
        replications=8,
        requests=1000,
        matching=3,
    )


def xs_and_ys(line: ET.Element) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]


def test_picture_is_well_formed_and_its_lines_are_the_curve(known):
    root = ET.fromstring(goodput_svg(known))
    assert root.tag == f"{SVG}svg"
    lines = {line.get("class", "").split()[-1]: line for line in root.iter(f"{SVG}polyline")}
    assert set(lines) == {"offered", "completed", "compliant"}
    compliant, completed = xs_and_ys(lines["compliant"]), xs_and_ys(lines["completed"])
    assert [x for x, _ in compliant] == [x for x, _ in completed]
    assert len(compliant) == 1 + len(known.curve)
    # 5 offered, completed and compliant lie on one point of the dashed diagonal
    (x0, y0), (x1, y1) = xs_and_ys(lines["offered"])[0], xs_and_ys(lines["offered"])[-1]
    at = (compliant[1][0] - x0) / (x1 - x0)
    assert compliant[1][1] == pytest.approx(y0 + at * (y1 - y0), abs=0.11)
    assert completed[1] == compliant[1]
    # at 16 offered, 0.1 is compliant: nearly on the axis
    assert compliant[-1][1] == pytest.approx(y0, abs=4)


@pytest.mark.parametrize("scale", [1, 1e3, 1e5, 1e7])
def test_numbers_on_the_axes_fit_their_margin(known, scale):
    curve = tuple(p.model_copy(update={"offered_rps": p.offered_rps * scale}) for p in known.curve)
    root = ET.fromstring(goodput_svg(known.model_copy(update={"curve": curve})))
    texts = [t for t in root.iter(f"{SVG}text") if t.get("class") is None and t.get("text-anchor")]
    labels = [t.text for t in texts if t.text and t.text[0].isdigit()]
    assert labels
    assert all(len(label) <= 5 for label in labels)


def test_picture_marks_capacity_and_cliff_where_they_are(known):
    root = ET.fromstring(goodput_svg(known))
    lines = {line.get("class", "").split()[-1]: line for line in root.iter(f"{SVG}polyline")}
    xs = [x for x, _ in xs_and_ys(lines["compliant"])]
    (band,) = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "cliff"]
    assert float(band.get("x", 0)) == pytest.approx(xs[3], abs=0.11)
    assert float(band.get("width", 0)) == pytest.approx(xs[4] - xs[3], abs=0.11)
    (mark,) = [line for line in root.iter(f"{SVG}line") if line.get("class") == "mark"]
    assert float(mark.get("x1", 0)) == pytest.approx(xs[2], abs=0.11)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "2 × a<b>.tp1.bf16.b1.s1@w&x" in texts
    assert "capacity 10.0" in texts


def test_picture_needs_nothing_from_outside(known):
    for text in (goodput_svg(known), goodput_html(known)):
        assert not re.search(r"url\(|href|<script|@import", text)
        assert "prefers-color-scheme: dark" in text


def test_table_shows_the_number_the_peak_and_what_is_unstable(known, capsys):
    from planner.cli.output import emit_tables
    from planner.reporting.capacity import capacity_table

    emit_tables(*capacity_table(known))
    out = capsys.readouterr().out
    assert "capacity 10.0 req/s" in out
    assert "9.90–10.1 req/s, ±1.00 %" in out
    assert "5.00 req/s each" in out
    assert "wider than the ±0.50 %" in out
    assert "cheapest per request of 3 templates" in out
    rows = {line.split()[0]: line for line in out.splitlines() if re.match(r" *\d", line)}
    assert rows["10.0"].endswith("capacity")
    assert rows["10.5"].endswith("peak")
    assert rows["16.0"].endswith("unstable")
    assert rows["10.5"].count("█") == 30
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.minutes_in_plain
def test_capacity_of_a_scenario_keeps_its_promise_and_is_reproducible():
    scenario = load(QUICKSTART)
    wanted = Wanted(template="h100-sxm.tp1.bf16.b2048.s256")
    one, two = (
        capacity_of(scenario, wanted, precision=0.05, effort=PLAIN_EFFORT) for _ in range(2)
    )
    assert one == two
    assert one.template == "h100-sxm.tp1.bf16.b2048.s256@chat"
    assert one.matching == 1
    assert one.precise
    assert one.usd_per_hour == 2.99
    below = [p for p in one.curve if p.offered_rps < 0.9 * one.capacity_rps.value]
    assert all(p.attainment[0] > 0.95 for p in below)
    assert one.curve[-1].compliant_rps < 0.05 * one.peak.compliant_rps
    compliant = one.usd_per_hour / 3.6 / one.usd_per_thousand_compliant
    assert compliant == pytest.approx(0.95 * one.capacity_rps.value, rel=0.02)


def test_verb_writes_json_and_picture(tmp_path, capsys):
    picture = tmp_path / "curve.html"
    words = ["capacity", QUICKSTART, "--template", "h100-sxm.tp1.bf16.b2048.s256"]
    words += ["--replicas", "2", "--precision", "5%", "--json", "-o", str(picture)]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["replicas"] == answer["accelerators"] == 2
    low, value, high = (answer["capacity_rps"][k] for k in ("low", "value", "high"))
    assert low < value < high
    loads = [p["offered_rps"] for p in answer["curve"]]
    assert loads == sorted(loads)
    assert "<svg" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([QUICKSTART, "--template", "nothing"], "no template fits; there are"),
        ([QUICKSTART, "--accelerator", "h1000"], "no accelerator is called 'h1000'"),
        ([QUICKSTART, "--accelerator", "h100-sxm", "--tp", "3"], "no template fits"),
        ([QUICKSTART, "--accelerator", "l40s", "--tp", "4"], "even in an empty replica"),
        ([TWO, "--workload", "chat"], "--workload chat: not in the scenario"),
        ([QUICKSTART, "--precision", "0"], "must be above 0"),
        ([QUICKSTART, "-o", "curve.png"], "a picture ends in .svg or .html"),
    ],
)
def test_wrong_wishes_are_wrong_input(words, said, capsys):
    assert main(["capacity", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
