"""Owning against renting: a worked example, closed forms, and flips confirmed by solving again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.app import run
from planner.studies.owning import Owned, break_even, npv_usd, owning
from planner.studies.owning_question import OwningQuestion

SHIPPED = "scenarios/studies/own-or-rent.yaml"


def question(**changes: Any) -> OwningQuestion:
    """64 accelerators for 1.92 MUSD and 728,681 USD of running cost over four years."""
    base: dict[str, Any] = {
        "format_version": "1.0",
        "name": "x",
        "accelerators": 64,
        "utilisation": 0.7,
        "years": 4,
        "discount_rate": 0.1,
        "own": {"price": 30_000.0, "staff": 728_681 / 4},
        "rent": {"price": 2.0},
    }
    return OwningQuestion.model_validate(base | changes)


def test_the_verdict_follows_the_discount_rate():
    """64 x 2 x 8760 x 0.7 = 784,896 a year less 182,170; annuity of 4 years at 10 % is 3.1699."""
    found = owning(question())
    assert found.rent_total_usd == pytest.approx(3_139_584)
    assert found.own_total_usd == pytest.approx(2_648_681)
    assert found.payback_years == pytest.approx(1_920_000 / 602_725.75)
    assert found.npv_usd == pytest.approx(602_725.75 * (1 - 1.1**-4) / 0.1 - 1_920_000)
    assert found.npv_usd == pytest.approx(-9440, abs=500)
    assert found.break_even_utilisation == pytest.approx(0.5905, rel=0.005)
    assert found.break_even_utilisation_discounted == pytest.approx(0.7027, rel=0.005)
    assert (found.cash_verdict, found.verdict) == ("own", "neither")
    assert "rent by a hair" in found.because
    assert "above 59.1 % of the hours in cash, above 70.3 %" in found.because


def test_the_levelised_hour_of_one_year_without_interest():
    """One year at no interest: (capex + staff) over the hours used."""
    found = owning(question(years=1, discount_rate=0.0))
    hours = 64 * 8760 * 0.7
    assert found.own_usd_per_used_hour == pytest.approx((1_920_000 + 728_681 / 4) / hours)


def test_energy_is_paid_for_use_idling_and_the_site():
    """10 kW half used, idle at 40 %: 7 kW, x PUE 1.5 x 8760 h x 0.1 USD."""
    own = {"price": 1.0, "power": 1000.0, "idle_power": 0.4, "pue": 1.5, "energy": 0.1}
    found = owning(question(accelerators=10, utilisation=0.5, years=1, own=own))
    assert found.years[0].run_usd == pytest.approx(7 * 1.5 * 8760 * 0.1)


def test_hosting_spares_network_and_residual():
    own = {
        "price": 1000.0,
        "spares": 0.05,
        "network": 500.0,
        "residual": 0.2,
        "power": 1000.0,
        "hosting": 100.0,
    }
    found = owning(question(accelerators=100, years=2, own=own))
    assert found.capex_usd == pytest.approx(105_500)
    assert [y.residual_usd for y in found.years] == [0.0, pytest.approx(21_100)]
    assert found.years[0].run_usd == pytest.approx(100 * 100 * 12)


@st.composite
def questions(draw: Any) -> OwningQuestion:
    share = st.floats(0, 1)
    return question(
        accelerators=draw(st.integers(1, 1000)),
        utilisation=draw(st.floats(0.01, 1)),
        years=draw(st.integers(1, 10)),
        discount_rate=draw(st.floats(0, 0.5)),
        own={
            "price": draw(st.floats(1000, 60_000)),
            "network": draw(st.floats(0, 1e6)),
            "spares": draw(st.floats(0, 0.2)),
            "residual": draw(st.floats(0, 0.5)),
            "power": draw(st.floats(0, 3000)),
            "idle_power": draw(share),
            "pue": draw(st.floats(1, 2)),
            "energy": draw(st.floats(0, 0.5)),
            "hosting": draw(st.floats(0, 300)),
            "staff": draw(st.floats(0, 1e6)),
        },
        rent={"price": draw(st.floats(0.1, 15)), "change": draw(st.floats(-0.5, 0.2))},
    )


def with_value(asked: OwningQuestion, path: str, value: float) -> OwningQuestion:
    part, _, key = path.rpartition(".")
    if not part:
        return asked.model_copy(update={key: value})
    return asked.model_copy(update={part: getattr(asked, part).model_copy(update={key: value})})


@given(questions())
def test_every_flip_is_one(asked):
    """At the value that is told, owning and renting are worth the same, solved again."""
    found = owning(asked)
    scale = found.capex_usd + found.rent_total_usd + found.own_total_usd
    for assumption in found.tornado:
        if assumption.flips_at is not None:
            worth = npv_usd(with_value(asked, assumption.path, assumption.flips_at))
            assert worth == pytest.approx(0.0, abs=1e-6 * scale)


@given(questions())
def test_break_even_and_verdict_agree(asked):
    for rate in (0.0, asked.discount_rate):
        level = break_even(asked, rate)
        above = level is not None and asked.utilisation >= level
        worth = npv_usd(asked, rate)
        scale = owning(asked).capex_usd + owning(asked).rent_total_usd
        assert above == (worth >= 0) or abs(worth) < 1e-9 * scale


@given(questions())
def test_years_sum_to_the_totals(asked):
    found = owning(asked)
    assert found.saving_usd == pytest.approx(
        found.rent_total_usd - found.own_total_usd, abs=1e-6 * found.rent_total_usd + 1e-3
    )
    assert found.npv_usd == pytest.approx(npv_usd(asked), rel=1e-9, abs=1e-3)
    at_rent = with_value(asked, "rent.price", found.own_usd_per_used_hour)
    if found.own_usd_per_used_hour > 0:
        assert npv_usd(at_rent) == pytest.approx(0, abs=1e-6 * found.capex_usd)


def test_from_the_command_line(tmp_path, capsys):
    table, picture = tmp_path / "years.csv", tmp_path / "saved.svg"
    assert run(["whatif", "own", SHIPPED, "-o", str(table), "--draw", str(picture)]) == 0
    assert "owning pays above a utilisation of" in capsys.readouterr().out
    assert len(table.read_text(encoding="utf-8").splitlines()) == 5
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert run(["whatif", "own", SHIPPED, "--json", "--set", "utilisation=1"]) == 0
    told = json.loads(capsys.readouterr().out)
    told.pop("format_version")
    assert Owned.model_validate(told).verdict == "own"


def test_mistakes_have_their_lines(tmp_path, capsys):
    file = tmp_path / "q.yaml"
    file.write_text(
        "format_version: '1.0'\nname: x\naccelerators: 0\nutilisation: 170 %\nyears: 4\n"
        "discount_rate: 10 %\nown: {price: 30000, pue: 0.5}\nrent: {price: 2 USD/h, chnge: 3 %}\n",
        encoding="utf-8",
    )
    assert run(["whatif", "own", str(file)]) == 2
    told = capsys.readouterr().err
    for place in ("q.yaml:3:", "q.yaml:4:", "q.yaml:7:", "q.yaml:8:"):
        assert place in told
    assert "chnge" in told
