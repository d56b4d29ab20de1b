"""How long a plan by a capacity table takes, from the start of the process to its end."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.capacity_tables import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.benchmark


def test_a_table_in_a_cold_process(benchmark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "t.json")
    words = [sys.executable, "-m", "planner", "plan", "--capacity-table", str(path), "--json"]

    def plan() -> bytes:
        return subprocess.run(words, capture_output=True, check=True).stdout

    assert b"measured capacity table; not simulated" in benchmark(plan)
    print(f"{benchmark.stats['min']:.2f} s per plan; budget 1")
