"""How long the catalogue takes for one scenario, and how many steps a second screening gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.catalogue import Catalogue
from planner.curves.curve import curves

pytestmark = pytest.mark.benchmark


def test_five_accelerators_one_model_and_its_laws(benchmark: Any) -> None:
    def load() -> int:
        catalogue = Catalogue()
        for name in ("h100_sxm", "h200", "b200", "gb200", "l40s"):
            catalogue.accelerator(name)
        return len(catalogue.laws(catalogue.llm("llama-3.1-70b").id))

    assert benchmark(load) == 108
    print(f"{1e3 * benchmark.stats['mean']:.0f} ms per scenario; budget 60")


def test_template_loads_a_second(benchmark: Any) -> None:
    law = curves(Catalogue(), "llama-3.1-8b")[0].step_law
    tokens = np.random.default_rng(1).integers(1, 8192, 1_000_000)
    benchmark(law.step_s_of, tokens, tokens * 10.0, tokens * 100.0)
    print(f"{1 / benchmark.stats['mean']:.0f} million steps per second; budget 1")
