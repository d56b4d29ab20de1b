"""Plans that a hand has changed: each mistake in its place, and no answer about another fleet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.cli import main
from planner.errors import InputError
from planner.fleet import read_plan
from planner.planning.own_fields import FIELDS, require_own_fields
from planner.spec import dump_json
from tests.plans import plan


def changed(tmp_path, *changes: tuple[str, str]) -> tuple[Any, list[str]]:
    """Write a plan with values replaced by JSON text; return its path and its lines."""
    document = json.loads(dump_json(plan()))
    for n, (where, _) in enumerate(changes):
        *way, last = [int(k) if k.isdigit() else k for k in where.split(".")]
        at = document
        for key in way:
            at = at[key]
        assert last in at if isinstance(at, dict) else last < len(at)
        at[last] = f"@{n}@"
    text = json.dumps(document, indent=2)
    for n, (_, value) in enumerate(changes):
        text = text.replace(f'"@{n}@"', value)
    path = tmp_path / "plan.json"
    path.write_text(text)
    return path, text.splitlines()


@pytest.mark.parametrize(
    ("where", "value", "what"),
    [
        ("seed", "-1", "must be at least 0; got -1"),
        ("seed", "4294967296", "must be below 4,294,967,296; got 4294967296"),
        ("seed", "9" * 30, "must be between -9,007,199,254,740,991 and 9,007,199,254,740,991"),
        ("seed", "9" * 5000, "must be between -9,007,199,254,740,991 and 9,007,199,254,740,991"),
        ("seed", "true", "expected a whole number; got true"),
        ("seed", '"1"', "expected a whole number; got '1'"),
        ("pools.0.tp_degree", "0", "must be at least 1; got 0"),
        ("pools.0.max_num_seqs", "1e400", "it is beyond all numbers; write a finite one"),
        ("pools.0.kv_tokens", "-5", "must be at least 0; got -5"),
        ("totals.accelerators", "-1", "must be at least 0; got -1"),
        ("totals.cost_usd_per_hour", "1e400", "it is beyond all numbers; write a finite one"),
        ("totals.cost_usd_per_hour", "NaN", "NaN is no number; write a finite one"),
        ("totals.cost_usd_per_hour", "-Infinity", "it is beyond all numbers; write a finite one"),
        ("totals.cost_usd_per_hour", '"free"', "expected a number; got 'free'"),
        ("pools", "5", "expected a list; got 5"),
    ],
)
def test_a_wrong_value_is_told_at_its_line_with_a_remedy(where, value, what, tmp_path, capsys):
    path, lines = changed(tmp_path, (where, value))
    assert main(["explain", str(path)]) == 2
    told = capsys.readouterr().err
    place, _, rest = told.partition(f": {where}: ")
    assert rest == f"{what}\n"
    key = where.rpartition(".")[2]
    assert lines[int(place.split(":")[-2]) - 1].lstrip().startswith(f'"{key}":')


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path):
    path, _ = changed(
        tmp_path,
        ("seed", "-1"),
        ("totals.cost_usd_per_hour", "NaN"),
        ("pools.0.tp_degree", "0"),
        ("pools.0.block_size", "9" * 40),
    )
    with pytest.raises(InputError) as error:
        read_plan(path)
    paths = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert paths == ["seed", "totals.cost_usd_per_hour", "pools.0.tp_degree", "pools.0.block_size"]


def test_missing_and_unknown_keys_are_told_together(tmp_path):
    document = json.loads(dump_json(plan()))
    document["pools"][0]["tp_degre"] = document["pools"][0].pop("tp_degree")
    del document["seed"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        read_plan(path)
    assert "seed: is required; add it" in str(error.value)
    assert "pools.0.tp_degre: unknown key; did you mean 'tp_degree'" in str(error.value)


def test_a_zero_has_no_sign(tmp_path, capsys):
    path, _ = changed(tmp_path, ("totals.cost_usd_per_hour", "-0.0"), ("totals.mfu", "-0.0"))
    assert main(["compare", str(path), "rate=1,attainment=1,cost=1 USD/h", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["one"]["row"]
    assert (str(row["cost_usd_per_hour"]), str(row["mfu"])) == ("0.0", "0.0")


@pytest.mark.parametrize(
    ("key", "value"),
    [("accelerators", "5"), ("accelerators", "[5]"), ("policies", "[1]"), ("workloads", "{}")],
)
def test_a_broken_scenario_in_a_plan_is_bad_input(key, value, tmp_path, capsys):
    document = json.loads(dump_json(plan()))
    document["scenario"]["document"][key] = json.loads(value)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    assert main(["explain", str(path), "--why-not", "no-such.tp64"]) == 2
    assert f"the plan's scenario: {key}" in capsys.readouterr().err


class Layout:
    pp_degree = ep_degree = dp_degree = 1


class Curve:
    layout = Layout()


class Build:
    curve = Curve()

    def __init__(self, pool):
        for field in ("model", "accelerator", "precision", "tp_degree"):
            setattr(self, field, getattr(pool, field))
        self.max_num_seqs = pool.max_num_seqs
        self.max_num_batched_tokens = pool.max_num_batched_tokens


@pytest.mark.parametrize("field", FIELDS)
def test_a_pool_that_is_not_what_its_template_is_is_not_simulated(field):
    pool = plan().pools[0]
    require_own_fields([(pool, Build(pool), pool.replicas)])
    value = getattr(pool, field)
    other = pool.model_copy(update={field: value + 1 if isinstance(value, int) else "other"})
    with pytest.raises(InputError, match=rf"^pool {pool.id}: {field}: is .*plan again$"):
        require_own_fields([(other, Build(pool), pool.replicas)])
