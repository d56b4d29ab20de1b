"""The name of an operating point: any change of anything it depends on changes it."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.kernels import Law, Limits
from planner.measurements.request_trace import PrefixBlocks
from planner.problem import arrivals, lengths, prefixes
from planner.problem.deadlines import Deadlines
from planner.simulation import point_key as point_key_module
from planner.simulation.cached_pool import PrefixCache
from planner.simulation.content_key import content_key
from planner.simulation.draw import Draws
from planner.simulation.group import GroupSetup
from planner.simulation.point_key import meaning_of_numbers, point_key
from planner.simulation.pool import PoolSetup

if TYPE_CHECKING:
    from collections.abc import Iterator

Path_ = tuple[Any, ...]

# -- questions with every kind of part ------------------------------------------------------

whole = st.integers(1, 10**6)
real = st.floats(0.01, 1e4)
row = st.lists(whole, min_size=1, max_size=4).map(lambda n: np.array(n, np.int64))

laws = st.builds(Law, row, whole, whole, whole, whole)
limits = st.builds(Limits, whole, whole, whole, whole, st.booleans(), whole)
groups = st.builds(
    GroupSetup, laws, limits, whole, whole, whole, whole, whole, st.sampled_from(["fifo", "fair"])
)
caches = st.builds(PrefixCache, whole, st.none() | whole)
setups = st.builds(
    PoolSetup,
    laws,
    limits,
    whole,
    st.sampled_from(["round_robin", "least_outstanding"]),
    st.none() | caches,
    whole,
    st.none() | st.tuples(whole, whole),
    st.none() | groups,
    whole,
    whole,
)
deadlines = st.builds(
    Deadlines,
    row,
    row,
    row,
    st.none() | row,
    st.none() | st.tuples(st.tuples(row, row), st.tuples(row, row)),
    st.none() | row,
)

marginals = st.one_of(
    st.builds(lengths.LengthMarginal, real, real),
    st.builds(lengths.GammaLength, real, real),
    st.builds(lengths.ParetoLength, real, real, real),
    st.builds(lengths.ZipfLength, whole, whole, real),
    st.builds(lengths.UniformLength, whole, whole),
)
marginals |= st.builds(lengths.MixedLength, st.tuples(marginals, marginals), st.tuples(real, real))
cells = st.builds(
    lengths.JointLengths,
    row,
    row,
    row,
    row,
    st.lists(real, min_size=1, max_size=3).map(np.array),
)
length_laws = cells | st.builds(lengths.IndependentLengths, marginals, marginals, real)
length_laws |= st.builds(lengths.CutLengths, length_laws, whole)
length_laws |= st.builds(
    lengths.MixedLengths, st.tuples(length_laws, length_laws), st.tuples(real, real)
)
sessions = st.builds(lengths.SessionLengths, length_laws, real, whole, whole, whole)
times = st.lists(real, min_size=1, max_size=3).map(np.array)
blocks = st.builds(PrefixBlocks, row, row.map(lambda a: a.astype(np.int32)), whole)
tokens = row.map(lambda a: a.astype(np.int32))
arrival_laws = st.one_of(
    st.builds(arrivals.PoissonArrivals, real),
    st.builds(arrivals.RenewalArrivals, real, real, st.sampled_from(["gamma", "weibull"])),
    st.builds(arrivals.BurstArrivals, real, real, real, real, whole),
    st.builds(
        arrivals.ReplayArrivals,
        real,
        times,
        real,
        st.none() | st.tuples(tokens, tokens),
        st.booleans(),
        st.none() | blocks,
    ),
    st.builds(arrivals.SessionArrivals, real, real, real, sessions),
    st.builds(arrivals.UserArrivals, real, real, real, real),
)
prefix_laws = st.none() | st.one_of(
    st.builds(prefixes.TracePrefixes, whole),
    st.builds(prefixes.HistoryPrefixes),
    st.builds(prefixes.SharedPrefixes, whole, whole, whole, real, real),
    st.builds(prefixes.ConstantHits, real),
)


def pairs(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(of, of)


requests = st.tuples(
    pairs(length_laws | sessions),
    st.integers(0, 2**32 - 1),
    pairs(arrival_laws),
    pairs(prefix_laws),
    pairs(st.floats(1, 100)),
    whole,
    st.integers(0, 40),
    st.integers(0, 16),
)
questions = st.tuples(st.binary(min_size=24, max_size=24), setups, requests, real, deadlines)


def key_of(question: tuple[Any, ...]) -> bytes:
    meaning, setup, recipe, rate, due = question
    laws_, seed, arrivals_, prefixes_, mix, n, replication, stream = recipe
    name = Draws(laws_, seed, arrivals_, prefixes_).name_of(mix, n, replication, stream)
    return point_key(meaning, setup, name, rate, due)


# -- changing one part ----------------------------------------------------------------------


def parts(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Name every part of a value that can be changed by itself."""
    if isinstance(value, arrivals.PoissonArrivals):
        return  # its rate is that of the run
    if isinstance(value, tuple):
        for i, one in enumerate(value):
            yield from parts(one, (*path, i))
    elif is_dataclass(value):
        for field in fields(value):
            yield from parts(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, np.ndarray):
        for i in range(value.size):
            yield (*path, ("cell", i))
        yield (*path, "longer")
    else:
        yield path


