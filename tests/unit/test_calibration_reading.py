"""Tables of measurements: units, labels that physics contradicts, rows that cannot be used."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.silicon import find_llm, precision_of, read_closed_loop_means
from planner.catalogue import Catalogue
from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {
    "id": "one", "mode": "agg", "backend": "vllm", "backend_version": "0.12.0",
    "system": "h100_sxm", "isl": "1024", "osl": "128", "x_concurrency": "16.0", "x_gpus": "2",
    "x_replicas": "1", "x_attn_dp": "1", "x_ep": "1", "tp_size": "2", "moe_tp_size": "1",
    "moe_ep_size": "1", "x_model": "meta-llama/Llama-3.1-8B-Instruct", "x_precision": "unstated",
    "x_spec": "none", "silicon_data_source": "source_file=gap/x.csv", "silicon_ttft_ms": "125",
    "silicon_tpot_ms": "8.5",
}  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


def write(path: Path, *rows: dict[str, str]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_row_in_the_planners_words_and_units(tmp_path: Path, catalogue: Catalogue) -> None:
    table = read_closed_loop_means(write(tmp_path / "rows.csv", GOOD), catalogue)
    (point,) = table.points
    assert (point.system.llm.id, point.system.precision) == ("llama-3.1-8b", "bf16")
    assert point.system.main.degrees.tp_degree == 2
    assert (point.ttft_s, point.tpot_s) == (0.125, 0.0085)
    assert point.load.users == 16
    assert point.load.lengths == "fixed"


def test_lengths_are_uniform_where_the_client_drew_them(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    drawn = GOOD | {"silicon_data_source": "db-dump/2026-04-27; config_id=7"}
    (point,) = read_closed_loop_means(write(tmp_path / "rows.csv", drawn), catalogue).points
    assert point.load.lengths == "uniform"
    assert point.load.mean_output_tokens == pytest.approx(0.9 * 128)


def test_rows_that_cannot_be_used_are_named_with_the_reason(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = [
        GOOD,
        GOOD | {"id": "two", "x_spec": "mtp"},
        GOOD | {"id": "three", "x_model": "acme/unheard-of"},
        GOOD | {"id": "four", "x_concurrency": ""},
    ]
    table = read_closed_loop_means(write(tmp_path / "rows.csv", *rows), catalogue)
    assert [p.id for p in table.points] == ["one"]
    assert [(u.row, u.id) for u in table.unusable] == [(1, "two"), (2, "three"), (3, "four")]
    reasons = [u.reason for u in table.unusable]
    assert "speculative decoding" in reasons[0]
    assert "unheard-of" in reasons[1]
    assert reasons[2] == "x_concurrency: empty"


def test_devices_that_cannot_hold_the_weights_are_read_by_the_expert_layout(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    """235 GB of 8-bit weights on one device of 141 GB: the layout says two."""
    row = GOOD | {
        "x_model": "Qwen/Qwen3-235B-A22B-FP8", "x_precision": "fp8", "system": "h200_sxm",
        "x_gpus": "1", "tp_size": "1", "moe_tp_size": "2", "moe_ep_size": "1",
    }  # fmt: skip
    (point,) = read_closed_loop_means(write(tmp_path / "rows.csv", row), catalogue).points
    assert point.system.main.degrees.accelerators == 2
    assert "cannot hold" in point.note


def test_quantised_names_mean_the_base_model(catalogue: Catalogue) -> None:
    assert find_llm(catalogue, "nvidia/DeepSeek-R1-NVFP4").id == "deepseek-r1"
    assert find_llm(catalogue, "nvidia/Llama-3.1-8B-Instruct-FP8").id == "llama-3.1-8b"
    assert precision_of(catalogue.llm("gpt-oss-120b"), "fp4") == "mxfp4"
    assert precision_of(catalogue.llm("deepseek-r1"), "fp4") == "nvfp4"


def test_a_missing_column_is_named(tmp_path: Path, catalogue: Catalogue) -> None:
    path = write(tmp_path / "rows.csv", {"id": "one"})
    with pytest.raises(InputError, match="no column mode"):
        read_closed_loop_means(path, catalogue)


def test_open_loops_with_deadlines(tmp_path: Path, catalogue: Catalogue) -> None:
    row = {
        "tag": "A-r1.0", "model": "Qwen/Qwen3-8B BF16", "engine": "vllm 0.27.1", "gpu": "L40S",
        "isl": "1500", "osl": "200", "prefix_hit": "0.8", "max_num_batched_tokens": "2048",
        "rate_rps": "1.0", "concurrency": "", "n_requests": "120", "goodput_rps": "0.95",
        "attainment": "0.99", "ttft_p50_ms": "181", "slo_ttft_ms": "300", "slo_tpot_ms": "50",
    }  # fmt: skip
    path = write(tmp_path / "ladder.csv", row)
    assert is_ladder(path)
    (run,) = read_ladder(path, catalogue).runs
    assert run.client.arrivals == "poisson"
    assert (run.client.cached_tokens, run.client.requests) == (1200, 120)
    assert (run.client.ttft_slo_s, run.client.tpot_slo_s) == (0.3, 0.05)
    assert run.measured == {"ttft_p50_s": 0.181, "goodput_rps": 0.95, "attainment": 0.99}
    assert (run.system.engine, run.system.engine_version) == ("vllm", "0.27.1")


def test_a_table_of_means_is_no_ladder(tmp_path: Path) -> None:
    assert not is_ladder(write(tmp_path / "rows.csv", GOOD))
