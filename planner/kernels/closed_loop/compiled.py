"""The compiled run, if there is one that was built from the sources beside it."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from planner.kernels.compiled import sources_digest

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    from planner.kernels.closed_loop.records import EngineTimes, RankLaw

_NATIVE: Final = Path(__file__).parent / "native"
_SHARED: Final = Path(__file__).parents[1] / "native"


def _load() -> ModuleType | None:
    if os.environ.get("PLANNER_PURE_PYTHON", "") not in ("", "0"):
        return None
    try:
        module = import_module("planner.kernels.closed_loop._closed_loop")
    except ImportError:
        return None
    sources = f"{sources_digest(_SHARED)}-{sources_digest(_NATIVE)}"
    return module if getattr(module, "SOURCES", None) == sources else None


_module: Any = _load()
COMPILED: Final = _module is not None


def serve(
    law: RankLaw,
    engine: EngineTimes,
    users: int,
    prompt: NDArray[np.int32],
    output: NDArray[np.int32],
    sent: NDArray[np.float64],
    first: NDArray[np.float64],
    finish: NDArray[np.float64],
) -> tuple[int, int]:
    """Fill ``first`` and ``finish`` (and ``sent``, where there are users); return totals.

    Returns:
        Steps of the engine, and preemptions.

    Raises:
        ValueError: Arrays of unequal length, or a number out of range.
    """
    found = _module.serve(tuple(law), tuple(engine), users, prompt, output, sent, first, finish)
    return cast("tuple[int, int]", found)
