"""Partial pooling: closed forms, and each shortcut against the long way."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibration.pooling import Kin, Pool, Pooling, Term


def kin(*models: str, users: tuple[float, ...] | None = None) -> Kin:
    axes = np.zeros((len(models), 3))
    if users is not None:
        axes[:, 0] = users
    keys = tuple({"model": m, "unit": m[:1], "apart": ""} for m in models)
    return Kin(keys, axes)


FLAT = Pooling((Term(("model",), "flat", 0.3),), noise_sd=0.1, apart_noise_sd=0.1, clip=10.0)


def test_a_level_is_drawn_towards_zero_by_its_share_of_the_variance() -> None:
    """n runs of one level with mean r: the effect is r v / (v + s²/n)."""
    residual = np.array([0.2, 0.4, 0.3])
    found = Pool(FLAT, kin("a", "a", "a"), residual).at(kin("a", "b"))
    share = 0.09 / (0.09 + 0.01 / 3)
    assert found.mean == pytest.approx([0.3 * share, 0.0])
    assert found.sd == pytest.approx(np.sqrt([0.09 * (1 - share) + 0.01, 0.09 + 0.01]))


def test_runs_that_a_value_stands_for_count() -> None:
    three = Pool(FLAT, kin("a", "a", "a"), np.full(3, 0.3)).at(kin("a"))
    one = Pool(FLAT, kin("a"), np.array([0.3]), runs=np.array([3.0])).at(kin("a"))
    assert one.mean == pytest.approx(three.mean)
    assert one.sd == pytest.approx(three.sd)


def test_residuals_beyond_the_clip_count_as_the_clip() -> None:
    pooling = Pooling(FLAT.terms, 0.1, 0.1, clip=0.5)
    far, near = (Pool(pooling, kin("a"), np.array([r])).at(kin("a")).mean for r in (9.0, 0.5))
    assert far == pytest.approx(near)


def test_an_effect_of_the_load_fades_with_distance() -> None:
    pooling = Pooling((Term(("model",), "users", 0.3),), 0.1, 0.1, 10.0)
    pool = Pool(pooling, kin("a", users=(0.0,)), np.array([0.4]))
    near, far = pool.at(kin("a", "a", users=(0.0, 1.5))).mean
    assert far / near == pytest.approx(np.exp(-0.5))


MIXED = Pooling(
    (Term(("model",), "flat", 0.3), Term(("unit",), "flat", 0.2), Term(("unit",), "load", 0.1)),
    0.1,
    0.1,
    10.0,
)
MODELS = ("a1", "a1", "a2", "b1", "b1", "b2", "c1")
USERS = (0.0, 1.0, 0.5, 0.2, 2.0, 1.0, 0.3)


def test_leaving_out_equals_fitting_without() -> None:
    residual = np.array([0.3, 0.1, -0.2, 0.4, 0.5, 0.2, -0.1])
    everyone = kin(*MODELS, users=USERS)
    found = Pool(MIXED, everyone, residual).without(MODELS)
    for model in set(MODELS):
        out = np.flatnonzero(np.array(MODELS) == model)
        rest = np.flatnonzero(np.array(MODELS) != model)
        long_way = Pool(MIXED, everyone.part(rest), residual[rest]).at(everyone.part(out))
        assert found.mean[out] == pytest.approx(long_way.mean)
        assert found.sd[out] == pytest.approx(long_way.sd)


def test_a_few_points_of_the_unit_equal_fitting_with_them() -> None:
    residual = np.array([0.3, 0.1, -0.2, 0.4, 0.5, 0.2, -0.1])
    everyone = kin(*MODELS, users=USERS)
    unit, seen, wanted = np.array([0, 1, 2]), np.array([0]), np.array([1, 2])
    found = Pool(MIXED, everyone, residual).within(unit, seen, wanted)
    known = np.array([0, 3, 4, 5, 6])
    long_way = Pool(MIXED, everyone.part(known), residual[known]).at(everyone.part(wanted))
    assert found.mean == pytest.approx(long_way.mean)
    assert found.sd == pytest.approx(long_way.sd)


def test_an_empty_key_takes_no_part() -> None:
    pooling = Pooling((Term(("apart",), "flat", 0.3),), 0.1, 0.1, 10.0)
    found = Pool(pooling, kin("a"), np.array([0.4])).at(kin("b"))
    assert found.mean == pytest.approx([0.0])
    assert found.sd == pytest.approx([0.1])
