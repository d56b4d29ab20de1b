"""What is tried where no fleet keeps every promise."""

from __future__ import annotations

import pytest

from planner.catalogue import Catalogue
from planner.data import shipped
from planner.planning.levers import options_of
from planner.scenario.load import load_scenario

LINKS = shipped("scenarios") / "shared-links.yaml"


@pytest.mark.parametrize(("choose", "offered"), [("always", True), ("search", False)])
def test_replicas_that_do_both_are_tried_first_where_the_scenario_leaves_them_out(choose, offered):
    """Groups whose links carry too little make a question infeasible that has an easy answer."""
    place = "policies.disaggregation.choose"
    options = options_of(load_scenario(LINKS, (f"{place}={choose}",)).scenario, Catalogue())
    first = [(option.name, option.ways[0][1]) for option in options if option.first]
    assert first == ([(place, (f"{place}=search",))] if offered else [])
