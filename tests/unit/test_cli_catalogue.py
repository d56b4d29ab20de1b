"""``planner catalogue``: tables within 100 columns, JSON of the same facts, exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from planner.cli.catalogue import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


COMMANDS = [
    ("list",),
    ("list", "accelerators"),
    ("list", "llms"),
    ("list", "step-laws"),
    ("list", "prices"),
    ("list", "lengths"),
    ("show", "gpt-oss-120b.mxfp4.h200-sxm.vllm.tp2.ep2"),
    ("show", "azure-code-2023"),
    ("prices", "--accelerator", "h100_sxm", "--term", "spot"),
    ("curves", "--model", "deepseek-v3.1", "--engine", "vllm"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_tables_fit_100_columns_and_json_holds_as_many_rows(arguments: tuple[str, ...]) -> None:
    table, data = run(*arguments), run(*arguments, "--json")
    assert table.exit_code == data.exit_code == 0
    assert max(map(len, table.stdout.splitlines())) <= 100
    rows = json.loads(data.stdout)
    assert len(table.stdout.splitlines()) > len(rows) > 0


def test_a_list_tells_how_much_there_is() -> None:
    rows = json.loads(run("list", "--json").stdout)
    assert {r["kind"]: r["entries"] for r in rows} == {
        "accelerators": 25,
        "nodes": 90,
        "llms": 87,
        "step-laws": 424,
        "prices": 1536,
        "lengths": 2,
    }


@pytest.mark.parametrize("name", ["h100_sxm", "Qwen/Qwen3-32B"])
def test_show_prints_the_entry_as_written_or_as_json(name: str) -> None:
    written, data = run("show", name), run("show", name, "--json")
    assert "source: " in written.stdout
    shown = json.loads(data.stdout)["id"]
    assert f"id: {shown}\n" in written.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "h100-sxn"), "did you mean 'h100-sxm'"),
        (("show", "h100"), "h100-pcie or h100-sxm"),
        (("list", "llm"), "did you mean 'llms'"),
        (("prices", "--accelerator", "h200-sxn"), "did you mean 'h200-sxm'"),
        (("curves", "--model", "llama-3.1-71b"), "did you mean 'llama-3.1-70b'"),
        (("curves", "--model", "qwen3-8b"), "there are those of deepseek-r1"),
        (("curves", "--model", "qwen3-32b", "--accelerator", "mi300x"), "those on a100-80g-sxm"),
        (
            ("curves", "--model", "llama-3.1-8b", "--accelerator", "l40s", "--precision", "fp8"),
            "there are sglang bf16, trtllm bf16, vllm bf16",
        ),
    ],
)
def test_what_is_not_there_exits_2_with_a_hint(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""


def test_curves_keep_provenance_off_the_table_and_on_stderr() -> None:
    result = run("curves", "--model", "llama-3.1-8b", "--accelerator", "l40s")
    assert "13 %" in result.stderr
    assert "NVIDIA" in result.stderr
    data = json.loads(
        run("curves", "--model", "llama-3.1-8b", "--accelerator", "l40s", "--json").stdout
    )
    assert {row["tp_degree"] for row in data} == {1, 2, 4, 8}
    assert all("13 %" in row["caveat"] for row in data)


def test_cheapest_comes_first() -> None:
    rows = json.loads(run("prices", "--accelerator", "l4", "--json").stdout)
    usd = [row["usd_per_accelerator_hour"] for row in rows]
    assert usd == sorted(usd)
    assert {"instance", "source", "note"} <= set(rows[0])


def test_importing_the_commands_loads_nothing_heavy() -> None:
    code = (
        "import sys, planner.cli.catalogue; "
        "print([m for m in ('numpy', 'pydantic', 'yaml', 'rich.table') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
