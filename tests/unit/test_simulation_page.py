"""The page of laws names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "simulation.md"
DEFINED = {
    name
    for path in TESTS.rglob("test_*.py")
    for name in re.findall(r"^def test_(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def _named():
    """Every test that a line of evidence (it begins with a dash) names, ``…`` for any ending."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("— "):
            for quoted in re.findall(r"`([^`]+)`", line):
                for name in re.split(r"[ ,]+", quoted):
                    if re.fullmatch(r"[a-z][a-z0-9_]*…?", name):
                        yield name


@pytest.mark.parametrize("name", sorted(set(_named())))
def test_a_named_test_exists(name):
    start = name.removesuffix("…")
    found = [
        test for test in DEFINED if test == start or (name != start and test.startswith(start))
    ]
    assert found, f"docs/simulation.md names test_{name}"


def test_the_laws_are_numbered_without_gaps():
    numbers = [int(n) for n in re.findall(r"\*\*SIM-(\d+)", PAGE.read_text(encoding="utf-8"))]
    assert numbers == list(range(1, len(numbers) + 1))
