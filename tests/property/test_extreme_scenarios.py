"""Every number of a scenario set to the least, the most and the odd: refused in its place, or used.

What is used goes as far as the draw of requests: the deadlines, the load over time and the
arrivals that come of it are finite, in order and within the clock of the simulation.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.planning.answer import study_of
from planner.problem.resolve import resolve
from planner.scenario.load import LoadedScenario
from planner.scenario.scenario import Scenario
from planner.simulation.draw import HORIZON_S
from planner.source import Source
from planner.spec import validate

CATALOGUE = Catalogue()
NUMBERS = (0, 1e-300, 1e-12, 1e-6, 1e6, 1e9, 1e15, 1e300, -1, math.nan, math.inf, 10**400)
FIXED = {"fixed": "100 tokens"}
SPREAD = {"prompt": {"lognormal": {"mean": "1000 tokens", "cv": 1.0}}, "output": FIXED}
SLO = {"ttft": "500 ms", "tpot": "30 ms", "attainment": 0.95}


def scenario(arrivals=None, lengths=None, slo=None, **more):
    """Return a scenario as plain data."""
    return {
        "format_version": "1.0",
        "name": "x",
        "workloads": [
            {
                "id": "chat",
                "model": "llama-3.1-8b",
                "arrivals": arrivals or {"poisson": "20 req/s"},
                "lengths": lengths or SPREAD,
                "slo": slo or SLO,
            }
        ],
        "accelerators": [{"id": "h100-sxm", "price": "2.99 USD/h", "stock": 64}],
        **more,
    }


def either(prompt, output, **more):
    return {"prompt": prompt, "output": output, "beyond_context": "cut", **more}


UNIFORM = {"uniform": {"minimum": 10, "maximum": 300}}
PARETO = {"pareto": {"minimum": "100 tokens", "tail": 1.5, "maximum": "10000 tokens"}}
ZIPF = {"zipf": {"exponent": 1.1, "minimum": 1, "maximum": 500}}
PARTS = {"mixture": [{"weight": 2.0, **FIXED}, {"weight": 1.0, **UNIFORM}]}
BASES = {
    "plain": scenario(
        slo={
            **SLO,
            "e2e": "60 s",
            "ttft_by_prompt": [{"up_to": "1000 tokens", "ttft": "400 ms"}],
        },
        policies={
            "tp_degrees": [1],
            "max_num_batched_tokens": [2048],
            "max_num_seqs": [64],
            "memory_utilisation": 0.9,
            "block_size": 16,
            "watermark": 0.01,
        },
        limits={"budget": "1000 USD/h"},
        solver={"seed": 1, "gap": 0.001, "time_limit": "60 s"},
    ),
    "gamma": scenario(
        {"gamma": {"rate": "20 req/s", "cv": 2.0}},
        either({"gamma": {"mean": "1000 tokens", "cv": 1.0}}, UNIFORM, correlation=0.3),
    ),
    "weibull": scenario({"weibull": {"rate": "20 req/s", "cv": 2.0}}, either(PARETO, ZIPF)),
    "bursts": scenario(
        {
            "bursts": {
                "rate": "20 req/s",
                "burst": "10 s",
                "quiet": "30 s",
                "quiet_level": 0.2,
                "sources": 2,
            }
        },
        either(PARTS, FIXED),
    ),
    "users": scenario(
        {"users": {"count": 10_000, "active": 0.1, "requests_per_hour": 60.0}},
        {"mixture": [{"weight": w, "prompt": FIXED, "output": FIXED} for w in (9.0, 1.0)]},
    ),
    "sessions": scenario(
        {
            "sessions": {
                "rate": "20 req/s",
                "turns": 4.0,
                "most_turns": 20,
                "between": "30 s",
                "between_cv": 1.0,
                "system_prompt": "200 tokens",
            }
        }
    ),
    "traffic": scenario(
        {"gamma": {"rate": "20 req/s", "cv": 2.0}},
        traffic={
            "plan_for": "p95",
            "peak_factor": 1.1,
            "growth": {"per_quarter": "10 %", "quarters": 2},
            "clusters": 3,
            "profiles": [
                {
                    "weekday": [1.0] * 9 + [3.0] * 8 + [1.0] * 7,
                    "weekend": [1.0] * 24,
                    "month_end": {"days": 3, "factor": 2.0},
                }
            ],
        },
    ),
}


def leaves(node, at=()):
    """Yield the place and the value of every number; of a list of numbers the first."""
    if isinstance(node, dict):
        for key, item in node.items():
            yield from leaves(item, (*at, key))
    elif isinstance(node, list) and isinstance(node[0], dict):
        for i, item in enumerate(node):
            yield from leaves(item, (*at, i))
    elif isinstance(node, list):
        yield (*at, 0), node[0]
    elif (isinstance(node, str) and node[0].isdigit() and " " in node) or isinstance(
        node, int | float
    ):
        yield at, node


def changed(base, at, value):
    """Return a copy with another value in a place."""
    document = copy.deepcopy(base)
    node = document
    for step in at[:-1]:
        node = node[step]
    node[at[-1]] = value
    return document


PLACES = [(name, at, value) for name, base in BASES.items() for at, value in leaves(base)]


@pytest.mark.parametrize(
    ("name", "at", "value"), PLACES, ids=[f"{n}-{'.'.join(map(str, a))}" for n, a, _ in PLACES]
)
def test_a_number_is_refused_in_its_place_or_can_be_used(name, at, value, tmp_path):
    for number in NUMBERS:
        if isinstance(value, str):
            written = [f"{number} {value.split(' ', 1)[1]}"]
        elif isinstance(value, int) and isinstance(number, float) and math.isfinite(number):
            written = [number, int(number)]
        else:
            written = [number]
        for one in written:
            use(changed(BASES[name], at, one), tmp_path)


def use(document, folder):
    """Validate and resolve a document, and draw its requests; a refusal names its place."""
    source = Source("x.yaml", document, {})
    try:
        loaded = LoadedScenario(validate(source, Scenario), source, folder)
        problem = resolve(loaded, CATALOGUE)
    except InputError as error:
        for line in str(error).splitlines():
            assert line.startswith("x.yaml:1:1: "), line
            assert len(line) < 400
        return
    study = study_of(problem)
    for limits in (study.deadlines.ttft_ps, study.deadlines.tpot_ps):
        assert (limits >= 0).all()
    (rate,) = problem.rates_rps
    assert 1e-6 <= rate <= 1e9
    for load in (1e-9, rate, 1e3):
        traffic = study.draws.get((1.0,), 300, 0, 0).at(load)
        assert traffic.arrival_ps.size > 0
        assert traffic.arrival_ps[0] >= 0
        assert (np.diff(traffic.arrival_ps) >= 0).all()
        assert traffic.arrival_ps[-1] <= HORIZON_S * 1.001e12
        assert traffic.prompt.min() >= 1
        assert traffic.output.min() >= 1
        limit = study.deadlines.decode_limit_ps(traffic.workload, traffic.output)
        assert ((limit >= 0) & (limit <= 2**62)).all()
