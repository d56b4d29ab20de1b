"""Queues whose waiting times are known in closed form, as pools and as formulas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.problem.lengths import JointLengths
from tests.problems import affine_law, setup

if TYPE_CHECKING:
    from planner.simulation.pool import PoolSetup


def one_slot(service_ms: float) -> PoolSetup:
    """One request at a time, one step each: M/D/1 for fixed lengths with one output token."""
    return setup(affine_law(service_ms, 0, 100), 1)


def slots(count: int, step_ms: float) -> PoolSetup:
    """A central queue with servers: requests take a step per output token, whoever else runs."""
    return setup(affine_law(step_ms, 0, 8192), count)


def geometric(mean: int) -> JointLengths:
    """Outputs of geometric length (the discrete exponential), cut at 20 means; 1-token prompts."""
    k = np.arange(1, 20 * mean)
    one = np.ones(k.size, np.int64)
    return JointLengths(one, one, k, k, (1 - 1 / mean) ** (k - 1) / mean)


def md1_wait_cdf(load: float, t: float) -> float:
    """P(wait <= t) of M/D/1, t in units of the service time (Erlang 1909, Crommelin 1932)."""
    total = 0.0
    for k in range(math.floor(t) + 1):
        x = load * (k - t)
        total += x**k / math.factorial(k) * math.exp(-x)
    return (1 - load) * total


def md1_mean_wait(load: float) -> float:
    """Mean wait of M/D/1 in units of the service time."""
    return load / (2 * (1 - load))


def erlang_c(servers: int, load: float) -> float:
    """P(wait > 0) of M/M/c at a load per server."""
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    full = offered**servers / math.factorial(servers) / (1 - load)
    return full / (sum(terms) + full)


def mmc_mean_wait(servers: int, load: float) -> float:
    """Mean wait of M/M/c in units of the mean service time."""
    return erlang_c(servers, load) / (servers * (1 - load))
