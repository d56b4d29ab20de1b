"""Several jobs at once: results in order, and one end for all."""

from __future__ import annotations

import time
from threading import Event

import numpy as np
import pytest

from planner.errors import LimitReachedError
from planner.simulation.crew import Crew, simulating_in
from planner.simulation.points import simulated
from planner.simulation.side_by_side import side_by_side
from tests.problems import affine_law, setup, spread, study

POOL = setup(affine_law(5, 20, 512), 16, replicas=2)
QUESTION = study(spread(200, 20, 1.0), ttft_ms=(200,), tpot_ms=(20,), promise=(0.9,))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_jobs(threads):
    def work(job, _):
        time.sleep(0.001 * (7 - job))
        return job * job

    assert side_by_side(work, range(7), threads=threads) == [n * n for n in range(7)]
    assert side_by_side(work, [], threads=threads) == []


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_ends_the_others_and_is_the_one_that_is_told(error):
    failed = Event()

    def work(job, go_on):
        if job == 1:
            failed.set()
            raise error
        failed.wait()
        while True:  # as a long search: ends at its next run
            go_on()
            time.sleep(0.001)

    with pytest.raises(type(error)) as told:
        side_by_side(work, range(6), threads=2)
    assert told.value is error


def test_time_that_is_over_ends_all():
    def over():
        raise LimitReachedError("over")

    began = []
    with pytest.raises(LimitReachedError, match="over"):
        side_by_side(lambda job, _: began.append(job), range(3), check=over)
    assert began == []


def runs():
    draws = [QUESTION.draws.named((1.0,), 400, r, 0) for r in range(3)]
    return [
        simulated(POOL, draw, 60.0, QUESTION.deadlines, keep=keep)
        for draw in draws
        for keep in (False, True)
    ]


def test_processes_give_the_same_bits():
    here = runs()
    with simulating_in(Crew(2)):
        there = runs()
    for one, other in zip(here, there, strict=True):
        assert np.array_equal(one.compliant, other.compliant)
        assert (one.busy_share, one.backlog_growth) == (other.busy_share, other.backlog_growth)
        if one.latencies is not None:
            assert other.latencies is not None
            assert np.array_equal(one.latencies.ttft_s, other.latencies.ttft_s)


def test_processes_that_are_abandoned_end_at_once_and_come_again():
    crew = Crew(2)
    with simulating_in(crew):
        began_s = time.perf_counter()

        def work(job, _):
            if job == 0:
                time.sleep(0.2)
                raise KeyboardInterrupt
            crew.call(time.sleep, 60.0)

        with pytest.raises(KeyboardInterrupt):
            side_by_side(work, range(2), threads=2)
        assert time.perf_counter() - began_s < 30
        assert crew.call(pow, 2, 10) == 1024


def test_without_processes_runs_are_here(monkeypatch):
    def none(*_):
        raise OSError("no semaphores")

    monkeypatch.setattr("planner.simulation.crew.ProcessPoolExecutor", none)
    assert Crew(2).call(pow, 2, 10) == 1024
