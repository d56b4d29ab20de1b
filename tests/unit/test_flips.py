"""Maps of where an answer flips: axes, cells, refinement, interrupts, and how they are written."""

from __future__ import annotations

import csv
import io
import math
import xml.etree.ElementTree as ET

import pytest

from planner.cli import main
from planner.data import shipped
from planner.errors import InputError
from planner.planning.weigh import Weighed
from planner.reporting.flip_map import flip_csv, flip_svg
from planner.scenario.load import load_scenario
from planner.studies import Bounds, axes_of, axis_of, flip_map, flips

APART = shipped("scenarios") / "apart.yaml"
SIDES = shipped("scenarios") / "side-by-side.yaml"
EDGE_S = 0.06
"""TPOT above which serving together is cheaper, in the world of these tests."""


def by_pace(loaded, *_args, **_kwargs) -> Weighed:
    """Together costs less the looser the pace; apart the same always, and nothing over TCP."""
    slo = loaded.scenario.workloads[0].slo
    link = loaded.scenario.policies.disaggregation.link
    together = 10.0 * EDGE_S / slo.tpot
    apart = None if link.transport == "tcp" else 10.0
    plan = min(together, apart or math.inf)
    return Weighed(together, apart, together, apart, plan, ("1 x a",), verified=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(flips, "weigh", by_pace)


def mapped(*texts: str, plans: int = 24, path=APART, **more):
    loaded = load_scenario(path)
    axes = [axis_of(loaded, text) for text in texts]
    return flip_map(loaded, axes, Bounds(plans), **more)


def test_multiples_of_named_axes_are_settings_of_the_scenario():
    loaded = load_scenario(APART)
    settings = {name: axis_of(loaded, f"{name}=2").settings("2") for name in flips_axes()}
    of = "workloads.assistant"
    assert settings["prompt"] == (f"{of}.lengths.prompt.gamma.mean=4000 tokens",)
    assert settings["output"] == (f"{of}.lengths.output.gamma.mean=1600 tokens",)
    assert settings["ttft"] == (f"{of}.slo.ttft=4 s",)
    assert settings["tpot"] == (f"{of}.slo.tpot=0.05 s", f"{of}.slo.max_itl=0.06 s")
    assert settings["scale"] == (f"{of}.arrivals.poisson=8.8 req/s",)
    changed = loaded.changed([s for some in settings.values() for s in some]).scenario
    assert changed.workloads[0].slo.ttft == 2 * loaded.scenario.workloads[0].slo.ttft


def flips_axes() -> tuple[str, ...]:
    return ("prompt", "output", "ttft", "tpot", "scale")


def test_a_named_axis_moves_every_workload():
    axis = axis_of(load_scenario(SIDES), "scale=0.5,3")
    assert axis.settings("3") == (
        "workloads.steady.arrivals.poisson=13.2 req/s",
        "workloads.loose.arrivals.poisson=13.2 req/s",
    )
    assert axis.settings("1") == ()


def test_links_are_classes_or_written_out():
    axis = axis_of(load_scenario(APART), "link=tcp,{bandwidth: 5 GB/s, latency: 2 ms}")
    scenario = load_scenario(APART)
    speeds = [
        scenario.changed(axis.settings(v)).scenario.policies.disaggregation.link.bandwidth
        for v in axis.values
    ]
    assert speeds == [1.25e9, 5e9]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tpot=", "--vary tpot: no values; write tpot=VALUE,VALUE"),
        ("tpot=1,,2", "--vary tpot: no values; write tpot=VALUE,VALUE"),
        ("tpto", "--vary tpto: no values; did you mean 'tpot'?"),
        ("link=rmda", "--vary link: 'rmda' is no link; did you mean 'rdma'?; or write it out"),
        ("link=5 GB/s", "--vary link: '5 GB/s' is no link; known: nvlink, rdma, tcp; or write it"),
    ],
)
def test_an_axis_that_cannot_be_is_told_with_what_can(text, said):
    with pytest.raises(InputError) as error:
        axis_of(load_scenario(APART), text)
    assert str(error.value).startswith(said)


def test_the_answer_flips_where_it_must_and_plans_find_the_place():
    """TPOT is 25 ms, so it flips at 2.4 times that; ends that differ are halved by ratio."""
    found = mapped("tpot=1,8")
    (flip,) = found.flips
    assert (flip.axis, flip.before, flip.after) == ("tpot", "apart", "together")
    low, high = float(flip.low), float(flip.high)
    assert low <= EDGE_S / 0.025 <= high <= 1.1 * low
    assert found.plans == len(found.cells) <= 8
    assert [cell.added for cell in found.cells].count(False) == 2
    assert [float(c.values["tpot"]) for c in found.cells] == sorted(
        float(c.values["tpot"]) for c in found.cells
    )


def test_no_more_plans_than_allowed_and_no_more_values_than_plans():
    assert mapped("tpot=1,8", plans=3).plans == 3
    with pytest.raises(InputError, match=r"--plans 3: the values make 4 cells; allow more"):
        mapped("tpot=1,8", "ttft=1,2", plans=3)


def test_strips_stand_at_all_values_of_the_other_axes():
    found = mapped("tpot=1,8", "link=nvlink,tcp", plans=4)
    winners = {(c.values["link"], c.values["tpot"]): c.winner for c in found.cells}
    assert winners == {
        ("nvlink", "1"): "apart",
        ("nvlink", "8"): "together",
        ("tcp", "1"): "together",
        ("tcp", "8"): "together",
    }
    tcp = next(c for c in found.cells if c.values["link"] == "tcp")
    assert tcp.difference_usd_per_hour is None


