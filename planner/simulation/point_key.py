"""The name of an operating point: a hash of everything that its measured result depends on."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.special

from planner.simulation.content_key import SIZE, content_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.problem.deadlines import Deadlines
    from planner.simulation.pool import PoolSetup

_PACKAGE: Final = Path(__file__).parent.parent
MEANING: Final = ("kernels", "simulation", "problem", "measurements/request_trace.py")
"""Sources that say what numbers mean: how requests are drawn, how an engine serves them, what
counts. Wider than need be: a change that changes nothing costs a simulation, no more."""
PROBED: Final = 512


def point_key(
    meaning: bytes, setup: PoolSetup, requests: bytes, rate_rps: float, deadlines: Deadlines
) -> bytes:
    """Return the name of one run of a pool at one load.

    A pure function of its arguments. Whether the simulator is compiled is none of them: both give
    the same bits.

    Args:
        meaning: What :func:`meaning_of_numbers` returns.
        setup: The pool: law in all its numbers, limits, size, router, cache, priorities, group.
        requests: The name of its requests, by :meth:`planner.simulation.draw.Draws.name_of`.
        rate_rps: Their rate.
        deadlines: Of each workload.
    """
    return content_key(meaning, setup, requests, float(rate_rps), deadlines)


@lru_cache(maxsize=1)
def meaning_of_numbers() -> bytes:
    """Return the name of all that turns the same question into the same bits.

    The sources of the simulation, the libraries that draw and round for it, and what this
    machine's arithmetic makes of a few draws: a folder may be shared by machines whose vector
    units round logarithms differently.

    Raises:
        OSError: The sources are not there to be read.
    """
    found = blake2b(digest_size=SIZE)
    for path in _sources():
        text = path.read_bytes().replace(b"\r\n", b"\n")
        name = path.relative_to(_PACKAGE).as_posix()
        found.update(f"{name} {len(text)} ".encode() + text)
    versions = (np.__version__, scipy.__version__, *map(str, sys.version_info[:2]))
    return content_key(found.digest(), versions, platform.machine(), sys.byteorder, *_probe())


def _sources() -> Sequence[Path]:
    paths: set[Path] = set()
    for name in MEANING:
        place = _PACKAGE / name
        if place.is_dir():
            for pattern in ("*.py", "*.hpp", "*.cpp"):
                paths.update(place.rglob(pattern))
        elif place.is_file():
            paths.add(place)
    if len(paths) < len(MEANING):
        raise OSError(f"{_PACKAGE}: the sources are not there")
    return sorted(paths)


def _probe() -> tuple[Any, ...]:
    rng = np.random.default_rng([1, 2, 3])
    u = (np.arange(PROBED) + 0.5) / PROBED
    return (
        rng.permutation(PROBED),
        rng.random(8),
        rng.geometric(0.3, 8),
        rng.standard_normal(8),
        np.log(u),
        np.exp(u),
        np.power(u, 0.37),
        scipy.special.ndtri(u),
        scipy.special.gammainccinv(0.7, u),
        np.sin(u),
        np.cumsum(u),
        float(u.mean()),
    )
