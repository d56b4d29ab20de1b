"""Any solver may be asked, none is believed, and none is waited for."""

from __future__ import annotations

import threading
import time

import pulp
import pytest

from planner.cli import main
from planner.data import shipped
from planner.errors import InfeasibleError, InputError, LimitReachedError, SolverError
from planner.milp import choose
from planner.milp.highs import Settings
from planner.milp.solvers import available, check_solver, named
from tests.instances import two_by_two
from tests.property.test_milp import OBJECTIVES, tiny


class Honest(pulp.LpSolver):
    """Asks HiGHS through PuLP, and then does what a subclass adds."""

    name = "honest"

    def __init__(self) -> None:
        super().__init__(msg=False)
        self.calls = 0
        self.released = threading.Event()

    def actualSolve(self, lp: pulp.LpProblem) -> int:  # noqa: N802
        self.calls += 1
        self.before()
        status = pulp.HiGHS(msg=False).actualSolve(lp)
        self.after(lp)
        return status

    def before(self) -> None:
        """Nothing."""

    def after(self, lp: pulp.LpProblem) -> None:
        """Nothing."""


class Boaster(Honest):
    """Reports another objective than its answer has."""

    name = "boaster"

    def after(self, lp: pulp.LpProblem) -> None:
        lp.setObjective(pulp.LpAffineExpression({lp.variables()[0]: 1e-3}, 0.5))


class Halver(Honest):
    """Calls optimal what has half of a unit."""

    name = "halver"

    def after(self, lp: pulp.LpProblem) -> None:
        for v in lp.variables():
            if v.cat == pulp.LpInteger and v.varValue:
                v.varValue -= 0.5
                return


class Sleeper(Honest):
    """Does not come back from its second call on."""

    name = "sleeper"

    def before(self) -> None:
        if self.calls > 1:
            self.released.wait(120)


class Dead(Sleeper):
    """Does not come back at all."""

    def before(self) -> None:
        self.released.wait(120)


def test_an_objective_is_what_the_units_make_of_it() -> None:
    assert choose(two_by_two(), "min_cost", solver=Boaster()).objective == 20.0


def test_half_a_unit_is_refused_though_called_optimal() -> None:
    with pytest.raises(SolverError, match="halver called its answer a plan, but"):
        choose(two_by_two(), "min_cost", solver=Halver())


def test_a_solver_that_hangs_is_left_and_the_best_fleet_so_far_stays() -> None:
    sleeper, began = Sleeper(), time.perf_counter()
    try:
        choice = choose(two_by_two(), "max_goodput", time_limit_s=1.0, solver=sleeper)
    finally:
        sleeper.released.set()
    assert time.perf_counter() - began < 30
    assert sleeper.calls == 2
    assert choice.objective == pytest.approx(15.8)
    assert choice.bound >= choice.objective


def test_a_solver_that_never_answers_is_a_limit() -> None:
    dead = Dead()
    try:
        with pytest.raises(LimitReachedError, match="more time"):
            choose(two_by_two(), "min_cost", time_limit_s=0.2, solver=dead)
    finally:
        dead.released.set()


@pytest.mark.parametrize("name", [n for n in available() if n != "highs"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(12))
def test_solvers_agree(name: str, objective: str, seed: int) -> None:
    data = tiny(seed)
    try:
        ours = choose(data, objective, gap=1e-6)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            choose(data, objective, gap=1e-6, solver=name)
        return
    theirs = choose(data, objective, gap=1e-6, solver=name)
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-5, abs=1e-9)


def test_a_solver_is_told_its_limits_as_far_as_it_takes_them() -> None:
    for name in available():
        if name != "highs":
            engine = named(name, Settings(time_limit_s=7.0, gap=0.125))
            assert engine.timeLimit == 7.0
            assert engine.optionsDict.get("gapRel", 0.125) == 0.125


def test_a_solver_that_is_not_there_is_told_with_those_that_are(capsys) -> None:
    file = shipped("scenarios") / "quickstart.yaml"
    assert main(["plan", str(file), "--solver", "higs"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("--set solver.name: solver.name: solver 'higs' is not known")
    assert "installed here: highs" in told
    missing = next(n for n in pulp.listSolvers() if n not in available() and n != "HiGHS")
    with pytest.raises(InputError, match=f"{missing}' is not installed here; there are: highs"):
        check_solver(missing)
    check_solver("HiGHS")
