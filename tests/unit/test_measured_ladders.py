"""Ladders in every form that is read: MLPerf results, prose, single requests; and their bands."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.calibration import mlperf, rate_ladders
from planner.calibration.calibrate import calibrate
from planner.calibration.cells import rows_of
from planner.calibration.constants import EngineConstants
from planner.calibration.ladders import predict_ladder
from planner.calibration.measured import read_ladder
from planner.calibration.parameters import read_parameters
from planner.calibration.physics import Physics
from planner.calibration.points import Stage, System
from planner.calibration.run import Client
from planner.calibration.two_stages import Stages, simulate_stages
from planner.calibration.validate import validate
from planner.catalogue import Catalogue
from planner.curves.roofline import Degrees
from planner.curves.step_law import StepLaw
from planner.curves.transfer import APrioriLaw, StepLawLibrary
from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

CATALOGUE = Catalogue()
PHYSICS = Physics(StepLawLibrary(CATALOGUE), read_parameters())

MLPERF = {
    "version": "v9", "submitter": "Acme", "system": "box", "accelerator": "NVIDIA H100-SXM-80GB",
    "n_accel": "8.0", "accel_per_node": "8.0", "framework": "TensorRT 10.2.0",
    "weight_dtype": "fp8",
    "base_model": "Llama-3.1-8B", "model": "llama3.1-8b", "scenario": "Server",
    "ttft_slo_ms": "2000.0", "tpot_slo_ms": "100.0", "scheduled_samples_per_s": "40",
    "mean_output_tokens": "128", "min_duration_ms": "60000", "ttft_mean_ms": "60",
    "ttft_p99_ms": "150", "tpot_p50_ms": "9",
}  # fmt: skip

PROSE = {
    "system": "vLLM 0.20", "model": "Qwen3-32B", "gpu": "H100-80G", "n_gpus": "16",
    "config": "8 x TP2, prefix-affinity routing",
    "workload": "shared-prefix: 600-token shared system prompt + 200-token question,"
    " 100-token output", "arrivals": "Poisson, 30 s stages", "rate_rps": "8",
    "ttft_p50_ms": "60", "output_tok_s": "800", "completed_rps": "8", "n_requests": "",
}  # fmt: skip


def write(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_an_mlperf_server_row_is_an_open_loop_shared_by_replicas(tmp_path: Path) -> None:
    (run,) = read_ladder(write(tmp_path / "rows.csv", MLPERF), CATALOGUE).runs
    assert (run.system.llm.id, run.system.engine, run.system.precision) == (
        "llama-3.1-8b", "trtllm", "fp8",
    )  # fmt: skip
    assert run.system.main == Stage(Degrees(1), 8)
    assert run.client.arrivals == "poisson"
    assert run.client.rate_rps == pytest.approx(5.0)
    assert (run.client.ttft_slo_s, run.client.tpot_slo_s) == (2.0, 0.1)
    assert run.measured["ttft_p99_s"] == pytest.approx(0.15)
    assert [s.main.replicas for s, _ in run.others] == [4, 2]
    (found,) = predict_ladder(PHYSICS, [run])
    goodput = found.estimate("goodput_rps")
    assert goodput is not None
    assert goodput.value == pytest.approx(40, rel=0.1)
    assert "degrees not stated" in found.source


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scenario": "Offline"}, "offline"),
        ({"base_model": "GPT-J-6B"}, "no llm is called 'gpt-j-6b'"),
        ({"accelerator": "Acme Z1"}, "no accelerator is called 'Acme Z1'"),
        ({"accelerator": ""}, "no accelerator is stated"),
        ({"accelerator": "AMD MI300X (x32), AMD MI325X (x16)"}, "several kinds"),
        ({"scheduled_samples_per_s": ""}, "scheduled_samples_per_s: not stated"),
        ({"n_accel": "many"}, "n_accel: expected a number"),
    ],
)
def test_mlperf_rows_that_cannot_be_predicted_say_why(
    change: dict[str, str], reason: str, tmp_path: Path
) -> None:
    rows = write(tmp_path / "rows.csv", MLPERF, MLPERF | change, MLPERF)
    document = validate(rows, CATALOGUE).document()
    assert [r["row"] for r in document["rows"]] == [0, 1, 2]
    assert document["rows"][1]["tpot_s"] is None
    assert reason in document["rows"][1]["reason"]
    assert document["rows"][0]["reason"] is None


@pytest.mark.parametrize("row", ["mlperf", "prose"])
def test_a_table_that_lacks_a_column_is_read_as_if_its_cells_were_empty(
    row: str, tmp_path: Path
) -> None:
    cells = MLPERF if row == "mlperf" else PROSE
    telling = mlperf.COLUMNS if row == "mlperf" else rate_ladders.COLUMNS
    others = [name for name in cells if name not in telling]
    assert others
    for name in others:
        kept = {key: cell for key, cell in cells.items() if key != name}
        without = validate(write(tmp_path / "rows.csv", kept), CATALOGUE).document()["rows"]
        empty = validate(write(tmp_path / "rows.csv", cells | {name: ""}), CATALOGUE).document()
        assert without == empty["rows"]


def test_where_prompts_are_not_known_tpot_alone_is_predicted(tmp_path: Path) -> None:
    row = MLPERF | {"base_model": "gpt-oss-120b", "model": "gpt-oss-120b"}
    (found,) = validate(write(tmp_path / "rows.csv", row), CATALOGUE).document()["rows"]
    assert found["tpot_s"] > 0
    assert found["ttft_s"] is None
    assert found["goodput_rps"] is None
    assert "lengths of prompts not stated" in found["reason"]


@pytest.mark.parametrize(
    ("config", "devices", "main", "prefill"),
    [
        ("8 x TP2, k8s round robin", 16, (8, 2), None),
        ("8xTP1 prefill + 2xTP4 decode; PD", 16, (2, 4), (8, 1)),
        ("8xH100 1FP8-meta", 8, (1, 8), None),
        ("8xMi300x  2FP8-amd", 8, (2, 4), None),
    ],
)
def test_degrees_in_prose(
    config: str,
    devices: int,
    main: tuple[int, int],
    prefill: tuple[int, int] | None,
    tmp_path: Path,
) -> None:
    row = PROSE | {"config": config, "n_gpus": str(devices)}
    (run,) = read_ladder(write(tmp_path / "rows.csv", row), CATALOGUE).runs
    assert run.system.main == Stage(Degrees(main[1]), main[0])
    ahead = run.system.prefill
    assert (ahead and (ahead.replicas, ahead.degrees.accelerators)) == prefill


@pytest.mark.parametrize(
    ("workload", "config", "lengths"),
    [
        (PROSE["workload"], "8 x TP2, prefix-affinity routing", (800, 100, 600)),
        (PROSE["workload"], "8 x TP2, k8s round robin", (800, 100, 0)),
        ("9 prefix groups x 500-token prefix + 50 new tokens, 70 out", "8 x TP2", (550, 70, 500)),
        (
            "9 prefix groups x 500-token prefix + 50 new tokens, 70 out (working set 2x HBM)",
            "8xTP1 prefill + 2xTP4 decode; HBM only",
            (550, 70, 250),
        ),
        ("random ISL 5000 OSL 250", "8 x TP2", (5000, 250, 0)),
        ("ShareGPT 1000 prompts (mean in 215.2)", "8 x TP2", (215, 100, 0)),
    ],
)
def test_lengths_in_prose(
    workload: str, config: str, lengths: tuple[int, int, int], tmp_path: Path
) -> None:
    row = PROSE | {"workload": workload, "config": config}
    (run,) = read_ladder(write(tmp_path / "rows.csv", row), CATALOGUE).runs
    c = run.client
    assert (c.prompt_tokens, c.output_tokens, c.cached_tokens) == lengths


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": "same as above"}, "states no degrees that are understood"),
        ({"config": "4 x TP2"}, "takes 8 devices, and the row has 16"),
        ({"workload": "chat"}, "states no lengths that are understood"),
        ({"arrivals": "45 QPS"}, "says not how requests were spaced"),
        ({"model": "Acme-1B"}, "no llm is called 'Acme-1B'"),
        ({"rate_rps": "0"}, "rate_rps: must be above 0"),
    ],
)
def test_prose_is_never_guessed(change: dict[str, str], reason: str, tmp_path: Path) -> None:
    (found,) = read_ladder(write(tmp_path / "rows.csv", PROSE | change), CATALOGUE).unusable
    assert reason in found.reason


def test_requests_stated_or_by_the_stage_or_assumed(tmp_path: Path) -> None:
    rows = (PROSE, PROSE | {"n_requests": "80"}, PROSE | {"arrivals": "Poisson ladder"})
    runs = read_ladder(write(tmp_path / "rows.csv", *rows), CATALOGUE).runs
    assert [r.client.requests for r in runs] == [30, 10, 60]
    assert [bool(r.note) for r in runs] == [False, False, True]


def test_what_is_not_stated_is_in_the_band(tmp_path: Path) -> None:
    """Hits that are not stated may be all or none: the band holds the TTFT of both."""
    robin = PROSE | {"config": "8 x TP2, k8s round robin"}
    runs = read_ladder(write(tmp_path / "rows.csv", PROSE, robin), CATALOGUE).runs
    hit, unknown = (found.estimate("ttft_p50_s") for found in predict_ladder(PHYSICS, runs))
    assert hit is not None
    assert unknown is not None
    assert unknown.low <= hit.value < unknown.value


def test_accelerators_of_an_unknown_generation_have_the_widest_bands(tmp_path: Path) -> None:
    """No step law is of AMD's: more is unknown there than of a moved or a measured law."""
    like = MLPERF | {"framework": "vLLM", "base_model": "Llama-2-70B", "n_accel": "4"}
    rows = (
        like | {"accelerator": "NVIDIA H100-SXM-80GB"},
        like | {"accelerator": "NVIDIA H100-SXM-80GB", "weight_dtype": "int4"},
        like | {"accelerator": "AMD MI300X 192GB"},
    )
    runs = read_ladder(write(tmp_path / "rows.csv", *rows), CATALOGUE).runs
    found = predict_ladder(PHYSICS, runs)
    assert [f.knowledge for f in found] == ["library", "transfer", "far"]
    widths = []
    for prediction in found:
        estimate = prediction.estimate("tpot_p50_s")
        assert estimate is not None
        widths.append(estimate.high / estimate.low)
    assert widths == sorted(widths)


