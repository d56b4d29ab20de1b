"""Tables of measurements: units, labels that physics contradicts, rows that cannot be used."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING

import pytest

from planner.calibration.levels import read_levels
from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.silicon import find_llm, precision_of, read_closed_loop_means
from planner.catalogue import Catalogue
from planner.cli import main
from planner.data import shipped
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
    assert reasons[2].startswith("x_concurrency: empty")


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


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_called_empty(tmp_path: Path, catalogue: Catalogue, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"rows.csv:1:1: the file is empty; name the columns"):
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


# -- files that are broken ------------------------------------------------------------------------

LADDER = (
    "model,engine,gpu,tag,isl,osl,rate_rps,n_requests,ttft_p99_ms,tpot_p99_ms\n"
    "Qwen/Qwen3-8B BF16,vllm 0.27.1,L40S,a,1500,200,1.0,100,401.7,28.18\n"
)
TABLES = {"ladder": LADDER, "means": ",".join(GOOD) + "\n" + ",".join(GOOD.values()) + "\n"}


def broken(text: str) -> dict[str, tuple[bytes, str]]:
    """Return what may become of a file, and what is then said of it."""
    head, row = text.splitlines()
    first = head.split(",")[0]
    return {
        "latin": (text.replace("a", "\xe4").encode("latin-1"), "(byte 0xe4); save it as UTF-8"),
        "packed": (gzip.compress(text.encode()), "is packed by gzip; let its name end in .gz"),
        "binary": (b"\xff\xfe" + text.encode("utf-16-le"), "a binary file; name a file of UTF-8"),
        "long": (
            f"{text}{'1' * 140_000},{row}\n".encode(),
            ":3:1: a cell of more than 131,072 cha",
        ),
        "open": ((text + '"' + "1,\n" * 70_000).encode(), "close its quotation mark"),
        "twice": (
            f"{head},{first}\n{row},x\n".encode(),
            f":1:1: the column is there twice: '{first}'",
        ),
    }


@pytest.mark.parametrize("verb", ["validate", "calibrate"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("fault", broken(LADDER))
def test_a_file_that_cannot_be_read_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, kind: str, fault: str
) -> None:
    raw, told = broken(TABLES[kind])[fault]
    path = tmp_path / "rows.csv"
    path.write_bytes(raw)
    assert main([verb, str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error
    assert told in error
    assert error.count("\n") == 1


def test_levels_that_cannot_be_read_are_told(tmp_path: Path, catalogue: Catalogue) -> None:
    good = (shipped("models") / "calibration" / "levels.csv").read_text().splitlines()[:3]
    path = tmp_path / "levels.csv"
    for text, told in (
        ("\n".join(good).encode() + b"\xff", "save it as UTF-8"),
        ("\n".join([good[0], good[1] + ",1"]).encode(), ":2: 23 cells where the header has 22"),
        (good[0].replace("runs,", "").encode(), "no column runs"),
        ("\n".join([good[0], "x" + good[1]]).replace("x", "x", 1).encode(), ":2: no llm"),
    ):
        path.write_bytes(text)
        with pytest.raises(InputError) as error:
            read_levels(catalogue, path)
        assert told in str(error.value)


def test_a_byte_order_mark_and_gzip_are_read(tmp_path: Path, catalogue: Catalogue) -> None:
    (tmp_path / "a.csv").write_text("\ufeff" + LADDER, encoding="utf-8")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(LADDER.encode()))
    one, two = (read_ladder(tmp_path / name, catalogue) for name in ("a.csv", "b.csv.gz"))
    assert is_ladder(tmp_path / "b.csv.gz")
    assert (
        one.runs[0].measured
        == two.runs[0].measured
        == {"ttft_p99_s": 0.4017, "tpot_p99_s": 0.02818}
    )


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("x_concurrency", "1e999", "x_concurrency: expected a number from 1 to 65536, got '1e999'"),
        ("x_concurrency", "-1", "x_concurrency: expected a number from 1 to 65536, got '-1'"),
        ("isl", "1e18", "isl: expected a number from 1 to 4e+06, got '1e18'"),
        ("osl", "0", "osl: expected a number from 1"),
        ("x_gpus", "2.5", "x_gpus: expected a whole number, got 2.5"),
        ("silicon_ttft_ms", "inf", "silicon_ttft_ms: expected a number from 0"),
        ("backend", "0.0", "engine '0.0': its scheduler is not known; known are"),
    ],
)
def test_a_cell_that_no_benchmark_could_have_costs_its_row_only(
    tmp_path: Path, catalogue: Catalogue, column: str, value: str, reason: str
) -> None:
    path = write(tmp_path / "rows.csv", GOOD, GOOD | {"id": "odd", column: value})
    table = read_closed_loop_means(path, catalogue)
    assert [p.id for p in table.points] == ["one"]
    (unusable,) = table.unusable
    assert reason in unusable.reason


def test_a_row_with_a_cell_too_few_or_too_many_is_not_used(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    row = LADDER.splitlines()[1]
    path = tmp_path / "rows.csv"
    path.write_text(f"{LADDER}{row},x\n{row.rpartition(',')[0]}\n")
    ladder = read_ladder(path, catalogue)
    assert len(ladder.runs) == 1
    assert [u.reason for u in ladder.unusable] == [
        "11 cells where the header has 10",
        "9 cells where the header has 10",
    ]


def test_calibrate_says_which_statistic_it_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs that state p99 only are compared by p99; where no run states TTFT, that is said."""
    path = tmp_path / "rows.csv"
    path.write_text(LADDER)
    assert main(["calibrate", str(path)]) == 0
    assert capsys.readouterr().out.count("% (p99)") == 2
    path.write_text(LADDER.replace("401.7", ""))
    assert main(["calibrate", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("% (p99)") == 1
    assert "not stated" in shown
