"""Sessions: prompts that hold their history, and the names of blocks that repeat."""

import numpy as np
import pytest

from planner.measurements.request_trace import PrefixBlocks
from planner.problem.arrivals import PoissonArrivals, ReplayArrivals, SessionArrivals
from planner.problem.lengths import SessionLengths
from planner.problem.prefixes import HistoryPrefixes, TracePrefixes
from planner.simulation.arrivals import make_stream
from planner.simulation.draw import Draws
from planner.simulation.lengths import draw_lengths, longest_request
from planner.simulation.prefixes import of_trace, ragged
from planner.simulation.sessions import grow, turn_counts
from tests.problems import fixed, spread


def lengths(turns=4.0, system=100, context=10**6, law=None):
    return SessionLengths(law or fixed(20, 30), turns, 1_000, system, context)


def ints(*values):
    return np.array(values, np.int32)


def test_a_prompt_holds_what_was_said_before():
    """System 100; texts 1 2 3 with answers 10 20 30, then a session of its own."""
    turns = grow(lengths(), np.array([3, 1]), (ints(1, 2, 3, 7), ints(10, 20, 30, 5)))
    assert turns.prompt.tolist() == [101, 113, 136, 107]
    assert turns.session.tolist() == [0, 0, 0, 1]
    assert turns.whole.all()


def test_what_does_not_fit_is_cut_from_the_history():
    law = lengths(context=120)
    turns = grow(law, np.array([3]), (ints(1, 2, 3), ints(10, 20, 200)))
    assert turns.prompt.tolist() == [101, 100, 1]
    assert turns.output.tolist() == [10, 20, 119]
    assert turns.whole.tolist() == [True, False, False]


@pytest.mark.parametrize("mean", [1.0, 2.5, 12.0])
def test_numbers_of_turns_are_geometric(mean):
    """P(at least k) = (1 - 1/mean)^(k-1)."""
    counts = turn_counts(lengths(turns=mean), 40_000, np.random.default_rng(0))
    assert counts.mean() == pytest.approx(mean, rel=0.01)
    for k in (2, 3, 6):
        assert (counts >= k).mean() == pytest.approx((1 - 1 / mean) ** (k - 1), abs=1e-3)


def test_the_mean_prompt_of_geometric_sessions():
    """Before a turn drawn at random there are mean - 1 others in the mean: 100 + 20 + 3 x 50."""
    prompt, output = draw_lengths(lengths(), 60_000, np.random.default_rng(0))
    assert prompt.mean() == pytest.approx(100 + 20 + 3 * 50, rel=0.02)
    assert set(output) == {30}
    assert longest_request(lengths(context=500)) == 500


@pytest.mark.parametrize("rate", [2.0, 20.0])
def test_turns_come_at_their_rate_and_follow_each_other(rate):
    law = SessionArrivals(20.0, 30.0, 1.0, lengths(law=spread(40, 60, 1.0)))
    found = make_stream(law, 40_000, (1,)).at(rate)
    assert found.time_s.size == 40_000
    assert found.time_s.size / found.time_s[-1] == pytest.approx(rate, rel=0.03)
    assert (np.diff(found.time_s) >= 0).all()
    early, late = found.lengths[0][:8_000].mean(), found.lengths[0][-8_000:].mean()
    assert early == pytest.approx(late, rel=0.1)  # sessions are under way from the first moment


def test_draws_name_blocks_only_if_asked_and_only_of_workloads_that_have_a_prefix():
    law = SessionArrivals(20.0, 30.0, 1.0, lengths())

    def draw(*prefixes):
        draws = Draws((lengths(), fixed(5, 5)), 1, (law, PoissonArrivals(5.0)), prefixes)
        return draws.get((20.0, 5.0), 4_000, 0, 0)

    assert draw(HistoryPrefixes(), None).at(25.0).prefix is None
    assert draw(None, None).at(25.0, block_tokens=16).prefix is None
    traffic = draw(HistoryPrefixes(), None).at(25.0, block_tokens=16)
    mine = traffic.workload == 0
    assert (traffic.prefix.count[~mine] == 0).all()
    assert (traffic.prefix.count[mine] <= traffic.prompt[mine] // 16).all()
    # Of 270 tokens in the mean the last turn held all but 20 + 30: far most blocks repeat.
    assert traffic.prefix.count[mine].sum() > 0.6 * (traffic.prompt[mine] // 16).sum()


def test_turns_of_a_session_bear_the_same_names_at_any_rate():
    law = SessionArrivals(20.0, 30.0, 1.0, lengths())
    for rate in (5.0, 20.0):
        found = make_stream(law, 4_000, (3,)).at(rate, block_tokens=16)
        named = found.prefix
        system = named.name[named.start[0] : named.start[0] + 6]
        assert all(
            np.array_equal(named.name[a : a + 6], system) for a in named.start[named.count >= 6]
        )
        longest = {}
        for a, n in zip(named.start.tolist(), named.count.tolist(), strict=True):
            longest[a] = max(n, longest.get(a, 0))
        own = [named.name[a + 6 : a + n] for a, n in longest.items()]
        every = np.concatenate(own)
        assert np.unique(every).size == every.size  # no two sessions share more than the system


# -- names by hand -----------------------------------------------------------------------------

TRACE = PrefixBlocks(np.array([0, 2, 5, 6]), ints(0, 1, 0, 1, 2, 0), 512)


def test_rows_are_picked_in_any_order():
    assert ragged(np.array([5, 0, 2]), np.array([1, 2, 0])).tolist() == [5, 0, 1]


def test_another_time_through_a_trace_shares_only_what_most_requests_share():
    """Block 0 is in all four requests, block 1 in two of them, blocks 2 and 3 in one: unnamed."""
    trace = PrefixBlocks(np.arange(5) * 2, ints(0, 1, 0, 1, 0, 2, 0, 3), 512)
    again = of_trace(trace, np.array([0, 1, 0, 2]), np.array([0, 1, 1, 1]))
    assert again.count.tolist() == [2, 2, 2, 1]
    rows = [again.name[a : a + 2].tolist() for a in again.start]
    assert rows[0][0] == rows[1][0] == rows[2][0] == rows[3][0]
    assert rows[1] == rows[2] != rows[0]


def test_a_replayed_trace_carries_its_blocks():
    times = np.array([0.0, 1.0, 2.0])
    one = ints(1024, 1536, 512), ints(1, 1, 1)
    law = ReplayArrivals(1.0, times, 3.0, one, prefix=TRACE)
    found = make_stream(law, 3, (0,)).at(1.0, block_tokens=512)
    shared = np.minimum(found.lengths[0] // 512, 2)  # nobody else begins with the third block
    assert found.prefix.count.tolist() == shared.tolist()
    assert make_stream(law, 3, (0,)).at(1.0).prefix is None
    draws = Draws((fixed(9, 9),), 1, (law,), (TracePrefixes(512),))
    traffic = draws.get((1.0,), 3, 0, 0).at(1.0, block_tokens=512)
    assert sorted(traffic.prefix.count.tolist()) == [1, 2, 2]