LAW = StepLaw(
    knots=(1, 128, 1024, 8192),
    step_s=(0.008, 0.012, 0.030, 0.200),
    slope_beyond_s_per_token=2.5e-5,
    c_x_s_per_token2=1e-10,
    c_k_s_per_token=4e-8,
)


def test_two_stages_without_load_add_up() -> None:
    """TTFT = prefill + transfer + one decode step; TPOT = the mean of steps along the context."""
    system = System(
        llm=CATALOGUE.llm("qwen3-32b"), precision="bf16",
        accelerator=CATALOGUE.accelerator("h100-sxm"), engine="vllm", engine_version="",
        mode="disaggregated", main=Stage(Degrees(1), 2), prefill=Stage(Degrees(1), 2),
    )  # fmt: skip
    stages = Stages(LAW, APrioriLaw(LAW, 100_000, 0.0, "by hand"), EngineConstants(), 100_000, 1e-6)
    client = Client(arrivals="poisson", rate_rps=0.01, prompt_tokens=1024, output_tokens=101)
    found = simulate_stages(stages, system, client)
    step = 0.008 + 4e-8 * 1024
    prefill = 0.030 + 1e-10 * 1024**2 / 2
    assert found.ttft_p50_s == pytest.approx(prefill + 1024e-6 + step, rel=0.01)
    assert found.tpot_p50_s == pytest.approx(step + 4e-8 * 50, rel=0.01)
    slow = simulate_stages(stages.slowed(2.0), system, client)
    assert slow.tpot_p50_s == pytest.approx(2 * found.tpot_p50_s, rel=1e-6)