def test_without_axes_each_named_one_stands_alone_and_the_scenario_is_planned_once():
    loaded = load_scenario(APART)
    found = flip_map(loaded, (), Bounds(14))
    assert found.axes == tuple(axis.name for axis in axes_of(loaded))
    assert len(found.cells) == 18
    assert found.plans == 14  # five axes share the scenario as it is
    assert all(set(cell.values) == {axis} for axis, s in zip(found.axes, found.strips, strict=True)
               for cell in s)  # fmt: skip


def test_an_interrupt_keeps_the_cells_that_are_done(monkeypatch):
    done = []

    def stopped(loaded, *args, **kwargs):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(loaded)
        return by_pace(loaded)

    monkeypatch.setattr(flips, "weigh", stopped)
    kept = []
    found = mapped("ttft=1,2,4", kept=kept.append)
    assert found.ended == "an interrupt ended the work"
    assert [cell.values["ttft"] for cell in found.cells] == ["1", "2"]
    assert len(kept) == 2
    assert kept[-1].cells == found.cells


def test_either_way_alone_wins_by_default_and_a_mix_wins_if_it_is_cheaper():
    assert flips.winner(Weighed(together=5.0, apart=5.0, plan=5.0)) == "even"
    assert flips.winner(Weighed(apart=5.0, plan=5.0)) == "apart"
    assert flips.winner(Weighed(together=5.0, apart=6.0, plan=4.0)) == "both ways"
    assert flips.winner(Weighed(plan=4.0)) == "both ways"
    assert flips.winner(Weighed()) == "neither"


def test_a_row_per_cell_with_both_costs_and_a_picture_of_them():
    found = mapped("tpot=1,8", "link=nvlink,tcp", plans=4)
    rows = list(csv.DictReader(io.StringIO(flip_csv(found))))
    assert [(r["tpot"], r["link"], r["winner"]) for r in rows] == [
        (c.values["tpot"], c.values["link"], c.winner) for c in found.cells
    ]
    for row, cell in zip(rows, found.cells, strict=True):
        assert float(row["usd_per_hour_together"]) == cell.usd_per_hour_together
        assert row["usd_per_hour_apart"] == ("" if cell.values["link"] == "tcp" else "10.0")
    drawn = ET.fromstring(flip_svg(found))
    ns = "{http://www.w3.org/2000/svg}"
    cells = [r for r in drawn.iter(f"{ns}rect") if r.get("rx")]
    assert len(cells) == 4
    assert all(float(r.get("x")) + float(r.get("width")) <= float(drawn.get("width"))
               for r in cells)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("tpto=1,2", "--vary tpto: no such axis; did you mean 'tpot'?, or give a path"),
        ("tpot=1,fast", "--vary tpot: 'fast' is no multiple; write numbers from 0.001 to 1000"),
        ("tpot=0", "--vary tpot: '0' is no multiple"),
        ("tpot=1,1", "--vary tpot: a value is given twice"),
        ("tpot=", "--vary tpot: no values"),
        (
            "workloads.assistant.slo.ttft",
            "no values; write workloads.assistant.slo.ttft=VALUE,VALUE",
        ),
        ("", "no values"),
    ],
)
def test_axes_that_cannot_be_are_refused(text, mistake):
    with pytest.raises(InputError) as refused:
        axis_of(load_scenario(APART), text)
    assert mistake in str(refused.value)


def test_lengths_of_a_histogram_have_no_mean_to_multiply():
    loaded = load_scenario(shipped("scenarios") / "quickstart.yaml")
    with pytest.raises(InputError, match=r"histogram or a trace, which has no mean to multiply"):
        axis_of(loaded, "prompt=1,2")
    assert [a.name for a in axes_of(loaded)] == ["ttft", "tpot", "link", "scale"]


def test_mistakes_are_told_before_the_first_plan(capsys, tmp_path):
    for words, told in (
        ([str(shipped("scenarios") / "quickstart.yaml")], "states no link"),
        ([str(APART), "--vary", "workloads.assistant.slo.ttft=1 s,soon"], "slo.ttft"),
        (
            [str(APART), "--vary", "ttft=1", "--vary", "workloads.assistant.slo.ttft=1 s"],
            "drop one",
        ),
        ([str(APART), "-o", "map.txt"], "must end in .csv"),
        ([str(APART), "--draw", str(tmp_path / "no" / "x.svg")], "there is no folder"),
        ([str(shipped("scenarios") / "capacity-table.yaml")], "cannot be planned"),
    ):
        code = main(["whatif", "apart", *words])
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert told in err or "capacity_tables" in err
        assert "Traceback" not in err


def test_the_command_writes_table_rows_and_picture(capsys, tmp_path):
    table, picture = tmp_path / "map.csv", tmp_path / "map.svg"
    words = ["whatif", "apart", str(APART), "--vary", "tpot=1,8", "--plans", "2"]
    assert main([*words, "-o", str(table), "--draw", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "between tpot 1 (apart) and 8 (together)" in out
    assert err == ""
    assert len(table.read_text().splitlines()) == 3
    assert picture.read_text().startswith("<svg")


def test_where_no_cell_has_a_fleet_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr(flips, "weigh", lambda *_a, **_k: Weighed(why="ttft 1 ms: too short"))
    assert main(["whatif", "apart", str(APART), "--vary", "ttft=1", "--plans", "1"]) == 3
    assert "ttft 1 ms: too short" in capsys.readouterr().out
