"""What stands in the way reads as a sentence, whichever limit it is."""

from types import SimpleNamespace

import pytest

from planner.candidates.screen import KEEPS_AT_NO_LOAD
from planner.candidates.serve import Barrier
from planner.candidates.template import Removed
from planner.milp.relax import NoFleetError, Shortfall
from planner.planning.infeasible import explain_barriers, explain_limits
from planner.reporting.tables import stands_in_the_way
from planner.scenario.slo import Slo
from tests.problems import fixed, study

BUILD = SimpleNamespace(
    model="m",
    precision="bf16",
    accelerator="h100",
    tp_degree=2,
    hardware="h100.tp2.bf16",
    curve=SimpleNamespace(kv_dtype="bf16", row=SimpleNamespace(kv_dtype="bf16")),
)
DEMAND = SimpleNamespace(
    id="chat",
    model="m",
    precisions=("bf16",),
    kv_dtypes=None,
    adapters=None,
    slo=Slo(ttft=0.5, tpot=0.03, max_itl=0.05, attainment=0.95),
    llm=SimpleNamespace(id="model-m", max_context=8_192),
    network_s=0.0,
)
PROBLEM = SimpleNamespace(demands=(DEMAND,))
STUDY = study(fixed(100, 10), ttft_ms=(500,), tpot_ms=(30,), promise=(0.95,))


def sentences(builds=(), barriers=(), left_out=()):
    reasons = explain_barriers(PROBLEM, STUDY, [0], builds, barriers, left_out)
    return [stands_in_the_way(reason) for reason in reasons]


def removed(reason, name="h100.tp2.bf16.b2048.s64@chat", **numbers):
    return Removed(name, reason, numbers)


def test_no_load_at_all():
    left_out = [
        removed(KEEPS_AT_NO_LOAD),
        removed("the TPOT deadline allows no load at all"),
        removed("is of another workload", "h100.tp2.bf16.b2048.s64@batch"),
    ]
    assert sentences([BUILD], (), left_out) == [
        "chat: deadlines: has no template that keeps the promise at any load, needs one that does:"
        " h100.tp2.bf16.b2048.s64@chat: the TPOT deadline allows no load at all"
    ]
    assert sentences([BUILD], (), left_out[:1]) == [
        "chat: deadlines: has no template that keeps the promise at any load, needs one that does"
    ]


def test_no_build():
    left_out = [removed(f"does not fit by {i} GiB", f"h100.tp{i}.bf16") for i in range(1, 7)]
    assert sentences([], (), [*left_out, *left_out]) == [
        "chat: model-m in bf16: has no way to build a replica, needs one that can be built"
        " (h100.tp1.bf16: does not fit by 1 GiB; h100.tp2.bf16: does not fit by 2 GiB;"
        " h100.tp3.bf16: does not fit by 3 GiB; h100.tp4.bf16: does not fit by 4 GiB;"
        " and 2 more reasons)"
    ]
    assert sentences() == [
        "chat: model-m in bf16: has no way to build a replica, needs one that can be built"
        " (no accelerator has a curve for this model)"
    ]


def reached(attainment, ttft, tpot, max_itl=0.03):
    return SimpleNamespace(
        attainment=attainment,
        ttft_at_promise_s=ttft,
        tpot_at_promise_s=tpot,
        max_itl_at_promise_s=max_itl,
    )


def test_deadlines_that_an_empty_replica_misses():
    def slow(*best):
        return sentences([BUILD], [Barrier(BUILD, 0, "deadline", reached(*best), removed(""))])

    assert slow(0.2, 0.7, 0.02) == [
        "chat: ttft: has 500 ms, needs 700 ms: the fastest isolated prefill of 100 tokens takes"
        " 700 ms on h100 tp2"
    ]
    assert slow(0.2, 0.4, 0.05) == [
        "chat: tpot: has 30 ms, needs 50 ms: a lone request's output token takes 50 ms on h100 tp2"
    ]
    assert slow(0.2, 0.4, 0.02, 0.08) == [
        "chat: max_itl: has 50 ms, needs 80 ms: a lone request's last output token takes 80 ms on"
        " h100 tp2"
    ]
    assert slow(0.93456, 0.4, 0.02) == [
        "chat: all deadlines together: has a promise of 95 %, needs one of at most 93.45 %: an"
        " empty replica on h100 tp2 attains no more"
    ]


@pytest.mark.parametrize(
    ("short", "sentence", "remedy"),
    [
        (
            Shortfall("C6", "accelerators_are_held", ("h100",), 4.0, 6.0, "accelerators"),
            "stock of h100: has 4 accelerators, needs 6 accelerators",
            "a stock of 6 accelerators, alone",
        ),
        (
            Shortfall("C8", "budget_is_kept", (), 5.0, 8.97, "USD/h"),
            "limits.budget: has 5 USD/h, needs 8.97 USD/h",
            "a budget of 8.97 USD/h, alone",
        ),
        (
            Shortfall("C3", "the_promise_is_kept", ("chat",), 0.95, 0.9, "share of demand"),
            "chat: slo.attainment: has a promise of 95 %, needs one of at most 90 %",
            "an attainment of 0.9000, if fewer may meet their deadlines, alone",
        ),
        (
            Shortfall("C2", "every_request_is_offered", ("chat",), 1.0, 0.5, "share of demand"),
            "chat: load: has templates that carry at most 50 % of it beside the others', needs"
            " templates that carry all of it",
            "more kinds of accelerators or degrees, or replicas that are not shared, alone",
        ),
    ],
    ids=["stock", "budget", "attainment", "load"],
)
def test_limits(short, sentence, remedy):
    (reason,) = explain_limits(PROBLEM, NoFleetError("", (), (short,)))
    assert (stands_in_the_way(reason), reason.remedy) == (sentence, remedy)


def test_a_change_that_is_not_proven_the_least_is_not_told_as_what_is_needed():
    """A budget of 1,476.60 where 120 would do is true of no question that anybody asked."""
    short = Shortfall("C8", "budget_is_kept", (), 30.0, 1476.6, "USD/h", least=False)
    (reason,) = explain_limits(PROBLEM, NoFleetError("", (short,), ()))
    assert reason.needs == "1,476.6 USD/h, or less of a change"
    assert reason.remedy == (
        "a budget of 1,476.6 USD/h, together with the others; far less may do: the time ended"
        " before the least was known"
    )


def test_a_ttft_is_told_as_the_users_see_it():
    """Of 1.5 s the way takes 1 s; a prefill of 0.6 s needs 1.6 s, which is what may be promised."""
    far = SimpleNamespace(**{**vars(DEMAND), "network_s": 1.0})
    reached = SimpleNamespace(
        ttft_at_promise_s=0.6, tpot_at_promise_s=0.01, max_itl_at_promise_s=0.01, attainment=0.0
    )
    barrier = Barrier(BUILD, 0, "deadline", reached, removed("slow"))
    reasons = explain_barriers(SimpleNamespace(demands=(far,)), STUDY, [0], [BUILD], [barrier], ())
    assert (reasons[0].has, reasons[0].needs) == ("1500 ms", "1600 ms")
    assert reasons[0].fastest_reachable.endswith(
        "takes 600 ms on h100 tp2, and the way to its users 1000 ms"
    )
    assert reasons[0].remedy.startswith("a ttft of at least 1600 ms")