def test_bands_of_goodput_are_narrow_at_light_load_and_wide_at_the_cliff(tmp_path: Path) -> None:
    """At light load every step time in the band keeps the deadlines; at the cliff not one does."""
    head = {
        "model": "Qwen/Qwen3-8B BF16", "engine": "vllm 0.27.1", "gpu": "L40S", "isl": "1500",
        "osl": "200", "prefix_hit": "0.0", "max_num_batched_tokens": "2048", "n_requests": "400",
        "slo_ttft_ms": "300", "slo_tpot_ms": "50",
    }  # fmt: skip
    rows = [head | {"tag": f"r{rate}", "rate_rps": str(rate)} for rate in (0.1, 2.5, 30)]
    document = validate(write(tmp_path / "rows.csv", *rows), CATALOGUE).document()
    light, cliff, beyond = document["rows"]
    for row in (light, cliff, beyond):
        for name in ("goodput_rps", "attainment"):
            assert row["low"][name] <= row[name] <= row["high"][name]
    assert light["high"]["attainment"] - light["low"]["attainment"] < 0.1
    assert cliff["high"]["attainment"] - cliff["low"]["attainment"] > 0.3
    assert beyond["high"]["attainment"] < 0.1


REQUESTS = [
    {"config": "8xH100SXM5-serving", "request_rate": "0.05", "request": str(i),
     "input_len": "200", "output_len": out, "ttft_ms": ttft, "tpot_ms": tpot}
    for i, (out, ttft, tpot) in enumerate([("50", "90", "30"), ("0", "0.0", ""), ("1", "95", "")])
]  # fmt: skip


