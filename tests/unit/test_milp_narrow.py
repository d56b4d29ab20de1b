"""Few templates first: faster, and no less true."""

import dataclasses

import pytest

from planner.milp import choose, highs, narrow
from planner.milp.formulation import model_of
from planner.milp.highs import Settings
from planner.milp.program import Program
from tests.instances import fleet_problem


def test_a_template_that_the_relaxation_uses_loses_nothing() -> None:
    model = model_of(fleet_problem(templates=80, workloads=4))
    for program in (model.cost_program(), model.goodput_program(), model.ratio_program(0.2)):
        answer = highs.run(program.relaxed(), Settings())
        assert answer.x is not None
        assert answer.row_duals is not None
        value = dict(zip(program.columns, answer.x, strict=True))
        losses = narrow.loss_per_unit(model, program, answer.row_duals)
        scale = max(abs(program.cost))
        assert min(losses.values()) > -1e-6 * scale
        used = [j for j in model.data.J if value[f"n({j})"] > 1e-6]
        assert used
        assert max(losses[j] for j in used) < 1e-6 * scale


def test_few_templates_prove_as_much_as_all() -> None:
    """Both answers lie within their gap of one optimum, and neither passes the other's bound."""
    data = fleet_problem(demand=10.0, templates=80, workloads=4)
    model = model_of(data)
    program = model.cost_program()
    narrowed = choose(data, "min_cost", gap=1e-3)
    whole = highs.run(program, Settings(gap=1e-3))
    assert whole.x is not None
    assert whole.bound is not None
    assert narrowed.gap <= 1e-3
    assert narrowed.bound <= program.objective(whole.x) * (1 + 1e-6)
    assert whole.bound <= narrowed.objective * (1 + 1e-6)


def test_many_units_are_rounded_to_a_proven_fleet_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of units to 1 %: rounding a few counts costs less, so no other is solved."""
    model = model_of(fleet_problem(demand=10.0, templates=100))
    program = model.cost_program()
    sizes = []
    run = highs.run

    def counted(one: Program, *rest: Settings) -> highs.Answer:
        sizes.append(int((one.integer & (one.upper > one.lower)).sum()))
        return run(one, *rest)

    monkeypatch.setattr(highs, "run", counted)
    answer = narrow.run(model, program, Settings(gap=1e-2), None)
    relaxed = run(program.relaxed(), Settings())
    assert answer.x is not None
    assert relaxed.bound is not None
    assert relaxed.bound <= program.objective(answer.x) <= relaxed.bound * 1.01
    assert answer.bound == relaxed.bound
    assert len(sizes) == 2
    assert sizes[1] < int(program.integer.sum()) / 2  # units that the relaxation has no use for


def test_a_gap_that_few_cannot_prove_is_closed_over_all() -> None:
    data = fleet_problem(demand=0.05, templates=60, workloads=3)
    model = model_of(data)
    exact = highs.run(model.cost_program(), Settings(gap=0.0))
    assert exact.x is not None
    choice = choose(data, "min_cost", gap=0.0)
    assert choice.status == "optimal"
    assert choice.objective == pytest.approx(model.cost_program().objective(exact.x))


def test_no_fleet_of_few_or_many_is_infeasible() -> None:
    data = dataclasses.replace(fleet_problem(templates=80, workloads=4), stock={"g0": 1, "g1": 1})
    tight = dataclasses.replace(data, stock=dict.fromkeys(data.G, 1))
    program = model_of(tight).cost_program()
    assert narrow.run(model_of(tight), program, Settings(), None).status == "infeasible"


def test_an_answer_cut_short_keeps_its_fleet_and_an_honest_bound() -> None:
    """A target that any fleet meets ends the work at the first one."""
    program = model_of(fleet_problem(templates=80, workloads=4)).cost_program()
    answer = highs.run(program, Settings(target=1e12))
    assert answer.status == "limit"
    assert answer.x is not None
    assert answer.bound is not None
    relaxed = highs.run(program.relaxed(), Settings())
    assert relaxed.bound is not None
    assert relaxed.bound * (1 - 1e-6) <= answer.bound <= program.objective(answer.x)