def changed(value: Any, path: Path_) -> Any:
    """Return the value with one part changed, by as little as there is."""
    if not path:
        return another(value)
    at, rest = path[0], path[1:]
    if isinstance(value, np.ndarray):
        if at == "longer":
            return np.append(value, value[-1:])
        copy = value.copy()
        copy[at[1]] = another(value[at[1]].item())
        return copy
    if isinstance(value, tuple):
        parts_ = [changed(one, rest) if i == at else one for i, one in enumerate(value)]
        return type(value)(*parts_) if hasattr(value, "_fields") else tuple(parts_)
    return replace(value, **{at: changed(getattr(value, at), rest)})


def another(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return float(np.nextafter(value, np.inf))
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    return value + "x"


@given(questions, st.data())
def test_any_change_of_any_part_changes_the_name(question, data):
    path = data.draw(st.sampled_from(list(parts(question))))
    if path[:2] == (2, 4):  # proportions count to 1e-12: a whole change
        mix = list(question[2][4])
        mix[path[2]] *= 1.5
        other = (*question[:2], (*question[2][:4], tuple(mix), *question[2][5:]), *question[3:])
    else:
        other = changed(question, path)
    assert key_of(other) != key_of(question)


@given(questions)
def test_equal_content_has_one_name_wherever_it_came_from(question):
    assert key_of(pickle.loads(pickle.dumps(question))) == key_of(question)


@given(questions, st.floats(0.5, 2))
def test_only_the_proportions_of_a_mix_count_and_poisson_rates_do_not(question, times_):
    laws_, seed, laws_of_arrival, *rest = question[2]
    faster = tuple(
        arrivals.PoissonArrivals(a.rate_rps * times_)
        if isinstance(a, arrivals.PoissonArrivals)
        else a
        for a in laws_of_arrival
    )
    rest[1] = tuple(4 * rate for rate in rest[1])
    other = (*question[:2], (laws_, seed, faster, *rest), *question[3:])
    assert key_of(other) == key_of(question)


@given(
    st.lists(st.text(max_size=3) | st.binary(max_size=3) | st.integers(0, 3) | st.none()),
    st.lists(st.text(max_size=3) | st.binary(max_size=3) | st.integers(0, 3) | st.none()),
)
def test_values_that_differ_never_read_alike(one, two):
    same = [(type(a), a) for a in one] == [(type(b), b) for b in two]
    assert (content_key(*one) == content_key(*two)) is same
    assert (content_key(tuple(one)) == content_key(tuple(two))) is same


def test_kinds_of_numbers_and_nesting_are_told_apart():
    values = [1, 1.0, True, "1", b"1", None, (1,), ((1,),), (), np.array([1]), np.array([1.0])]
    values += [np.array([1], np.int32), np.array([[1]]), ("ab",), ("a", "b"), 0.0, -0.0]
    assert len({content_key(value) for value in values}) == len(values)


def test_what_has_no_content_to_name_is_refused():
    with pytest.raises(TypeError, match="no name for a value of set"):
        content_key({1, 2})


def test_a_change_of_the_sources_changes_what_numbers_mean(monkeypatch, tmp_path):
    for name in point_key_module.MEANING:
        place = tmp_path / name
        place = place if place.suffix else place / "module.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("NUMBER = 1\n")
    monkeypatch.setattr(point_key_module, "_PACKAGE", tmp_path)
    meaning = meaning_of_numbers.__wrapped__
    before = meaning()
    assert meaning() == before
    (tmp_path / "kernels" / "module.py").write_text("NUMBER = 2\n")
    assert meaning() != before
    (tmp_path / "kernels" / "module.py").write_text("NUMBER = 1\n")
    assert meaning() == before
    (tmp_path / "kernels" / "native.cpp").write_text("")
    assert meaning() != before


def test_what_numbers_mean_is_not_told_without_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(point_key_module, "_PACKAGE", tmp_path)
    with pytest.raises(OSError, match="the sources are not there"):
        meaning_of_numbers.__wrapped__()
