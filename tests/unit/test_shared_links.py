"""Links that groups share: what they carry, who contends, and what the program may put on them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from planner.errors import InputError
from planner.milp import choose
from planner.milp.links import Links
from planner.milp.relax import NoFleetError
from planner.simulation.draw import Traffic
from planner.simulation.group import serve_groups
from planner.simulation.shared_links import LinkCluster, cells_of, dealt
from planner.topology import bytes_per_s_out, place_at, ways_between, within_island
from tests.instances import two_by_two, two_ways
from tests.topologies import domain, shape, topology
from tests.unit.test_groups import DECODE, MS, S, group, traffic

# -- topology -----------------------------------------------------------------------------------


def test_ways_meet_at_the_nearest_common_place_and_cross_every_link_below_it():
    t = topology(domain("a", "r1", 8, 8), domain("a", "r2", 8), domain("b", "r1", 8))
    ways = ways_between(t, "h100-sxm", "h100-sxm")
    assert list(ways) == ["rack", "zone", "region"]
    assert [w.id for w in ways["rack"]] == ["a.r1.h100-sxm:a.r1.h100-sxm"]  # one node is no rack
    there = next(w for w in ways["zone"] if w.source.rack == "r1")
    assert there.target.rack == "r2"
    levels = [(name.split(":")[0], name.split(":")[-1]) for name, _ in there.shared]
    assert levels == [("node", "out"), ("node", "in"), ("rack", "out"), ("rack", "in")]
    far = ways["region"][0]
    assert far.link.transport == "tcp"
    assert {name.split(":")[0] for name, _ in far.shared} == {"node", "rack", "zone"}
    for way in (there, far):
        for name, rate in way.shared:
            level, _, side = name.split(":")
            end = way.source if side == "out" else way.target
            assert rate == bytes_per_s_out(t, level, place_at(end, level))  # type: ignore[arg-type]


def test_two_sides_lie_in_a_scale_up_domain_only_where_one_has_so_many_free():
    t = topology(domain("a", "r1", 3, 5))
    assert within_island(t, "h100-sxm", 5) is not None
    assert within_island(t, "h100-sxm", 6) is None
    pairs = topology(domain("a", "r1", 8, of=shape(joined=4)))
    assert within_island(pairs, "h100-sxm", 5) is None


# -- the program --------------------------------------------------------------------------------


def chat(demand: float, **changes: object):
    """Chat alone on big units, each at most 8 req/s and then 4 GB/s over its way."""
    data = two_by_two(
        demand_rps={"chat": demand, "batch": 1e-6},
        promise={"chat": 0.95, "batch": 0.0},
        shed_limit={"batch": 1.0},
    )
    return dataclasses.replace(data, links=two_ways(**changes))


def test_units_take_the_ways_whose_links_carry_them():
    found = choose(chat(16.0), "min_cost")
    assert found.units["big"] == 2  # 16 req/s, 8 GB/s: a link of 6 GB/s does not carry both
    assert found.on["big", "there", ""] == found.on["big", "back", ""] == 1
    wide = choose(chat(16.0, carries=dict.fromkeys(("r1:out", "r1:in", "r2:out", "r2:in"), 8e9)),
                  "min_cost")  # fmt: skip
    assert wide.units["big"] == 2


def test_a_link_that_is_too_narrow_is_named_with_what_it_would_have_to_carry():
    narrow = dict.fromkeys(("r1:out", "r1:in", "r2:out", "r2:in"), 3.5e9)
    with pytest.raises(NoFleetError) as caught:
        choose(chat(16.0, carries=narrow), "min_cost")
    families = {s.family for s in caught.value.together}
    assert "links_carry_their_kv" in families
    # All 8 GB/s go out of one rack or the other, and into one or the other.
    out = sum(s.needs for s in caught.value.together if s.index[0].endswith("out")) + 3.5e9 * (
        2 - sum(s.index[0].endswith("out") for s in caught.value.together)
    )
    assert out == pytest.approx(8e9, rel=1e-3)


def test_sides_need_room_at_both_ends():
    tight = {("h100", "r1"): 2, ("h100", "r2"): 8}
    found = choose(chat(8.0, room=tight), "min_cost")
    assert ("big", "there", "") not in found.on  # three of the prefill side do not fit in rack 1
    with pytest.raises(NoFleetError):
        choose(chat(8.0, room={("h100", "r1"): 0, ("h100", "r2"): 8}), "min_cost")


def test_links_that_nobody_knows_are_refused_in_words():
    bad = two_ways(carries={"r1:out": 0.0}, sent={("big", "chat"): float("nan")})
    with pytest.raises(InputError) as caught:
        dataclasses.replace(two_by_two(), links=bad)
    text = str(caught.value)
    assert "links.carries[r1:out]: must be finite and above 0" in text
    assert "'r2:in' carries nothing that is known" in text
    assert "links.sent[('big', 'chat')]: must be finite and at least 0" in text


def test_without_links_the_program_is_as_it_was():
    links = Links({}, {}, {}, {}, {}, {})
    plain, with_none = two_by_two(), dataclasses.replace(two_by_two(), links=links)
    assert choose(plain, "min_cost").units == choose(with_none, "min_cost").units


# -- simulation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "together", "channels"), [(1.0, 3, 1), (2.5, 3, 3), (9.0, 3, 3), (0.5, 2, 1)]
)
def test_a_shared_link_carries_no_more_than_it_can_and_no_transfer_is_faster_than_alone(
    capacity, together, channels
):
    (cell,) = cells_of((LinkCluster(together, 1.0, together, capacity),))
    assert cell.channels == channels
    assert cell.pace <= 1
    assert cell.pace * cell.channels == pytest.approx(min(capacity, together))


def test_of_many_groups_on_a_link_a_part_stands_for_all_on_as_large_a_part_of_it():
    (cell,) = cells_of((LinkCluster(32, 1.0, 32, 16.0),))
    assert cell.groups == 8
    assert cell.pace * cell.channels == pytest.approx(16 * 8 / 32)
    assert cell.weight == 1 / 32


def test_requests_are_dealt_by_weight_and_in_turn_where_weights_are_equal():
    even = cells_of((LinkCluster(3, 1.0),))
    assert dealt(even, 7).tolist() == [0, 1, 2, 0, 1, 2, 0]
    uneven = cells_of((LinkCluster(1, 0.75), LinkCluster(1, 0.25)))
    counts = np.bincount(dealt(uneven, 1000))
    assert counts.tolist() == [750, 250]


def test_transfers_of_groups_on_one_link_wait_for_each_other_and_of_others_do_not():
    """Two requests at once, one a group: alone each KV takes 3 + 5 ms, on one link the second
    comes 3 ms later."""
    both = traffic([0, 0], 1000, 2)
    apart = serve_groups(group(), DECODE, both, 2, "round_robin")
    assert apart.first_token_ps[0] == apart.first_token_ps[1]
    shared = group(clusters=(LinkCluster(2, 1.0, 2, 1.0),))
    found = serve_groups(shared, DECODE, both, 2, "round_robin")
    wait = found.first_token_ps - apart.first_token_ps
    assert wait[0] == 0
    assert wait[1] == 3 * MS
    wide = group(clusters=(LinkCluster(2, 1.0, 2, 2.0),))
    free = serve_groups(wide, DECODE, both, 2, "round_robin")
    assert (free.first_token_ps == apart.first_token_ps).all()


def test_the_link_carries_what_comes_and_queues_as_a_single_server_does():
    """Poisson transfers of equal length on a shared link: the mean wait of M/D/1 is
    rho / (2 (1 - rho)) service times (Pollaczek and Khinchine)."""
    rng = np.random.default_rng(3)
    n, load = 40_000, 0.7
    service_s = 0.1
    arrival = np.cumsum(rng.exponential(service_s / load, n) * S).astype(np.int64)
    full = np.zeros(n, np.int32)
    quick = group(
        link_ps_per_token=round(service_s * S / 100),
        link_latency_ps=0,
        hop_ps=0,
        clusters=(LinkCluster(4, 1.0, 4, 1.0),),
    )
    served = serve_groups(
        quick, DECODE, Traffic(arrival, full, full + 100, full + 2), 4, "round_robin", stages=True
    )
    assert served.stages is not None
    wait = served.stages.transfer_wait[n // 10 :].mean() / S
    assert wait == pytest.approx(service_s * load / (2 * (1 - load)), rel=0.1)
    assert sum(served.tokens_per_s) == pytest.approx(100 * load / service_s, rel=0.02)
