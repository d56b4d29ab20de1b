"""``planner validate`` and ``planner calibrate`` from the command line."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planner.cli.app import app

SHARED = Path(os.environ.get("PLANNER_SHARED", Path(__file__).parents[3] / "shared"))
MEANS = SHARED / "data/silicon/closed_loop_means.csv"

ROWS = [
    {
        "id": f"c{users}", "mode": "agg", "backend": "vllm", "system": "h100_sxm", "isl": "1024",
        "osl": "256", "x_concurrency": str(users), "x_gpus": "2", "x_model": "Qwen/Qwen3-32B",
        "x_spec": "none", "silicon_ttft_ms": "150", "silicon_tpot_ms": "25",
        "silicon_data_source": "gap",
    }
    for users in (4, 16, 64)
]  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def write(path: Path, rows: list[dict[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_one_entry_per_row_in_order_with_bands(tmp_path: Path) -> None:
    rows = [ROWS[0], ROWS[1] | {"x_model": "acme/unheard-of"}, ROWS[2]]
    result = run("validate", write(tmp_path / "rows.csv", rows), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [(r["row"], r["id"]) for r in document["rows"]] == [(0, "c4"), (1, "c16"), (2, "c64")]
    for r in (document["rows"][0], document["rows"][2]):
        assert r["low"]["tpot_s"] < r["tpot_s"] < r["high"]["tpot_s"]
        assert r["low"]["ttft_s"] < r["ttft_s"] < r["high"]["ttft_s"]
        assert r["reason"] is None
        assert r["source"]
    assert document["rows"][1]["tpot_s"] is None
    assert "unheard-of" in document["rows"][1]["reason"]
    assert document["counts"]["predicted"] == 2
    for metric in ("ttft_s", "tpot_s"):
        whole = document["metrics"][metric]["overall"]["all"]
        assert set(whole) == {"n", "mape", "median_ape", "bias", "p90", "band_coverage"}
        assert whole["n"] == 2
        assert {"by_mode", "by_accelerator", "by_engine", "by_model"} < set(
            document["metrics"][metric]
        )


def test_measured_siblings_pull_predictions_towards_them(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", ROWS[:2])
    slow = write(tmp_path / "slow.csv", [ROWS[2] | {"silicon_tpot_ms": "200"}])
    before = json.loads(run("validate", rows, "--json").stdout)["rows"]
    after = json.loads(run("validate", rows, "--calibrate-on", slow, "--json").stdout)["rows"]
    assert all(a["tpot_s"] > b["tpot_s"] for a, b in zip(after, before, strict=True))


def test_a_table_learns_from_one_of_its_own_kind(tmp_path: Path) -> None:
    means = write(tmp_path / "means.csv", ROWS[:1])
    ladder = write(tmp_path / "ladder.csv", [{"rate_rps": "1", "prefix_hit": "0"}])
    for rows, other, kind in (
        (means, ladder, "closed-loop means"),
        (ladder, means, "runs at loads or rates"),
    ):
        result = run("validate", rows, "--calibrate-on", other)
        assert result.exit_code == 2
        said = " ".join(result.output.split())
        assert f"--calibrate-on: holds no {kind}, as {rows} does; a table learns" in said


def test_a_table_without_its_columns_is_told_so(tmp_path: Path) -> None:
    result = run("validate", write(tmp_path / "rows.csv", [{"id": "x"}]))
    assert result.exit_code == 2
    assert "no column" in result.output
    other = run("validate", write(tmp_path / "rows.csv", ROWS), "--leave-out", "row")
    assert other.exit_code == 2


def test_calibrate_writes_a_law_for_each_system(tmp_path: Path) -> None:
    out = tmp_path / "curves.json"
    rows = write(tmp_path / "rows.csv", ROWS)
    result = run("calibrate", rows, "-o", str(out), "--json")
    assert result.exit_code == 0
    (curve,) = json.loads(out.read_text())["curves"]
    assert curve["runs"] == 3
    assert curve["step_s"] == sorted(curve["step_s"])
    assert all(sd > 0 for sd in curve["standard_deviation"].values())


@pytest.mark.skipif(not MEANS.is_file(), reason="the shared measurements are not here")
def test_groups_never_seen_are_predicted_better_than_by_the_public_predictor() -> None:
    result = run("validate", str(MEANS), "--leave-out", "group", "--json")
    document = json.loads(result.stdout)
    tpot = document["metrics"]["tpot_s"]["by_mode"]
    ttft = document["metrics"]["ttft_s"]["by_mode"]
    assert tpot["colocated"]["mape"] < 0.193
    assert tpot["colocated"]["median_ape"] < 0.124
    assert ttft["colocated"]["mape"] < 0.344
    assert ttft["colocated"]["median_ape"] < 0.214
    assert tpot["disaggregated"]["median_ape"] < 0.23
    assert ttft["disaggregated"]["median_ape"] < 0.66
    usable = [r for r in document["rows"] if "speculative" not in (r["reason"] or "")]
    assert sum(r["tpot_s"] is not None for r in usable) >= 0.95 * len(usable)
