"""Time to a small gap with templates by the thousand and nodes in hundreds of racks."""

import time

import pytest

from planner.milp import choose
from planner.milp.alike import merged
from planner.milp.dominated import without_dominated
from tests.instances import many_racks


@pytest.mark.benchmark
@pytest.mark.parametrize(("spare", "gap", "most_s"), [(False, 1e-3, 10.0), (True, 1e-2, 15.0)])
def test_thousands_of_templates_in_hundreds_of_racks(
    spare: bool, gap: float, most_s: float
) -> None:
    """5,000 templates, 20 workloads, 200 racks; with spare, any of 4 zones may be lost."""
    data = many_racks(demand=10.0, spare=spare)
    few, _ = merged(without_dominated(data))
    began_s = time.process_time()
    choice = choose(data, "min_cost", gap=gap, time_limit_s=120)
    solved_s = time.process_time() - began_s
    print(
        f"\n{len(data.J)} templates, {len(few.J)} not dominated; {len(data.D)} racks, "
        f"{len(few.D)} told apart; {len(choice.losses)} failures with rows; "
        f"{sum(choice.units.values())} units in {sum(choice.nodes.values())} nodes: "
        f"{solved_s:.2f} CPU-s to a gap of {choice.gap:.2e}"
    )
    assert choice.status == "optimal"
    assert solved_s < most_s
