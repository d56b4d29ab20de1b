"""What a solver says is checked, whatever its status; numbers of any size give the same fleet."""

import dataclasses

import numpy as np
import pulp
import pytest

from planner.errors import InputError, LimitReachedError, SolverError
from planner.milp import Instance, choose
from planner.milp import highs as engine
from planner.milp.formulation import model_of
from planner.milp.highs import Answer, Settings
from planner.milp.program import read
from planner.milp.solve import solve
from tests.instances import two_by_two


class Liar(pulp.LpSolver):
    """Says 'Optimal' and gives the values that it was told to give; zero where not told."""

    name = "liar"

    def __init__(self, **values: float) -> None:
        super().__init__(msg=False)
        self.values = {
            name.replace("__", ",").replace("_of_", "("): y for name, y in values.items()
        }

    def actualSolve(self, lp: pulp.LpProblem) -> int:  # noqa: N802 - PuLP's name
        for v in lp.variables():
            v.varValue = self.values.get(v.name.removesuffix(")"), 0.0)
        lp.assignStatus(pulp.LpStatusOptimal, pulp.LpSolutionOptimal)
        return pulp.LpStatusOptimal


class NoSolution(pulp.LpSolver):
    """Ends with a status and no values."""

    name = "mute"

    def __init__(self, status: int, solution: int) -> None:
        super().__init__(msg=False)
        self.status, self.solution = status, solution

    def actualSolve(self, lp: pulp.LpProblem) -> int:  # noqa: N802
        lp.assignStatus(self.status, self.solution)
        return self.status


def test_the_cheapest_fleet_by_hand() -> None:
    """Chat needs 9.5 compliant: one big unit gives 7.6 at most, so two, for 20 USD/h. Small
    units save nothing. Two big units at the mix offer 10 and 6 in full: 9.8 + 6 comply."""
    choice = choose(two_by_two(), "min_cost")
    assert choice.units == {"big": 2}
    assert choice.weights == pytest.approx({("big", "mix"): 2.0})
    assert choice.goodput_rps == pytest.approx({"chat": 9.8, "batch": 6.0})
    assert choice.cost_usd_per_hour == choice.objective == sum(choice.bill.values()) == 20.0
    assert choice.compliant_requests_per_usd == pytest.approx(15.8 * 3600 / 20)
    assert (choice.status, choice.gap) == ("optimal", pytest.approx(0, abs=1e-6))


def test_shed_load_is_turned_away_only_within_its_limit() -> None:
    """Without h100 for batch: small units carry all 6, or 4.5 of them if a quarter may go."""
    only_small = {"W": ("batch",), "J": ("small",), "O": {"small": ("0",)}}
    only_small |= {"demand_rps": {"batch": 6.0}, "promise": {"batch": 0.5}}
    rate = {("small", "0", "batch"): 1.5}
    data = two_by_two(**only_small, load_rps=rate, goodput_rps=rate)
    assert choose(data, "min_cost").units == {"small": 4}
    shed = choose(dataclasses.replace(data, shed_limit={"batch": 0.25}), "min_cost")
    assert shed.units == {"small": 3}
    assert shed.shed_rps == pytest.approx({"batch": 1.5})


def test_most_goodput_costs_no_more_than_it_must() -> None:
    """Stock allows 25 big units; 15.8 req/s comply at most, and two units reach it."""
    choice = choose(two_by_two(stock={"h100": 100, "a10": 100}), "max_goodput")
    assert choice.objective == pytest.approx(15.8)
    assert choice.cost_usd_per_hour == pytest.approx(20.0)


def test_fractional_units_are_refused_though_called_optimal() -> None:
    """1.25 big units would do, were they divisible."""
    values = {"n_of_big": 1.9, "x_of_big__chat": 0.95, "x_of_big__mix": 0.95}
    with pytest.raises(SolverError, match=r"liar .* n\(big\) = 1.9 is not whole"):
        choose(two_by_two(), "min_cost", solver=Liar(**values))


def test_a_broken_row_is_refused_though_called_optimal() -> None:
    """One big unit at the mix carries half of both demands; the solver calls it a plan."""
    values = {"n_of_big": 1.0, "x_of_big__mix": 1.0}
    with pytest.raises(SolverError, match=r"liar .* it breaks \w+\(\w+\): 0\.5? ?"):
        choose(two_by_two(), "min_cost", solver=Liar(**values))


def test_a_value_out_of_bounds_is_refused() -> None:
    """Turning batch away is not allowed; z(batch) = 6 would keep C2."""
    data = two_by_two(promise={"chat": 0.0, "batch": 0.0})
    values = {"z_of_batch": 6.0, "z_of_chat": 10.0}
    with pytest.raises(SolverError, match=r"z\(\w+\) = \d+ is out of bounds"):
        choose(data, "min_cost", solver=Liar(**values))


def test_a_bound_that_the_answer_beats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(two_by_two())
    program = model.cost_program()
    honest = engine.run(program, Settings())
    lie = Answer("optimal", honest.x, 25.0)
    monkeypatch.setattr(engine, "run", lambda *_: lie)
    with pytest.raises(SolverError, match="beyond the proven bound"):
        solve(model, program, Settings())


