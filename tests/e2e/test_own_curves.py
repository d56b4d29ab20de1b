"""From a table of one's own benchmark runs to a plan: calibrate, name the file, plan."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from planner.calibration.parameters import read_parameters
from planner.calibration.physics import Physics
from planner.calibration.points import Stage, System
from planner.calibration.run import Client, simulate_run
from planner.catalogue import Catalogue
from planner.cli.app import app
from planner.curves.roofline import Degrees
from planner.curves.transfer import StepLawLibrary

if TYPE_CHECKING:
    from pathlib import Path

CATALOGUE = Catalogue()

SCENARIO = """format_version: "1.0"
name: Chat on machines of our own
workloads:
  - id: chat
    model: llama-3.1-8b
    precisions: [bf16]
    arrivals: {poisson: 20 req/s}
    lengths: {prompt: {fixed: 1000 tokens}, output: {fixed: 128 tokens}}
    slo: {ttft: 1 s, tpot: 60 ms, attainment: 95 %}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [8192], max_num_seqs: [256]}
curves: [own.json]
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def slowed_runs(path: Path, factor: float, *, path_s: float = 0.04) -> str:
    """Write the runs of a machine whose every step takes ``factor`` times the library's."""
    system = System(
        llm=CATALOGUE.llm("llama-3.1-8b"),
        precision="bf16",
        accelerator=CATALOGUE.accelerator("h100-sxm"),
        engine="vllm",
        engine_version="0.12.0",
        mode="colocated",
        main=Stage(Degrees(1), 1),
    )
    physics = Physics(StepLawLibrary(CATALOGUE), read_parameters())
    law = physics.bare_law(system)
    assert law.matched
    shift = math.log(factor)
    host = dataclasses.replace(
        physics.constants("vllm"),
        decode_log=shift, prefill_log=shift, context_log=shift, path_s=path_s,
    )  # fmt: skip
    names = ("model", "engine", "precision", "gpu", "n_gpu", "isl", "osl", "concurrency",
             "ttft_mean_ms", "tpot_mean_ms", "ttft_p99_ms")  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for users in (1, 8, 32, 96):
            client = Client(arrivals="closed", users=users, prompt_tokens=1000, output_tokens=128)
            found = simulate_run(host.applied_to(law.law), host, law.kv_tokens, system, client)
            times = (1e3 * found.ttft_mean_s, 1e3 * found.tpot_mean_s, 1e3 * found.ttft_p99_s)
            first = ("meta-llama/Llama-3.1-8B-Instruct", "vllm 0.12.0", "bf16", "h100-sxm", 1)
            writer.writerow((*first, 1000, 128, users, *times))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs half as fast again, their curve, and a scenario naming it."""
    folder = tmp_path_factory.mktemp("own")
    done = run("calibrate", slowed_runs(folder / "runs.csv", 1.5), "-o", str(folder / "own.json"))
    assert done.exit_code == 0, done.output
    (folder / "scenario.yaml").write_text(SCENARIO)
    return folder


def planned(folder: Path, *more: str) -> dict[str, Any]:
    done = run("plan", str(folder / "scenario.yaml"), "--json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_the_file_holds_the_slowed_law_with_its_error_and_memory(folder: Path) -> None:
    document = json.loads((folder / "own.json").read_text())
    assert document["format_version"] == "1.0"
    (curve,) = document["curves"]
    assert (curve["model"], curve["accelerator"], curve["tp_degree"], curve["runs"]) == (
        "llama-3.1-8b", "h100-sxm", 1, 4,
    )  # fmt: skip
    library = CATALOGUE.law("llama-3.1-8b.bf16.h100-sxm.vllm.tp1")
    assert curve["weights_bytes"] == library.weights_bytes
    host = read_parameters().engines["vllm"].host_step_s
    at_32 = curve["knots"].index(32)
    assert curve["step_s"][at_32] == pytest.approx(1.5 * library.step_s[at_32] + host, rel=0.05)
    assert curve["path_s"] == pytest.approx(0.04, abs=0.01)
    assert 0 < curve["relative_error"] < 0.05
    assert curve["max_context"] == 1128


def test_a_plan_uses_the_own_curve_and_says_so(folder: Path) -> None:
    plan = planned(folder)
    (pool,) = plan["pools"]
    curve = pool["curve"]
    assert curve["id"] == "llama-3.1-8b.bf16.h100-sxm.vllm.tp1.measured"
    assert curve["source"] == "benchmark fit"
    assert curve["measured_in"].endswith("runs.csv")
    assert curve["replaces"] == "llama-3.1-8b.bf16.h100-sxm.vllm.tp1"
    assert curve["extrapolated"] is False
    written = json.loads((folder / "own.json").read_text())["curves"][0]
    assert curve["relative_error"] == written["relative_error"]
    notes = " ".join(plan["evidence"]["notes"])
    assert "own.json" in notes
    assert "in place of the catalogue's llama-3.1-8b.bf16.h100-sxm.vllm.tp1" in notes


def test_slower_machines_carry_less_and_their_ttft_has_the_path(folder: Path) -> None:
    """Every step takes 1.5 times the library's: so does TPOT, and capacity falls with it."""
    words = ("capacity", str(folder / "scenario.yaml"), "--json", "--precision", "3%")
    own = json.loads(run(*words).stdout)
    assert own["step_times"]["replaces"] == "llama-3.1-8b.bf16.h100-sxm.vllm.tp1"
    (folder / "plain.yaml").write_text(SCENARIO.replace("curves: [own.json]\n", ""))
    plain = json.loads(run("capacity", str(folder / "plain.yaml"), *words[2:]).stdout)
    assert plain["step_times"]["measured_in"] is None
    ratio = own["capacity_rps"]["value"] / plain["capacity_rps"]["value"]
    assert 0.5 < ratio < 1 / 1.3


