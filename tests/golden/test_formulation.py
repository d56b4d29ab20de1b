"""Every equation has one function, one golden LP file and one line of docs/formulation.md."""

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pulp
import pytest

from planner.milp import Instance
from planner.milp.fit import Fit, FitRow
from planner.milp.formulation import CONSTRAINTS, TERMS, formulate
from planner.milp.objective import COSTS
from planner.milp.variables import Variables, declare, name_of
from tests.instances import (
    day_and_night,
    indexed,
    on_terms,
    three_racks,
    two_by_two,
    two_ways,
)

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "formulation.md").read_text()
EQUATIONS = {**TERMS, **CONSTRAINTS}
ALL_LIMITS = two_by_two(
    stock={"a10": 6, "h100": 12},
    max_units={"small": 5},
    shed_limit={"batch": 0.25},
    value={"batch": 0.5},
    budget_usd_per_hour=40.0,
    goodput_floor_rps=8.0,
)

WITH_DEFERRAL = dataclasses.replace(ALL_LIMITS, deferral=day_and_night())
IN_RACKS = three_racks()
"""Three domains of whole nodes, with a failure of each kind."""
OF_LINKS = {"C50", "C51", "C52", "C53", "C54"}
OVER_LINKS = dataclasses.replace(two_by_two(), links=two_ways())
OF_NODES = {n for n in EQUATIONS if n in ("O20", "O21") or (n[0] == "C" and int(n[1:]) >= 30)}
OF_NODES -= OF_LINKS
ON_TERMS = dataclasses.replace(two_by_two(), terms=on_terms())
OF_TERMS = {"O5", "O6", "O7", "O8", "O9", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"}
OF_FITS = {"C28", "C29"}
WITH_FITS = two_by_two(
    fits=(
        Fit("cut1", (FitRow({"big": 1}, 3, 3),)),
        Fit("cut2", (FitRow({"small": 1, "big": 4}, 9, 16), FitRow({"big": 1}, 1, 3))),
    )
)
ONLY_INDEXED = {*OF_NODES, "C13", "O9", "C16", "C17", "C18", "C19", "C20"}
"""Equations that a single period in a single domain does not have."""


def data_of(number: str, folder: str) -> Instance:
    if number in OF_NODES:
        return IN_RACKS
    data = WITH_DEFERRAL if number in ("C10", "C11", "C12") else ALL_LIMITS
    data = ON_TERMS if number in OF_TERMS else data
    data = WITH_FITS if number in OF_FITS else data
    data = OVER_LINKS if number in OF_LINKS else data
    return indexed(data) if folder == "indexed" else data


def lp_of(number: str, data: Instance, folder: Path) -> str:
    """One equation alone, as an LP file: what a reader would check by hand."""
    problem = pulp.LpProblem(number, pulp.LpMinimize)
    v = declare(problem, data)
    if number in TERMS:
        term: Callable[..., pulp.LpAffineExpression] = TERMS[number]
        if number == "O4":
            term = partial(term, theta=0.25)
        problem += term(data, v), TERMS[number].__name__
    else:
        problem += pulp.lpSum(v.n.values()), "none"
        for index, row in CONSTRAINTS[number](data, v):
            problem += row, name_of(CONSTRAINTS[number].__name__, index)
    problem.writeLP(folder / "new.lp")
    return (folder / "new.lp").read_text()


@pytest.mark.parametrize(
    ("number", "folder"),
    [(n, "") for n in EQUATIONS if n not in ONLY_INDEXED] + [(n, "indexed") for n in EQUATIONS],
)
def test_rows_are_as_written(
    number: str, folder: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    golden = HERE / "lp" / folder / f"{number}.lp"
    got = lp_of(number, data_of(number, folder), tmp_path)
    if pytestconfig.getoption("--accept"):
        golden.write_text(got)
    assert got == golden.read_text()


@pytest.mark.parametrize(("number", "equation"), EQUATIONS.items())
def test_page_names_the_function(number: str, equation: Callable[..., object]) -> None:
    line = next((x for x in PAGE.splitlines() if x.startswith(f"| {number} |")), "")
    module = equation.__module__.removeprefix("planner.milp.")
    assert f"`{module}.{equation.__name__}`" in line
    assert (equation.__doc__ or "").startswith(f"({number}) ")


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in (HERE / "lp").glob("*.lp")} == set(EQUATIONS) - ONLY_INDEXED
    assert {p.stem for p in (HERE / "lp" / "indexed").glob("*.lp")} == set(EQUATIONS)


def test_page_lists_nothing_else() -> None:
    assert set(re.findall(r"^\| ([OC]\d+) \|", PAGE, re.MULTILINE)) == set(EQUATIONS)


def test_whole_program_has_no_other_rows() -> None:
    data = indexed(dataclasses.replace(WITH_DEFERRAL, terms=on_terms()))
    problem, _ = formulate(data)
    families = {row.name.split("(")[0] for row in problem.constraints()}
    problem, _ = formulate(IN_RACKS)
    families |= {row.name.split("(")[0] for row in problem.constraints()}
    problem, _ = formulate(WITH_FITS)
    families |= {row.name.split("(")[0] for row in problem.constraints()}
    problem, _ = formulate(OVER_LINKS)
    families |= {row.name.split("(")[0] for row in problem.constraints()}
    assert families == {family.__name__ for family in CONSTRAINTS.values()}


def test_a_limit_that_is_not_given_has_no_row() -> None:
    problem, _ = formulate(two_by_two())
    families = {row.name.split("(")[0] for row in problem.constraints()}
    always = ("C1", "C2", "C3", "C4")
    assert families == {CONSTRAINTS[number].__name__ for number in always}


def test_the_bill_is_the_sum_of_its_terms() -> None:
    problem = pulp.LpProblem("bill", pulp.LpMinimize)
    v: Variables = declare(problem, ALL_LIMITS)
    whole = TERMS["O2"](ALL_LIMITS, v)
    parts = [term(ALL_LIMITS, v) for term in COSTS.values()]
    for column in problem.variables():
        assert whole.get(column, 0.0) == sum(part.get(column, 0.0) for part in parts)