def test_an_infeasible_verdict_is_checked() -> None:
    wrong = NoSolution(pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible)
    with pytest.raises(SolverError, match="but a fleet exists"):
        choose(two_by_two(), "min_cost", solver=wrong)


def test_no_incumbent_is_a_limit() -> None:
    silent = NoSolution(pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound)
    with pytest.raises(LimitReachedError, match="more time"):
        choose(two_by_two(), "min_cost", solver=silent)
    with pytest.raises(LimitReachedError):
        choose(two_by_two(), "max_goodput", time_limit_s=0.0)


def test_a_poor_answer_is_feasible_with_its_gap() -> None:
    """Three big units are a plan: 30 USD/h. The relaxation proves no more than it proves."""
    values = {"n_of_big": 3.0, "x_of_big__mix": 2.0, "x_of_big__idle": 1.0}
    choice = choose(two_by_two(), "min_cost", solver=Liar(**values))
    assert (choice.status, choice.objective) == ("feasible", 30.0)
    assert choice.bound <= 20.0 + 1e-6
    assert choice.gap == pytest.approx((30.0 - choice.bound) / 30.0)


def test_another_solver_by_name_finds_the_same() -> None:
    if "PULP_CBC_CMD" in pulp.listSolvers(onlyAvailable=True):
        assert choose(two_by_two(), "min_cost", solver="pulp_cbc_cmd").objective == 20.0
    with pytest.raises(InputError, match="did you mean 'highs'"):
        choose(two_by_two(), "min_cost", solver="higs")


def test_names_that_meet_are_refused() -> None:
    problem = pulp.LpProblem("clash", pulp.LpMinimize)
    problem += problem.add_variable("n(a-b)", 1) + problem.add_variable("n(a_b)", 1), "sum"
    with pytest.raises(SolverError, match="two columns share the name"):
        read(problem)


def test_a_start_with_idle_units_is_not_called_optimal() -> None:
    """Two big units suffice; HiGHS is handed three, the third idle, as a first incumbent."""
    model = model_of(two_by_two(stock={"h100": 40, "a10": 0}, goodput_floor_rps=15.8))
    program = model.cost_program()
    at = {name: i for i, name in enumerate(program.columns)}
    start = np.zeros(len(at))
    start[at["n(big)"]], start[at["x(big,mix)"]], start[at["x(big,idle)"]] = 3.0, 2.0, 1.0
    answer = engine.run(program, Settings(gap=0.0), start)
    assert answer.x is not None
    assert program.objective(answer.x) == pytest.approx(20.0)
    assert answer.bound == pytest.approx(20.0)


def test_the_banner_stays_off_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    choose(two_by_two(), "min_cost")
    assert capfd.readouterr().out == ""


def scaled(data: Instance, factor: float) -> Instance:
    def times(rates: object) -> dict[object, float]:
        return {key: rate * factor for key, rate in rates.items()}  # type: ignore[attr-defined]

    return dataclasses.replace(
        data,
        demand_rps=times(data.demand_rps),
        load_rps=times(data.load_rps),
        goodput_rps=times(data.goodput_rps),
    )


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("objective", ["min_cost", "max_goodput", "max_goodput_per_usd"])
def test_a_unit_of_time_changes_no_fleet(factor: float, objective: str) -> None:
    """Rates of 1e-5 to 1e7 req/s, all scaled alike: the same units, goodput times the factor."""
    data = two_by_two(stock={"h100": 40, "a10": 20}, budget_usd_per_hour=60.0)
    plain = choose(data, objective, gap=0)  # type: ignore[arg-type]
    other = choose(scaled(data, factor), objective, gap=0)  # type: ignore[arg-type]
    assert other.units == plain.units
    for w in data.W:
        assert other.goodput_rps[w] == pytest.approx(plain.goodput_rps[w] * factor, rel=1e-6)


def test_a_tiny_demand_still_needs_a_unit() -> None:
    """A unit of 1e3 req/s beside a demand of 1e-5: a weight of 1e-8, but a whole unit."""
    wide = {"W": ("tiny", "huge"), "J": ("fast", "slow"), "G": ("g",)}
    rate = {("fast", "0", "tiny"): 1e3, ("slow", "0", "huge"): 5e3}
    data = Instance(
        **wide,  # type: ignore[arg-type]
        O={"fast": ("0",), "slow": ("0",)},
        demand_rps={"tiny": 1e-5, "huge": 1e7},
        promise={"tiny": 0.99, "huge": 0.99},
        load_rps=rate,
        goodput_rps=rate,
        devices={"fast": 8, "slow": 1},
        accelerator_of={"fast": "g", "slow": "g"},
        usd_per_hour={"fast": 20.0, "slow": 1.0},
    )
    choice = choose(data, "min_cost", gap=0)
    assert choice.units == {"fast": 1, "slow": 2000}
    assert choice.goodput_rps == pytest.approx({"tiny": 1e-5, "huge": 1e7})
    assert choice.coefficient_ratio > 1e7


def test_the_scaling_keeps_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled and unscaled columns lead HiGHS to one optimum of the relaxation."""
    program = model_of(two_by_two()).goodput_program().relaxed()
    with_scale = engine.run(program, Settings())
    monkeypatch.setattr(engine, "_column_scale", lambda p: np.ones(len(p.columns)))
    assert engine.run(program, Settings()).bound == pytest.approx(with_scale.bound)