def test_a_plan_is_simulated_from_another_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    planned(folder, "-o", str(out))
    done = run("simulate", str(out), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["workloads"][0]["verdict"] == "kept"


def test_the_catalogue_shows_own_curves_first(folder: Path) -> None:
    words = ("catalogue", "curves", "--model", "llama-3.1-8b", "--accelerator", "h100-sxm")
    shown = json.loads(run(*words, "--own", str(folder / "own.json"), "--json").stdout)
    assert shown[0]["id"].endswith(".measured")
    table = run(*words, "--own", str(folder / "own.json")).stdout
    ours = next(line for line in table.splitlines() if ".measured" in line)
    assert float(ours.split()[-2]) == pytest.approx(shown[0]["error_mean"], rel=5e-3)
    assert "…" not in ours
    assert shown[0]["replaces"] == "llama-3.1-8b.bf16.h100-sxm.vllm.tp1"
    assert shown[0]["replaces"] not in {row["id"] for row in shown[1:]}


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"model": "acme"}, "own.json:5:7: curves.0.model: no llm is called 'acme'"),
        ({"accelerator": "h900"}, "curves.0.accelerator: no accelerator is called 'h900'"),
        ({"step_s": [0.01, 0.02]}, "curves.0.step_s: has 2 times for 13 knots"),
        ({"accelerators": 2}, "curves.0.accelerators: must be tp_degree × dp_degree"),
        ({"speed": 1}, "curves.0.speed: unknown key"),
        ({"precision": "fp8"}, "no workload of llama-3.1-8b accepts fp8"),
        ({"engine": "sglang"}, "it is of sglang, and policies.engine is vllm"),
        ({"tp_degree": 2, "accelerators": 2}, "degree 2 is not among policies.tp_degrees"),
        ({"accelerator": "h200-sxm"}, "h200-sxm is not among the accelerators"),
        ({"model": "qwen3-8b"}, "no workload wants qwen3-8b"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(
    change: dict[str, Any], mistake: str, folder: Path, tmp_path: Path
) -> None:
    document = json.loads((folder / "own.json").read_text())
    document["curves"][0] |= change
    (tmp_path / "own.json").write_text(json.dumps(document, indent=2))
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    done = run("check", str(tmp_path / "scenario.yaml"))
    assert done.exit_code == 2
    assert "scenario.yaml:13:" in done.output
    assert mistake in " ".join(done.output.split())


def test_a_file_that_is_not_there_and_a_curve_twice(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    missing = run("check", str(tmp_path / "scenario.yaml"))
    assert missing.exit_code == 2
    assert "own.json" in missing.output
    for name in ("own.json", "again.json"):
        (tmp_path / name).write_text((folder / "own.json").read_text())
    both = SCENARIO.replace("[own.json]", "[own.json, again.json]")
    (tmp_path / "scenario.yaml").write_text(both)
    twice = run("check", str(tmp_path / "scenario.yaml"))
    assert twice.exit_code == 2
    assert "is in own.json too; keep one" in " ".join(twice.output.split())
