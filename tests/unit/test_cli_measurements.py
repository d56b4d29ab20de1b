"""``inspect``: what benchmark files hold, as a table and as JSON."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from planner.cli.measurements import given_of, inspect
from planner.errors import InputError
from planner.measurements.measurement import Given

DATA = Path(__file__).parents[1] / "data" / "measurements"


def test_json_holds_every_measurement(capsys):
    files = sorted(p for p in DATA.iterdir() if p.is_dir() or p.suffix != ".md")
    assert inspect(files, None, as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    formats = {m["format"] for m in document["measurements"]}
    assert {"vllm bench serve", "vllm prometheus", "dynamo profile", "requests"} <= formats
    for m in document["measurements"]:
        assert {"missing", "findings", "latencies", "path", "location"} <= m.keys()
    (scrape,) = (m for m in document["measurements"] if m["format"] == "vllm prometheus")
    ttft = next(x for x in scrape["latencies"] if x["metric"] == "ttft")
    assert ttft["histogram"]["edges_s"][-1] == "inf"


def test_the_table_says_what_is_missing_and_found(capsys):
    inspect([DATA / "vllm.json"], None)
    out = capsys.readouterr().out
    for word in ("unlimited 8", "200 / 150 / 600", "engine_version", "prefix_hit_rate_unstated"):
        assert word in out


def test_what_is_given_is_no_longer_missing(capsys):
    given = ["engine=vllm", "engine_version=0.33", "accelerator=h100-sxm", "tp_degree=1"]
    inspect([DATA / "vllm.json"], [*given, "precision=fp8", "prefix_hit_rate=0 %"], as_json=True)
    (m,) = json.loads(capsys.readouterr().out)["measurements"]
    assert m["missing"] == []
    assert m["prefix_hit_rate"] == 0


def test_it_is_a_command(capsys):
    app = typer.Typer()
    app.command()(inspect)
    runner = CliRunner()
    done = runner.invoke(app, ["--json", str(DATA / "vllm.json"), "--given", "engine=vllm"])
    assert done.exit_code == 0
    wrong = runner.invoke(app, [str(DATA / "nowhere.json")])
    assert isinstance(wrong.exception, InputError)


def test_given_words():
    assert given_of(["tp_degree=2", "prefix_hit_rate=80 %"]) == Given(
        tp_degree=2, prefix_hit_rate=0.8
    )
    assert given_of([]) is None


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("tp", "write NAME=VALUE"),
        ("tp_degree=x", "whole number"),
        ("tp_degree=0", "whole number"),
        ("prefix_hit_rate=2", "2 is more than all"),
        ("prefix_hit_rate=-1", "between 0 and 1"),
        ("acelerator=h100", "did you mean 'accelerator'"),
    ],
)
def test_wrong_words_are_told(word, answer):
    with pytest.raises(InputError, match=answer):
        given_of([word])
