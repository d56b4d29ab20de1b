"""The compiled simulator, if there is one that was built from the sources beside it."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels.records import ClientRecords, Gaps, Records, Stages, one_source

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits, Sources

_NATIVE: Final = Path(__file__).parent / "native"


def sources_digest(folder: Path) -> str:
    """Name the C++ sources in ``folder`` by what is in them; line ends do not count."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.hpp"), *folder.glob("*.cpp")]):
        digest.update(
            path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0"
        )
    return digest.hexdigest()[:16]


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("PLANNER_PURE_PYTHON", "") not in ("", "0"):
        return None, "plain Python simulator: PLANNER_PURE_PYTHON is set"
    slow = "plain Python simulator, some fifty times slower"
    mend = "reinstall with a C++17 compiler at hand"
    try:
        module = import_module("planner.kernels._replica")
    except ImportError as error:
        return None, f"{slow}: {error}; {mend}"
    if getattr(module, "SOURCES", None) != sources_digest(_NATIVE):
        return None, f"{slow}: the compiled one was built from other sources; {mend}"
    return module, "compiled simulator"


_module, STATUS = _load()
COMPILED: Final = _module is not None


def run(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    replicas: int,
    router: int,
    *,
    stages: bool = False,
    gaps: bool = False,
) -> Records:
    """Simulate one pool, as :func:`planner.kernels.plain.run`, without holding the GIL.

    Raises:
        ImportError: There is no compiled simulator; ``STATUS`` says why.
        OverflowError: Simulated time passed ``LAST_PS``.
    """
    columns = _Columns(len(arrival_ps), replicas, stages=stages, gaps=gaps)
    native().simulate(
        law, limits, arrival_ps, prompt_tokens, output_tokens, replicas, router, *columns.arrays()
    )
    return columns.records()


def run_clients(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    think_ps: NDArray[np.int64],
    permit_ps: NDArray[np.int64],
    replicas: int,
    router: int,
    *,
    stages: bool = False,
    gaps: bool = False,
    sources: Sources | None = None,
) -> ClientRecords:
    """Simulate one pool and its clients, as :func:`planner.kernels.plain_clients.run_clients`.

    Raises:
        ImportError: There is no compiled simulator; ``STATUS`` says why.
        OverflowError: Simulated time passed ``LAST_PS``.
    """
    columns = _Columns(len(arrival_ps), replicas, stages=stages, gaps=gaps)
    sent = np.empty(len(arrival_ps), np.int64)
    sources = sources or one_source(len(arrival_ps), len(permit_ps))
    native().simulate_clients(
        law,
        limits,
        arrival_ps,
        prompt_tokens,
        output_tokens,
        replicas,
        router,
        *columns.arrays(),
        think_ps,
        permit_ps,
        sent,
        sources.source,
        sources.permits,
    )
    return ClientRecords(sent, columns.records())


def native() -> ModuleType:
    """Return the compiled module.

    Raises:
        ImportError: There is none; ``STATUS`` says why.
    """
    if _module is None:
        raise ImportError(STATUS)
    return _module


class _Columns:
    """Room for the records of ``n`` requests, filled by the compiled module."""

    def __init__(self, n: int, replicas: int, *, stages: bool, gaps: bool) -> None:
        self.wide = tuple(np.empty((5, n), np.int64))
        self.narrow = tuple(np.empty((2, n), np.int32))
        self.stages = tuple(np.empty((6, n), np.int64)) if stages else ()
        self.gaps = tuple(np.empty((5, n), np.int64)) if gaps else ()
        self.totals = np.zeros((replicas, 4), np.int64)

    def arrays(self) -> tuple[object, ...]:
        """Return them as the module wants them."""
        return self.wide, self.narrow, self.stages, self.gaps, self.totals.reshape(-1)

    def records(self) -> Records:
        """Return what is in them."""
        steps, events, busy_ps, peak_kv_blocks = zip(*self.totals.tolist(), strict=True)
        first_scheduled, first_token, finish, stall, preempted = self.wide
        preemptions, replica = self.narrow
        return Records(
            first_scheduled_ps=first_scheduled,
            first_token_ps=first_token,
            finish_ps=finish,
            decode_stall_ps=stall,
            preempted_ps=preempted,
            preemptions=preemptions,
            replica=replica,
            steps=sum(steps),
            events=sum(events),
            busy_ps=sum(busy_ps),
            peak_kv_blocks=max(peak_kv_blocks),
            stages=Stages(*self.stages) if self.stages else None,
            gaps=Gaps(*self.gaps) if self.gaps else None,
        )
