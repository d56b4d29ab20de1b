"""Fitting through the simulator recovers what it was told; decisions and loops by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from planner.calibration.constants import EngineConstants
from planner.calibration.decisions import grade
from planner.calibration.disaggregated import HandOff, TwoStages, disaggregated_means
from planner.calibration.metrics import Scored, metrics_of
from planner.calibration.points import Load, Point, Stage, System
from planner.calibration.predict import Estimate, Prediction
from planner.calibration.run import Client, simulate_run
from planner.calibration.through import Observation, fit_law
from planner.catalogue import Catalogue
from planner.curves.roofline import Degrees
from planner.curves.step_law import StepLaw

LAW = StepLaw(
    knots=(1, 128, 1024, 8192),
    step_s=(0.008, 0.012, 0.030, 0.200),
    slope_beyond_s_per_token=2.5e-5,
    c_x_s_per_token2=1e-10,
    c_k_s_per_token=4e-8,
)
HOST = EngineConstants(host_step_s=0.5e-3, path_s=10e-3)
CATALOGUE = Catalogue()


def system(replicas: int = 1, accelerators: int = 1) -> System:
    return System(
        llm=CATALOGUE.llm("qwen3-8b"),
        precision="bf16",
        accelerator=CATALOGUE.accelerator("l40s"),
        engine="vllm",
        engine_version="0",
        mode="colocated",
        main=Stage(Degrees(accelerators), replicas),
    )


def client(users: int, prompt: int = 2000) -> Client:
    return Client(arrivals="closed", users=users, prompt_tokens=prompt, output_tokens=150)


def observed(law: StepLaw, host: EngineConstants, users: int) -> Observation:
    found = simulate_run(law, host, 200_000, system(), client(users))
    return Observation(
        client(users), {"ttft_mean_s": found.ttft_mean_s, "tpot_mean_s": found.tpot_mean_s}
    )


def test_three_loads_recover_a_moved_law_and_predict_twice_the_highest() -> None:
    true = dataclasses.replace(HOST, decode_log=0.2, prefill_log=-0.3)
    seen = [observed(true.applied_to(LAW), true, users) for users in (1, 8, 32)]
    fit = fit_law(LAW, HOST, 200_000, system(), seen)
    assert fit.parts["decode_log"] == pytest.approx(0.2, abs=0.06)
    assert fit.parts["prefill_log"] == pytest.approx(-0.3, abs=0.1)
    beyond = observed(true.applied_to(LAW), true, 64)
    found = fit.outcome(beyond.client)
    assert found.tpot_mean_s == pytest.approx(beyond.measured["tpot_mean_s"], rel=0.04)
    assert found.ttft_mean_s == pytest.approx(beyond.measured["ttft_mean_s"], rel=0.1)


def test_without_load_the_context_term_stays_uncertain() -> None:
    low = fit_law(LAW, HOST, 200_000, system(), [observed(LAW, HOST, 1)])
    high = fit_law(LAW, HOST, 200_000, system(), [observed(LAW, HOST, n) for n in (1, 64)])
    assert high.sd["context_log"] < low.sd["context_log"]


def test_one_user_is_the_law_itself() -> None:
    """TTFT = L(prompt) + attention + host + path; TPOT the mean of steps along the context."""
    found = simulate_run(LAW, HOST, 200_000, system(), client(1))
    prefill = float(LAW.tokens_s(2000)) + 1e-10 * 2000**2 / 2
    assert found.ttft_mean_s == pytest.approx(prefill + 0.5e-3 + 10e-3)
    contexts = 2000 + np.arange(1, 150)
    assert found.tpot_mean_s == pytest.approx(0.008 + 0.5e-3 + 4e-8 * contexts.mean())


def test_goodput_falls_where_the_queue_grows() -> None:
    """Deadlines are met by all at a tenth of capacity, and by almost none far beyond it."""
    open_loop = Client(
        arrivals="poisson", rate_rps=0.2, prompt_tokens=2000, output_tokens=150,
        ttft_slo_s=1.0, tpot_slo_s=0.05,
    )  # fmt: skip
    light = simulate_run(LAW, HOST, 200_000, system(), open_loop)
    heavy = simulate_run(LAW, HOST, 200_000, system(), dataclasses.replace(open_loop, rate_rps=40))
    assert light.attainment == pytest.approx(1.0, abs=0.01)
    assert heavy.attainment is not None
    assert heavy.attainment < 0.05


def test_two_stages_without_load_add_up() -> None:
    constants = EngineConstants(path_s=0.02)
    stages = TwoStages(
        prefill=Stage(Degrees(1), 4),
        prefill_law=LAW,
        decode=Stage(Degrees(1), 4),
        decode_law=LAW,
        constants=constants,
        transfer_s_per_token=1e-6,
        hand_off=HandOff(path_s=0.03, softness=1e-6),
    )
    found = disaggregated_means(stages, Load(1, 1024, 101, "fixed"))
    step = float(LAW.tokens_s(1)) + 4e-8 * (1024 + 101 / 2)
    prefill = 0.030 + 1e-10 * 1024**2 / 2
    assert found.tpot_s == pytest.approx(step, rel=0.01)
    assert found.ttft_s == pytest.approx(prefill + 1024e-6 + 0.05 + step, rel=0.01)


def test_two_stages_beyond_prefill_capacity_obey_littles_law() -> None:
    stages = TwoStages(
        prefill=Stage(Degrees(1), 1),
        prefill_law=LAW,
        decode=Stage(Degrees(1), 8),
        decode_law=LAW,
        constants=EngineConstants(),
        transfer_s_per_token=0.0,
        hand_off=HandOff(burst_factor=0.0, softness=1e-6),
    )
    load = Load(512, 8192, 64, "fixed")
    found = disaggregated_means(stages, load)
    two = float(LAW.tokens_s(16384)) + 1e-10 * 2 * 8192**2 / 2
    capacity = 2 / two
    assert load.users / capacity == pytest.approx(found.ttft_s + 63 * found.tpot_s, rel=0.01)


def point(row: int, users: int, devices: int, ttft: float, tpot: float) -> Point:
    load = Load(users, 1000, 101, "fixed")
    return Point(row, str(row), system(accelerators=devices), load, ttft, tpot, "")


def guess(p: Point, ttft: float, tpot: float) -> Prediction:
    return Prediction(p, Estimate(ttft, ttft, ttft), Estimate(tpot, tpot, tpot), "")


def test_decisions_by_hand() -> None:
    """Six points at 1 s + 100 x TPOT; the deadline of 0.012 s is met by the first three."""
    truth = [(0.1, 0.010), (0.1, 0.011), (0.1, 0.012), (0.1, 0.025), (0.1, 0.040), (0.1, 0.045)]
    points = [point(i, 2 ** (i + 1), 1, *t) for i, t in enumerate(truth)]
    right = [guess(p, *t) for p, t in zip(points, truth, strict=True)]
    perfect = grade(right)
    assert (perfect.met, perfect.efficiency) == (1.0, 1.0)
    bold = [*right[:3], guess(points[3], 0.1, 0.012), *right[4:]]
    assert grade(bold).met < 1.0
    shy = [*right[:2], guess(points[2], 0.1, 0.0121), *right[3:]]
    second = (4 / (0.1 + 1.1)) / (8 / (0.1 + 1.2))
    misses = (perfect.decisions - grade(shy).decisions, grade(shy).met)
    assert misses == (0, 1.0)
    affected = round((1 - grade(shy).efficiency) / (1 - second) * perfect.decisions)
    assert grade(shy).efficiency == pytest.approx(1 - (1 - second) * affected / perfect.decisions)
    assert affected > 0


def test_with_bands_a_doubtful_point_is_left_for_a_sure_one() -> None:
    """A point predicted just within a deadline has an even chance; one far within is sure.

    Of twice the users the former has 1.5 times the rate: 0.5 x 1.5 < 1.
    """
    truth = [(0.1, 0.015), (0.1, 0.021), (0.1, 0.040), (0.1, 0.045), (0.1, 0.046), (0.1, 0.047)]
    points = [point(i, 2 ** (i + 1), 1, *t) for i, t in enumerate(truth)]
    thought = [
        Prediction(p, Estimate(t, t / 1.2, t * 1.2), Estimate(o, o / 1.2, o * 1.2), "")
        for p, (t, o) in zip(points, [truth[0], (0.1, 0.0199), *truth[2:]], strict=True)
    ]
    plain, banded = grade(thought), grade(thought, banded=True)
    assert plain.decisions == banded.decisions
    assert banded.met > plain.met
    assert banded.efficiency > plain.efficiency


def test_metrics_by_hand() -> None:
    def one(measured: float, predicted: float) -> Scored:
        band = Estimate(predicted, predicted / 1.2, predicted * 1.2)
        return Scored(measured, band, "colocated", "l40s", "vllm", "qwen3-8b")

    m = metrics_of([one(1.0, 1.1), one(1.0, 0.9), one(1.0, 1.5)])
    assert m is not None
    assert (m.n, m.mape, m.median_ape, m.bias) == pytest.approx((3, 0.7 / 3, 0.1, 0.1))
    assert m.p90 == pytest.approx(0.1 + 0.8 * 0.4)
    assert m.band_coverage == pytest.approx(2 / 3)
    assert metrics_of([]) is None