def test_single_requests_zipped_one_entry_each_in_order(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.csv", *REQUESTS)
    path = tmp_path / "llama405b_runs.csv.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    document = validate(path, CATALOGUE).document()
    one, failed, short = document["rows"]
    assert [r["row"] for r in document["rows"]] == [0, 1, 2]
    assert one["low"]["tpot_s"] < one["tpot_s"] < one["high"]["tpot_s"]
    assert "llama-3.1-405b in fp8" in one["source"]
    assert failed["ttft_s"] is None
    assert "no token came" in failed["reason"]
    assert short["ttft_s"] > 0
    assert short["tpot_s"] is None
    assert document["counts"]["predicted"] == 2
    (nameless,) = {r["reason"] for r in validate(plain, CATALOGUE).document()["rows"]}
    assert "nor the file's name say which" in nameless


def test_what_a_table_cannot_do_is_refused(tmp_path: Path) -> None:
    ladder = write(tmp_path / "rows.csv", MLPERF)
    with pytest.raises(InputError, match="only closed-loop means"):
        validate(ladder, CATALOGUE, leave_out="group")
    requests = write(tmp_path / "llama405b.csv", *REQUESTS)
    with pytest.raises(InputError, match="single requests"):
        validate(requests, CATALOGUE, calibrate_on=ladder)
    with pytest.raises(InputError, match="no run of a colocated deployment"):
        calibrate(ladder, CATALOGUE)


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(np.arange(256, dtype=np.uint8)))
    with pytest.raises(InputError, match="a binary file"):
        list(rows_of(path))
    zipped = tmp_path / "rows.csv.gz"
    zipped.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:40])
    with pytest.raises(InputError, match="gz"):
        list(rows_of(zipped))
