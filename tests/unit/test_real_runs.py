"""A law of four numbers fitted to the first half of a real run predicts the second half.

Needs the shared measurements (PLANNER_SHARED, or ``../shared`` beside the checkout).
"""

from __future__ import annotations

import numpy as np
import pytest

from tools.predict_real_runs import default_file, fit, read_runs, simulate

LOG = default_file()
DENSE = ("RTXPRO6000/Llama-3.1-8B", "RTXPRO6000/Qwen3-32B", "RTX4090/Llama-3.1-8B")


@pytest.mark.skipif(LOG is None, reason="the shared measurements are not here")
@pytest.mark.parametrize("name", DENSE)
def test_second_half_of_a_real_run_is_within_five_per_cent(name):
    (run,) = [r for r in read_runs(LOG) if r.name == name]
    n = run.arrival.size
    law, frontend_s = fit(run, slice(0, n // 2))
    got = simulate(run, law, frontend_s)
    for key in ("ttft", "tpot", "e2e"):
        said, real = (np.mean(getattr(x, key)[n // 2 :]) for x in (got, run))
        assert said == pytest.approx(real, rel=0.05), key
