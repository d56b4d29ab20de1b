"""Rates by window: what is told of them, by hand and against published numbers."""

import numpy as np
import pytest

from planner.cli import main
from planner.profiles.rate_profile import profile_rates
from planner.scenario.load import load_scenario
from tests.shared import SHARED, needs_shared

TRACES = SHARED / "data" / "traces"
TWO = "workload,window_start_s,requests_per_s\na,0,1\na,600,3\nb,0,5\nb,600,7\n"


def test_windows_count_for_as_long_as_they_last():
    """1 req/s for 1 h, 4 for 2 h, 1 for the last, taken to last an hour and a half as most do."""
    found = profile_rates(np.array([0.0, 3600, 10_800]), np.array([1.0, 4.0, 1.0]), "x", None)
    assert found.span_s == 3600 + 7200 + 5400
    assert found.mean_rps == pytest.approx((3600 + 4 * 7200 + 5400) / 16_200)
    assert (found.p50_rps, found.p95_rps, found.peak_rps) == (1.0, 4.0, 4.0)
    assert found.hours_rps[:4] == (1.0, 4.0, None, 1.0)


@needs_shared
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("language/m-large", (196, 48, 583, 2.98)),
        ("language/m-mid", (1790, 0, 3445, 1.92)),
        ("reason/deepseek-r1", (16.0, 4.3, 42.5, 2.66)),
        ("multimodal/mm-image", (9.5, 4.9, 13.3, 1.40)),
    ],
)
def test_public_sets_have_their_published_rates(name, numbers, capsys):
    assert main(["workload", str(TRACES / "servegen_total_rate.csv"), "--series", name]) == 0
    assert "rates only, no requests" in capsys.readouterr().out
    from planner.measurements.rate_series import COLUMNS, read_rate_series

    found = profile_rates(
        *read_rate_series(TRACES / "servegen_total_rate.csv", COLUMNS, name), "x", name
    )
    told = (found.mean_rps, found.least_rps, found.peak_rps, found.peak_rps / found.mean_rps)
    assert told == pytest.approx(numbers, rel=0.006, abs=0.5)


@needs_shared
def test_a_client_set_without_lengths_is_a_load_over_time(capsys):
    file = f"{TRACES / 'servegen_rates_all.tar.gz'}#multimodal/mm-image"
    assert main(["workload", file]) == 0
    assert "mean rate: 9.47 req/s" in capsys.readouterr().out


def test_rates_become_the_traffic_of_a_scenario(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    path, out = tmp_path / "data" / "rates.csv", tmp_path / "w.yaml"
    path.write_text(TWO)
    assert main(["workload", str(path), "--series", "b", "--fit", "-o", str(out)]) == 0
    assert "file: data/rates.csv" in capsys.readouterr().out
    arrivals, traffic = out.read_text().split("traffic:")
    arrivals = arrivals[arrivals.index("arrivals:") :].replace("\n  ", "\n      ")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "format_version: '1.0'\nname: rates\nworkloads:\n  - id: w\n    model: llama-3.1-8b\n"
        f"    {arrivals}    lengths: {{prompt: {{fixed: 9}}, output: {{fixed: 9}}}}\n"
        "    slo: {ttft: 1 s, tpot: 50 ms}\naccelerators:\n  - {id: h100-sxm, price: 2 USD/h}\n"
        f"traffic:{traffic}"
    )
    loaded = load_scenario(scenario).scenario
    assert loaded.workloads[0].arrivals.poisson == 6.0
    assert loaded.traffic.profiles[0].series.name == "b"
    assert main(["check", str(scenario)]) == 0


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        (TWO, [], "holds several series; name one: a, b"),
        (TWO, ["--series", "c"], "there is no series 'c'"),
        (TWO.replace("3", "x"), ["--series", "a"], ":3:1: requests_per_s is 'x', no number"),
        (TWO.replace("7", "-7"), ["--series", "a"], ":5:1: requests_per_s is '-7'; expected"),
        (TWO.replace("600", "1e300"), ["--series", "a"], ":3:1: window_start_s is '1e300'; exp"),
        (TWO.replace("600", "0"), ["--series", "a"], ":3:1: window_start_s is 0 after 0; starts"),
        (TWO.replace("600", "0"), ["--series", "b"], ":5:1: window_start_s is 0 after 0; starts"),
        (
            TWO.replace("5", "0").replace("7", "0"),
            ["--series", "b"],
            "rates.csv: no requests_per_s is above 0",
        ),
        (TWO, ["--model", "m"], "--model belongs to another kind of file"),
        (TWO, ["--column", "prompt=x"], "--column belongs to another kind of file"),
        (TWO, ["--series", "a", "-o", "p.html"], "a page needs single requests"),
        ("prompt_tokens,output_tokens\n1,1\n", ["--series", "a"], "--series belongs to a file of"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path, capsys, monkeypatch, text, more, told):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rates.csv"
    path.write_text(text)
    assert main(["workload", str(path), *more]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
