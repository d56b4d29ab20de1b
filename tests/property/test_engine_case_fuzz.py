"""Damaged engine cases: served, or refused with a reason; nothing else."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.engine_case import differences, read_case, run_case
from tests.unit.test_engine_case import SINGLE, SPLIT

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from(
        [10**9, 2**61, 2**62, 2**63, -(2**70), 0.5, 1e300, "", "v0", "fifo", "ps", "priority"]
    ),
    st.sampled_from([[], {}, [[1, 2]], [0], {"id": 1}, "\u0000", "a" * 300]),
)


def places(node, at=()):
    """Every place in a JSON document, as a path."""
    yield at
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(child, (*at, key))


@st.composite
def damaged(draw):
    document = copy.deepcopy(draw(st.sampled_from([SINGLE, SPLIT])))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in places(document) if p] or [("x",)]))
        node = document
        for key in path[:-1]:
            node = node[key]
        how = draw(st.sampled_from(["replace", "delete", "add"]))
        if how == "replace" or isinstance(node, list):
            node[path[-1]] = copy.deepcopy(draw(odd))
        elif how == "delete":
            del node[path[-1]]
        else:
            extra = draw(st.sampled_from(["policy", "prefix", "watermark", "pp_degree", "z"]))
            node[extra] = copy.deepcopy(draw(odd))
    return document


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_a_damaged_case_is_served_or_refused_with_its_file_named(document):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        try:
            case = read_case(path)
            result = run_case(case, str(path))
        except InputError as error:
            for line in str(error).splitlines():
                assert line.startswith(str(path))
            return
        json.dumps(result, allow_nan=False)
        assert all(isinstance(line, str) for line in differences(case, result))
