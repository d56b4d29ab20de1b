"""What models/ says follows from geometry; the checker is held against published counts."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.catalogue import Catalogue
from planner.data import shipped
from tools.check_models import counted, wrong_parameters

CATALOGUE = Catalogue()
SCRIPT = Path(__file__).parents[2] / "tools/check_models.py"


def checked(*folder: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(SCRIPT), *folder]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_nothing_in_the_shipped_files_differs_from_what_follows():
    found = checked()
    assert found.returncode == 0, found.stdout
    assert "424 step laws" in found.stdout
    assert found.stdout.endswith("nothing differs\n")


@pytest.mark.parametrize(
    ("model", "total"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("qwen3-8b", 8_190_735_360),
        ("mixtral-8x7b-v0.1", 46_702_792_704),
    ],
)
def test_parameters_are_counted_as_the_checkpoints_have_them(model, total):
    """Tensors of the published weights, added up."""
    assert counted(CATALOGUE.llm(model)) is not None
    assert counted(CATALOGUE.llm(model))[0] == total


def test_a_slip_in_a_file_is_told():
    llm = CATALOGUE.llm("llama-3.1-8b")
    slipped = llm.model_copy(update={"params_total_b": 8.05, "params_active_b": None})
    lines = [*wrong_parameters(slipped)]
    assert lines == [
        "llama-3.1-8b: params_total_b is 8.05; its geometry makes 8.030",
        "llama-3.1-8b: params_active_b is None; its geometry makes 8.030",
    ]
    hybrid = CATALOGUE.llm("qwen3.5-27b").model_copy(update={"params_total_b": 27.0})
    assert "does not tell" in next(wrong_parameters(hybrid))


def test_slips_in_laws_and_nodes_end_with_1(tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(shipped("models"), folder)
    law = folder / "step-laws/llama-3.1-8b.csv"
    law.write_text(law.read_text().replace(",131072,0.836,", ",131073,0.836,", 1))
    kind = folder / "node-kinds/nvlink-8.yaml"
    kind.write_text(kind.read_text().replace("scaleup_devices: 8", "scaleup_devices: 16"))
    found = checked(str(folder))
    assert found.returncode == 1
    assert (
        "llama-3.1-8b.bf16.a100-80g-sxm.sglang.tp1: kv_bytes_per_token is 131073, not 131072"
        in (found.stdout)
    )
    assert "nvlink-8: no accelerator stands 8 to a node and 16 joined" in found.stdout
