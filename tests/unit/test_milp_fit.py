"""Rows of which a fleet keeps one: the best fleet is the best of those that keep each alone."""

from __future__ import annotations

import dataclasses

import pytest

from planner.errors import InputError
from planner.milp import NoFleetError, choose
from planner.milp.fit import Fit, FitRow
from tests.instances import two_by_two

NO_MORE_BIG = FitRow({"big": 1}, 1, 9)
FEW_SMALL = FitRow({"small": 1}, 0, 20)
WIDE = two_by_two(promise={"chat": 0.3, "batch": 0.5})
"""One big unit can take all of chat at 30 %, so that small ones serve batch."""


def best(*fits: Fit) -> float:
    return choose(dataclasses.replace(WIDE, fits=fits), "min_cost", gap=0).objective


def test_of_several_rows_the_cheapest_is_kept() -> None:
    alone = [best(Fit("a", (row,))) for row in (NO_MORE_BIG, FEW_SMALL)]
    assert best(Fit("a", (NO_MORE_BIG, FEW_SMALL))) == pytest.approx(min(alone))
    assert alone[0] != pytest.approx(alone[1])
    assert best() <= min(alone)


def test_a_row_that_is_in_the_way_is_named_with_what_it_would_need() -> None:
    data = two_by_two(fits=(Fit("cut1", (FitRow({"big": 1}, 1, 9),)),))
    with pytest.raises(NoFleetError) as caught:
        choose(data, "min_cost")
    short = next(s for s in caught.value.alone if s.number == "C28")
    assert (short.number, short.index, short.limit) == ("C28", ("cut1", "1"), 1.0)
    enough = dataclasses.replace(data, fits=(Fit("cut1", (FitRow({"big": 1}, 2, 9),)),))
    assert choose(enough, "min_cost").units["big"] == 2


def test_rows_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="is empty"):
        two_by_two(fits=(Fit("a", ()),))
    with pytest.raises(InputError, match="stands there twice"):
        two_by_two(fits=(Fit("a", (NO_MORE_BIG,)), Fit("a", (FEW_SMALL,))))
    with pytest.raises(InputError, match="most <= reach"):
        two_by_two(fits=(Fit("a", (FitRow({"big": 1}, 3, 2),)),))
