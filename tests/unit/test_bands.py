"""Bands hold nine in ten, overall and among those alike; little evidence changes little."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibration.bands import learned
from planner.calibration.pooling import Kin
from planner.calibration.predict import factors_at

SPREADS = {"steady": 0.5, "usual": 1.0, "wild": 2.0}


def drawn(seed: int, systems: int, runs: int) -> tuple[np.ndarray, Kin, list[str]]:
    """Return normal errors of three accelerators with the spreads above."""
    rng = np.random.default_rng(seed)
    errors, keys, groups = [], [], []
    for name, sd in SPREADS.items():
        for system in range(systems):
            errors.append(rng.normal(0, sd, runs))
            keys += [{"accelerator": name, "model": f"m{system % 2}"}] * runs
            groups += [f"{name} {system}"] * runs
    axes = np.zeros((len(keys), 3))
    return np.concatenate(errors), Kin(tuple(keys), axes), groups


def test_factors_bring_each_kind_to_nine_in_ten_of_fresh_runs() -> None:
    error, kin, groups = drawn(1, systems=40, runs=25)
    width, factors = learned(error, kin, groups, ("accelerator", "model"))
    fresh, other, _ = drawn(2, systems=40, runs=25)
    inside = np.abs(fresh) <= width * factors_at(other, factors)
    names = np.array([k["accelerator"] for k in other.keys])
    for name in SPREADS:
        assert 0.87 < inside[names == name].mean() < 0.95
    one = np.abs(fresh) <= np.quantile(np.abs(error), 0.9)
    assert one[names == "wild"].mean() < 0.80


def test_few_systems_are_believed_less() -> None:
    """With weight n / (n + 3), a single wild system moves its factor by a quarter of the way."""
    many = learned(*drawn(3, systems=60, runs=50), ("accelerator",))[1]["accelerator wild"]
    error, kin, groups = drawn(3, systems=60, runs=50)
    names = np.array([k["accelerator"] for k in kin.keys])
    lone = ["wild" if n == "wild" else g for n, g in zip(names, groups, strict=True)]
    one = learned(error, kin, lone, ("accelerator",))[1]["accelerator wild"]
    assert np.log(one) == pytest.approx(np.log(many) * (1 / 4) / (60 / 63), rel=0.02)


def test_what_was_never_seen_keeps_the_usual_width() -> None:
    kin = Kin(({"accelerator": "new", "model": "m0"},), np.zeros((1, 3)))
    assert factors_at(kin, {"accelerator wild": 2.0, "model m0": 1.5}).tolist() == [1.5]
    assert factors_at(kin, {}).tolist() == [1.0]
