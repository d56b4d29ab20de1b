from numpy import int32, int64
from numpy.typing import NDArray

from planner.kernels.records import Law, Limits

SOURCES: str

def simulate(
    law: Law,
    limits: Limits,
    arrival: NDArray[int64],
    prompt: NDArray[int32],
    output: NDArray[int32],
    replicas: int,
    router: int,
    columns: tuple[NDArray[int64] | NDArray[int32], ...],
    totals: NDArray[int64],
    /,
) -> None: ...
