"""Whatever a file holds, a reader returns requests or says in one line what is wrong."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.measurements.client_sets import read_client_set, sample_requests
from planner.measurements.rate_series import read_rate_series
from planner.measurements.requests import read_requests
from planner.measurements.scrapes import is_scrape, read_scrape
from planner.problem.demand import read_trace
from planner.profiles.fit import fit_workload
from planner.profiles.marginal_profile import profile_scrape
from planner.profiles.profile import profile_trace

quiet = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
values = st.one_of(
    st.sampled_from(["", "0", "1", "17", "4096", "-1", "1e3", "nan", "inf", "2024-01-01 00:00:01"]),
    st.integers(-5, 10**8).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters='"\r\n,'), max_size=8),
)
numbers = st.integers(1, 10**5).map(str)


def check(trace):
    n = trace.prompt.size
    assert n > 0
    assert (trace.prompt >= 1).all()
    assert (trace.output >= 1).all()
    assert trace.failed.size == n
    if trace.time_s is not None:
        assert (np.diff(trace.spread_s()) >= 0).all()
        assert trace.span_s >= trace.spread_s()[-1] * (1 - 1e-9) or n < 2
    profile = profile_trace(trace, "x")
    assert sum(map(sum, profile.heat.counts)) == n
    return profile


@quiet
@given(rows=st.lists(st.tuples(values, values, values, values), max_size=6))
def test_any_table(tmp_path, rows):
    path = tmp_path / "log.csv"
    lines = ["timestamp,prompt_tokens,output_tokens,status", *map(",".join, rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        check(read_requests(path))
    except InputError as error:
        assert "\n" not in str(error)


@settings(quiet, max_examples=12)
@given(rows=st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=40))
def test_any_sound_log_is_profiled_and_fitted(tmp_path, rows):
    path = tmp_path / "log.csv"
    lines = ["ts,prompt_tokens,output_tokens", *map(",".join, rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trace = read_requests(path)
    profile = check(trace)
    found = fit_workload(trace, profile)
    assert (found.arrivals is None) == (profile.arrivals is None)


@quiet
@given(data=st.binary(max_size=200), ending=st.sampled_from([".csv", ".jsonl", ".csv.gz", ".json"]))
def test_any_bytes(tmp_path, data, ending):
    path = tmp_path / f"log{ending}"
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_requests(path)
    with pytest.raises(InputError):
        read_rate_series(path, ("a", "b"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@quiet
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"timestamp": json_values, "input_length": json_values, "output_length": json_values},
            optional={"hash_ids": st.lists(st.integers()) | json_values},
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_objects(tmp_path, rows):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    try:
        check(read_requests(path))
    except InputError as error:
        assert "\n" not in str(error)


@quiet
@given(trace=st.text(max_size=60) | st.just("0,1,1,Gamma,1,1\n"), lengths=json_values)
def test_any_client_set(tmp_path, trace, lengths):
    path = tmp_path / "set.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (
            ("chunk-0-trace.csv", trace),
            ("chunk-0-dataset.json", json.dumps({"0": {"input_tokens": lengths}})),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    with pytest.raises(InputError):
        sample_requests(read_client_set(path), 0)


SPANS = Path(__file__).parents[1] / "data" / "measurements" / "spans.json"
SCRAPE = Path(__file__).parents[1] / "data" / "measurements" / "vllm.prom"
odd = st.sampled_from(
    ["", "null", "-1", "1e999", "NaN", '"x"', "[]", "{}", "9" * 5_000, "true", "\0", "1e300", "5.5"]
)


def spoilt(source, at, value):
    """Replace one word of a text."""
    words = re.split(r"([\s,:{}\[\]=]+)", source.read_text())
    words[2 * (at % ((len(words) + 1) // 2))] = value
    return "".join(words)


@quiet
@given(at=st.integers(0, 10**4), value=odd)
def test_any_word_of_spans(tmp_path, at, value):
    path = tmp_path / "spans.json"
    path.write_text(spoilt(SPANS, at, value))
    try:
        check(read_trace(path))
    except InputError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)


@quiet
@given(at=st.integers(0, 10**4), value=odd, again=st.integers(0, 10**4))
def test_any_words_of_a_scrape(tmp_path, at, value, again):
    path = tmp_path / "now.prom"
    path.write_text(spoilt(SCRAPE, at, value))
    path.write_text(spoilt(path, again, value))
    try:
        if is_scrape(path):
            profile = profile_scrape(read_scrape(path), "x").profile
            assert -1 <= profile.correlation.low <= 0 <= profile.correlation.high <= 1
            for one in (profile.mean_product, profile.kv_token_steps):
                assert 0 < one.low <= one.independent * (1 + 1e-9)
                assert one.independent <= one.high * (1 + 1e-9)
    except InputError as error:
        assert "\n" not in str(error)
