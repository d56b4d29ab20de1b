"""Sessions: prompts that hold their history, and the names of blocks that repeat."""

import numpy as np
import pytest

from planner.measurements.request_trace import PrefixBlocks
from planner.problem.arrivals import PoissonArrivals, ReplayArrivals, SessionArrivals
from planner.problem.lengths import SessionLengths
from planner.profiles.profile import prefix_reuse
from planner.simulation.arrivals import make_stream
from planner.simulation.draw import Draws
from planner.simulation.lengths import draw_lengths, longest_request
from planner.simulation.prefixes import join, ragged, replayed, session_blocks, take
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


def test_a_turn_finds_the_blocks_of_the_turn_before():
    """Blocks of 10: system 2; 50 tokens are 5 names, 80 tokens share them and add 3."""
    blocks = session_blocks(
        np.array([0, 1, 0, 1]), ints(50, 30, 80, 39), np.array([True] * 4), 25, 10
    )
    names = [
        set(blocks.name[a:b].tolist()) for a, b in zip(blocks.start, blocks.start[1:], strict=False)
    ]
    assert [len(n) for n in names] == [5, 3, 8, 3]
    assert names[0] < names[2]
    assert names[1] == names[3]
    assert len(names[0] & names[1]) == 2  # the system prompt's whole blocks
    assert sorted(set(blocks.name.tolist())) == list(range(8 + 1))


def test_a_history_that_was_cut_is_found_no_more():
    blocks = session_blocks(np.array([0, 0]), ints(50, 50), np.array([True, False]), 20, 10)
    assert len(set(blocks.name[:5].tolist()) & set(blocks.name[5:].tolist())) == 2


def test_draws_name_blocks_only_if_asked():
    law = SessionArrivals(20.0, 30.0, 1.0, lengths())
    draw = Draws((lengths(), fixed(5, 5)), 1, (law, PoissonArrivals(5.0))).get(
        (20.0, 5.0), 4_000, 0, 0
    )
    assert draw.at(25.0).prefix is None
    traffic = draw.at(25.0, prefixes=True)
    held = np.diff(traffic.prefix.start)
    assert held.size == traffic.prompt.size
    assert np.array_equal(held, np.where(traffic.workload == 0, traffic.prompt // 16, 0))
    # Of 270 tokens in the mean the last turn held all but 20 + 30: far most blocks repeat.
    assert prefix_reuse(traffic.prefix).hit_share > 0.6


# -- names by hand -----------------------------------------------------------------------------

TRACE = PrefixBlocks(np.array([0, 2, 5, 6]), ints(0, 1, 0, 1, 2, 0), 512)


def test_rows_are_picked_in_any_order():
    assert ragged(TRACE.start, np.array([2, 0, 2])).tolist() == [5, 0, 1, 5]
    taken = take(TRACE, np.array([1, 0]))
    assert taken.start.tolist() == [0, 3, 5]
    assert taken.name.tolist() == [0, 1, 2, 0, 1]


def test_another_time_through_a_trace_shares_only_what_most_requests_share():
    """Block 0 is in three of three requests, block 1 in two of three, block 2 in one."""
    again = replayed(TRACE, np.array([1, 1]), np.array([0, 1]))
    assert again.name.tolist() == [0, 1, 2, 0, 1, 3]


def test_streams_share_no_names():
    both = join((TRACE, None, TRACE), (3, 2, 3))
    assert both.start.tolist() == [0, 2, 5, 6, 6, 6, 8, 11, 12]
    assert set(both.name[:6].tolist()) & set(both.name[6:].tolist()) == set()
    assert join((None,), (3,)) is None


def test_a_replayed_trace_carries_its_blocks():
    times = np.array([0.0, 1.0, 2.0])
    one = ints(1024, 1536, 512), ints(1, 1, 1)
    law = ReplayArrivals(1.0, times, 3.0, one, prefix=TRACE)
    found = make_stream(law, 3, (0,)).at(1.0, prefixes=True)
    assert np.diff(found.prefix.start).tolist() == (found.lengths[0] // 512).tolist()
    assert make_stream(law, 3, (0,)).at(1.0).prefix is None
