"""``planner workload``: profile, page, fit, users; and a fit that plans like its trace."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from planner.cli import main
from planner.problem.arrivals import BurstArrivals
from planner.scenario.arrivals import Arrivals
from planner.scenario.lengths import Lengths
from planner.scenario.load import load_scenario
from planner.simulation.arrivals import make_stream
from planner.source import parse_yaml
from planner.spec import validate


@pytest.fixture
def log(tmp_path):
    """Bursts of 5 s and 25 s of quiet, at 6 requests a second in the mean."""
    rng = np.random.default_rng(0)
    times = make_stream(BurstArrivals(6.0, 5.0, 25.0, 0.2), 7_200, (1,)).at(6.0).time_s
    prompt = np.ceil(rng.lognormal(6, 0.8, times.size)).astype(int)
    output = np.ceil(rng.lognormal(4, 0.5, times.size)).astype(int)
    rows = zip(times, prompt, output, rng.integers(0, 5, times.size), strict=True)
    path = tmp_path / "log.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens,client_id\n"
        + "".join(f"{t:.6f},{p},{o},c{c}\n" for t, p, o, c in rows)
    )
    return path


def test_the_table_tells_the_facts(log, capsys):
    assert main(["workload", str(log)]) == 0
    shown = capsys.readouterr().out
    for part in ("mean rate: ", "clients: 5;", "index of dispersion", "prompt", "span: "):
        assert part in shown, part


def test_json_and_file_are_the_same_document(log, capsys, tmp_path):
    out = tmp_path / "p.json"
    assert main(["workload", str(log), "--json", "-o", str(out)]) == 0
    assert out.read_text() == capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["requests"] == sum(map(sum, document["heat"]["counts"]))
    by_window = (
        np.array(document["arrivals"]["rate"]["rps"]) * document["arrivals"]["rate"]["window_s"]
    )
    assert by_window.sum() == pytest.approx(document["requests"])


def test_the_page_needs_nothing_else_and_its_pictures_stay_in_their_frames(log, tmp_path, capsys):
    out = tmp_path / "p.html"
    assert main(["workload", str(log), "-o", str(out)]) == 0
    page = out.read_text()
    assert page.count("<svg") == 5
    assert not re.search(r"<script|<link|src=|https?://|@import|url\(", page)
    for points in re.findall(r'points="([^"]+)"', page):
        xy = np.array([[float(x) for x in pair.split(",")] for pair in points.split()])
        assert ((xy >= 0) & (xy <= [640, 300])).all()
    assert main(["workload", str(log), "-o", str(tmp_path / "p.txt")]) == 2
    assert "name it .html or .json" in capsys.readouterr().err


def test_a_name_in_a_file_is_never_markup(tmp_path):
    path = tmp_path / "<b>log.csv"
    path.write_text("prompt_tokens,output_tokens\n5,6\n7,8\n")
    out = tmp_path / "p.html"
    assert main(["workload", str(path), "-o", str(out)]) == 0
    assert "<b>" not in out.read_text()


@pytest.mark.parametrize("parametric", [[], ["--parametric"]])
def test_a_fit_is_a_section_of_a_scenario_with_a_statement(log, tmp_path, capsys, parametric):
    out = tmp_path / "w.yaml"
    assert main(["workload", str(log), "--fit", *parametric, "-o", str(out)]) == 0
    text = out.read_text()
    assert text == capsys.readouterr().out
    assert "# within a factor of" in text
    section = parse_yaml(text, "w.yaml").data
    arrivals = validate(parse_yaml(json.dumps(section["arrivals"]), "a"), Arrivals)
    lengths = validate(parse_yaml(json.dumps(section["lengths"]), "l"), Lengths)
    assert arrivals.bursts.rate == pytest.approx(6.0, rel=0.1)
    assert 2.5 < arrivals.bursts.burst < 10
    assert (lengths.histogram is None) == bool(parametric)


def test_a_fit_can_be_planned_with_beside_its_histogram(log, tmp_path, capsys):
    out = tmp_path / "w.yaml"
    assert main(["workload", str(log), "--fit", "-o", str(out)]) == 0
    body = "".join(f"    {x}\n" for x in out.read_text().splitlines() if not x.startswith("#"))
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "format_version: '1.0'\nname: fitted\nworkloads:\n  - id: w\n    model: llama-3.1-8b\n"
        f"{body}    slo: {{ttft: 1 s, tpot: 50 ms}}\naccelerators:\n"
        "  - {id: h100-sxm, price: 2 USD/h}\n"
    )
    assert load_scenario(scenario).scenario.workloads[0].lengths.histogram == "w.lengths.csv"
    capsys.readouterr()
    assert main(["check", str(scenario)]) == 0


def test_users_become_a_rate_by_a_formula_that_is_shown(capsys):
    words = ["workload", "--users", "20000", "--active", "10%", "--requests-per-hour", "12"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "20,000 users x 0.1 active x 12 requests per hour / 3600 = 6.66667 req/s" in shown
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rate_rps"] == pytest.approx(20000 * 0.1 * 12 / 3600)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "neither is given"),
        (["x.csv", "--users", "5"], "both are given"),
        (["--users", "5"], "give --requests-per-hour"),
        (["--users", "5", "--requests-per-hour", "1", "--active", "0"], "must be above 0"),
        (["--users", "5", "--requests-per-hour", "0"], "must be above 0"),
        (["--users", "5", "--requests-per-hour", "nan"], "expected a finite number"),
        (["--users", "5", "--requests-per-hour", "1e300"], "must be at most 1,000,000"),
        (["--users", "5", "--requests-per-hour", "1e-9"], "a rate lies from 1e-06 to"),
        (["--users", "9" * 21, "--requests-per-hour", "5"], "must be at most 100,000,000,000"),
        (["--users", "9" * 11, "--requests-per-hour", "1e6"], "a rate lies from 1e-06 to"),
        (["x.csv", "--active", "5%"], "belong to --users"),
        (["x.csv", "--column", "when=t"], "WHAT is one of time"),
        (["x.csv"], "no such file"),
        (["x.csv", "--fit", "-o", "w.json"], "name it .yaml or .yml"),
    ],
)
def test_mistakes_are_told_in_a_line(more, told, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["workload", *more]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_columns_are_mapped_by_name(tmp_path, capsys):
    path = tmp_path / "odd.csv"
    path.write_text("when,in,out\n0,5,6\n500,7,8\n")
    columns = ("time=when", "time_unit=ms", "prompt=in", "output=out")
    words = [part for column in columns for part in ("--column", column)]
    assert main(["workload", str(path), *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["prompt"]["max"] == 7
    assert document["arrivals"]["span_s"] == pytest.approx(1.0)
