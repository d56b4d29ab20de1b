"""The package's face: what is public, that every name is there, and that none hides a package."""

from __future__ import annotations

import pkgutil

import pytest

import planner
from planner import _HOMES


def test_no_name_shadows_a_package():
    packages = {module.name for module in pkgutil.iter_modules(planner.__path__)}
    assert packages.isdisjoint(planner.__all__)


def test_names_are_sorted_and_each_has_a_home():
    assert sorted(planner.__all__) == planner.__all__
    assert sorted(_HOMES) == planner.__all__


@pytest.mark.parametrize("name", planner.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    assert getattr(planner, name).__doc__
    assert name in dir(planner)


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'paln'"):
        _ = planner.paln
