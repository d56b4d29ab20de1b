"""In which number formats replicas may be built, and which of them a workload accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.template import Removed, hardware_name
from planner.curves.curve import Curve, NoCurve, curves, find_curve
from planner.curves.formats import moved_to, why_not_kv, why_not_weights, with_kv_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.candidates.template import Build
    from planner.catalogue import Catalogue
    from planner.problem.resolve import Demand, Problem, Supply


def accepts(demand: Demand, build: Build) -> bool:
    """Tell whether answers of a build are good enough for a workload: its model, its formats."""
    if demand.model != build.model or build.precision not in demand.precisions:
        return False
    curve = build.curve
    if demand.adapters is not None and demand.adapters.owner not in _owners(build):
        return False
    return curve.kv_dtype in (demand.kv_dtypes or (curve.row.kv_dtype,))


def _owners(build: Build) -> tuple[str, ...]:
    return build.curve.adapters.owners if build.curve.adapters is not None else ()


def suits(demands: Sequence[Demand], build: Build, serves: Sequence[int]) -> bool:
    """Tell whether replicas of a build may serve some workloads, and keep no adapters of others.

    Args:
        demands: Of the problem.
        build: How the replicas are built.
        serves: Indices of the workloads.
    """
    wanted = {kept.owner for w in serves if (kept := demands[w].adapters) is not None}
    return all(accepts(demands[w], build) for w in serves) and wanted == {*_owners(build)}


def curve_in(
    problem: Problem, catalogue: Catalogue, demand: Demand, what: tuple[str, Supply, int]
) -> Curve | NoCurve | Removed:
    """Return the curve of tensor-parallel replicas with weights in a format.

    A law that was measured counts, whatever units the accelerator has. Where none was, and the
    scenario names the format, the nearest format of the same devices is moved, if the accelerator
    multiplies such weights and the scenario allows extrapolation.

    Args:
        problem: Engine, and whether curves may be used beyond what was measured.
        catalogue: With the step laws.
        demand: Of the model.
        what: Format of the weights, accelerator on offer, degree.
    """
    precision, supply, tp_degree = what
    device, engine = supply.accelerator, problem.policies.engine
    found = find_curve(catalogue, demand.llm.id, precision, device.id, engine, tp_degree)
    if isinstance(found, Curve):
        return found
    name = f"{device.id}.tp{tp_degree}.{precision}"
    why_not = why_not_weights(device, precision)
    if why_not is not None:
        return Removed(name, f"{why_not}; {found.reason}", {})
    if not problem.policies.extrapolation:
        return found
    every = curves(catalogue, demand.llm.id, device.id, engine)
    mine = [c for c in every if (c.layout.tp_degree, c.layout.devices) == (tp_degree, tp_degree)]
    mine.sort(key=lambda c: c.layout.ep_degree)
    moved = moved_to(tuple(mine), precision)
    if isinstance(moved, str):
        return NoCurve(f"{found.reason}; {moved}", found.instead)
    return moved or found


def in_kv_dtypes(
    catalogue: Catalogue, demands: Sequence[Demand], curve: Curve
) -> Iterator[Curve | Removed]:
    """Yield a curve with its KV cache in every format that some workload accepts.

    Where no workload of the model names any, the curve as it is.

    Args:
        catalogue: With the step laws.
        demands: Of one model.
        curve: Whose cache is in the format in which it was measured.
    """
    wanted = [d for d in demands if curve.precision in d.precisions]
    if all(d.kv_dtypes is None for d in wanted):
        yield curve
        return
    asked = {kv for d in wanted for kv in d.kv_dtypes or (curve.kv_dtype,)}
    for kv_dtype in sorted(asked):
        why_not = why_not_kv(curve.accelerator, kv_dtype)
        if kv_dtype != curve.kv_dtype and why_not is not None:
            parts = (*curve.parts, f"kv{kv_dtype}")
            hardware = curve.accelerator.id, curve.layout, curve.precision
            yield Removed(hardware_name(*hardware, parts), why_not, {})
            continue
        yield with_kv_dtype(catalogue, curve, kv_dtype)
