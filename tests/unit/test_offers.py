"""Prices that change a choice: held against enumerated fleets, and planned anew on either side."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.app import run
from planner.errors import InputError
from planner.kernels import COMPILED
from planner.planning import plan_scenario
from planner.scenario.load import load_question, load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.studies.asking import Asking
from planner.studies.break_even import break_even
from planner.studies.offer import Offer, answer_offer, read_offer

TABLE = Path("scenarios/capacity-table.yaml")
SHORT = Effort(2_000, RunSize(6_000, 3, 1_500), RunSize(6_000, 4, 2_000), 48_000, 6_000, 4)


def question(folder: Path, rate: float, small: float, large: float, price: float):
    """One kind of request; units of two accelerators carry so many of them a second."""
    file = folder / "s.yaml"
    file.write_text(
        f"""
format_version: "1.0"
name: Two kinds
objective: min_cost
capacity_tables:
  rate: {rate} req/s
  buckets: [{{id: one, input_tokens: 100, output_tokens: 100, share: 1}}]
  templates:
    - {{accelerator: small, capacity: {{one: {small} req/s}}}}
    - {{accelerator: large, capacity: {{one: {large} req/s}}}}
accelerators:
  - {{id: small, price: 1 USD/h}}
  - {{id: large, price: {price} USD/h}}
""",
        encoding="utf-8",
    )
    return load_question(file)


def cheapest(rate: float, small: float, large: float, price: float, free: int = 0):
    """Return (cost, large ones) of the cheapest fleet; so many of the large ones are free."""
    most = [int(rate / each) + 2 for each in (small, large)]
    fleets = [
        (a + price * max(b - free, 0), b)
        for a, b in itertools.product(range(most[0]), range(most[1]))
        if a * small + b * large >= rate * (1 - 1e-9)
    ]
    return min(fleets)


@pytest.mark.parametrize("numbers", [(40, 3, 10), (40, 7, 16), (25, 4, 9), (9, 2, 11)])
def test_break_even_is_where_enumeration_puts_it(tmp_path, numbers):
    """Between the two prices the cheapest of all fleets stops holding any large one."""
    found = break_even(Asking(question(tmp_path, *numbers, 2.5), "large"))
    low, high = found.bought_at, found.not_bought_at
    assert low is not None
    assert high is not None
    assert high.usd_per_hour / low.usd_per_hour <= 1.01
    below = cheapest(*numbers, low.usd_per_hour * (1 - 1e-6))
    above = cheapest(*numbers, high.usd_per_hour * (1 + 1e-6))
    assert below[1] > 0
    assert above[1] == 0
    assert low.cost_usd_per_hour == pytest.approx(below[0], rel=1e-4)
    assert high.cost_usd_per_hour == pytest.approx(above[0], rel=1e-4)


@given(
    st.integers(5, 60),
    st.integers(1, 9),
    st.integers(5, 25),
    st.integers(1, 6),
    st.floats(0.2, 4),
)
def test_an_offer_is_worth_what_it_spares(tmp_path_factory, rate, small, large, number, usd):
    """Against enumeration: with so many large ones free, and no more of them to be had."""
    folder = tmp_path_factory.mktemp("offer")
    loaded = question(folder, rate, small, large, 3.0)
    offer = Offer(accelerator="large", count=number, usd_per_hour=usd, months=12)
    found = answer_offer(Asking(loaded, "large"), offer)
    without = cheapest(rate, small, large, 3.0)[0]
    most = [-(-max(rate - b * large, 0) // small) for b in range(number + 1)]
    beside = min(most)
    assert found.without_usd_per_hour == pytest.approx(without, rel=1e-4)
    assert found.beside_usd_per_hour == pytest.approx(beside, abs=1e-3)
    assert found.flips_at_usd_per_hour == pytest.approx((without - beside) / number, abs=1e-3)
    if abs(usd - found.flips_at_usd_per_hour) > 1e-3:
        assert (found.verdict == "accept") == (usd < found.flips_at_usd_per_hour)


def test_offers_in_words():
    assert read_offer("64 h200-sxm at 2.10 USD/h for 24 months") == Offer(
        accelerator="h200-sxm", count=64, usd_per_hour=2.1, months=24
    )
    assert read_offer("1,024 x b200-sxm at 0.001 USD/s").count == 1024
    for bad in ("", "64 h200", "0 h200 at 2 USD/h", "64 h200 at 2", "64 h200 at -2 USD/h"):
        with pytest.raises(InputError, match="64 h200-sxm at"):
            read_offer(bad)


def test_from_the_command_line(capsys):
    assert run(["whatif", "break-even", str(TABLE), "--accelerator", "small", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bought_at"]["usd_per_hour"] <= 1.5 <= told["not_bought_at"]["usd_per_hour"]
    assert run(["whatif", "offer", str(TABLE), "4 large at 1.9 USD/h for 12 months"]) == 0
    assert "accept, it saves $4.40 an hour; flips at $3.00" in capsys.readouterr().out
    assert run(["whatif", "break-even", str(TABLE), "--accelerator", "smal"]) == 2
    assert "small" in capsys.readouterr().err
    assert run(["whatif", "offer", str(TABLE), "4 large for nothing"]) == 2


@pytest.mark.skipif(not COMPILED, reason="a dozen plans in plain Python take hours")
def test_a_simulated_choice_flips_where_it_is_said_to(tmp_path):
    """Planned anew two per cent below and above: some are bought, and none."""
    loaded = load_scenario(
        Path("scenarios/quickstart.yaml"),
        [
            "accelerators=[{id: h100-sxm, price: 2.99 USD/h}, {id: b200-sxm, price: 5.49 USD/h}]",
            "policies.tp_degrees=[1]",
            "policies.max_num_seqs=[256]",
            "policies.max_num_batched_tokens=[2048]",
            "objective=min_cost",
        ],
    )

    def plan(asked):
        return plan_scenario(asked, effort=SHORT)

    found = break_even(Asking(loaded, "b200-sxm", plan=plan), precision=0.02)
    assert found.bought_at is not None
    assert found.not_bought_at is not None
    again = Asking(loaded, "b200-sxm", plan=plan)
    assert again.at(found.bought_at.usd_per_hour * 0.98).count > 0
    assert again.at(found.not_bought_at.usd_per_hour * 1.02).count == 0
