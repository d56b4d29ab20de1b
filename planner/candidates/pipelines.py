"""Replicas in pipeline stages: where the scenario asks, or where nothing less holds the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.candidates.template import Removed, hardware_name
from planner.catalogue.degrees import tp_degrees_of
from planner.curves.curve import Curve, find_curve
from planner.curves.memory import Layout, Settings, generic_reserve, kv_room
from planner.curves.stages import Hop, moved_curve, staged
from planner.errors import InputError
from planner.simulation.lengths import longest_request
from planner.topology import islands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.catalogue import Catalogue, Llm
    from planner.problem.resolve import Demand, Problem, Supply

LATENCY_S: Final = 10e-6
"""Between two devices, where nobody says another: what aiconfigurator's systems files have."""
MOST_STAGES: Final = 16
WIDEST: Final = 2
"""Tensor-parallel degrees, the widest first, that are put in stages unasked: narrower ones take
more stages, each of which waits for the others."""


def pipelines(
    problem: Problem, catalogue: Catalogue, demands: Sequence[Demand], what: tuple[str, Supply]
) -> Iterator[Curve | Removed]:
    """Yield the curves of replicas in stages, or why one is none.

    Where ``policies.pipeline_degrees`` is given, its degrees. Else none, unless the model fits on
    no tensor-parallel group of a node: then the fewest stages that hold the longest request, of
    the widest groups.

    Args:
        problem: Policies, topology.
        catalogue: With the step laws.
        demands: Of one model.
        what: Precision of the weights, and the accelerator on offer.
    """
    asked = problem.policies.pipeline_degrees
    llm = demands[0].llm
    if asked is None and (_fits_a_node(problem, llm, what) or not catalogue.laws(llm.id)):
        return
    node = _node(problem, what[1])
    admissible = tp_degrees_of(llm)
    groups = [tp for tp in sorted(problem.policies.tp_degrees) if tp in admissible and tp <= node]
    if asked is None:
        groups = groups[-WIDEST:]
    for tp_degree in groups:
        base = _stage(problem, catalogue, llm, what, tp_degree)
        if isinstance(base, Removed):
            yield base
            continue
        degrees = [pp for pp in sorted(asked or ()) if pp > 1]
        if asked is None:
            degrees = _fewest(problem, demands, base)
            if not degrees:
                why = f"no {MOST_STAGES} stages of {tp_degree} devices hold the longest request"
                yield Removed(hardware_name(what[1].accelerator.id, base.layout, what[0]), why, {})
        for stages in degrees:
            yield _in_stages(problem, what[1], base, stages)


def _node(problem: Problem, supply: Supply) -> int:
    """Return the most devices of a tensor-parallel group: those of a scale-up domain, or a node."""
    topology, device = problem.topology, supply.accelerator
    if topology is not None:
        mine = [d for d in topology.domains if d.shape.accelerator == device.id]
        return max((free for d in mine for free, _ in islands(d)), default=0)
    return max(device.scaleup_domain or 1, device.accelerators_per_node or 1)


def _least(problem: Problem) -> Settings:
    policies = problem.policies
    return Settings(
        utilisation=policies.memory_utilisation,
        max_num_batched_tokens=min(policies.max_num_batched_tokens),
        max_num_seqs=min(policies.max_num_seqs),
        block_size=policies.block_size,
    )


def _fits_a_node(problem: Problem, llm: Llm, what: tuple[str, Supply]) -> bool:
    """Whether some tensor-parallel group of a node, searched or not, has room for the model.

    Also where the catalogue does not know how large the model is.
    """
    precision, supply = what
    settings = _least(problem)
    node = _node(problem, supply)
    for tp_degree in (tp for tp in tp_degrees_of(llm) if tp <= node):
        layout = Layout(tp_degree=tp_degree)
        try:
            reserve = generic_reserve(llm, precision, layout, settings)
            room = kv_room(llm, supply.accelerator, reserve, layout, settings)
        except InputError:
            return True
        if room.kv_blocks > 0:
            return True
    return False


def _stage(
    problem: Problem,
    catalogue: Catalogue,
    llm: Llm,
    what: tuple[str, Supply],
    tp_degree: int,
) -> Curve | Removed:
    """Return the curve of one stage's devices: measured, or moved where they hold no model."""
    precision, supply = what
    device, engine = supply.accelerator, problem.policies.engine
    found = find_curve(catalogue, llm.id, precision, device.id, engine, tp_degree)
    name = f"{device.id}.tp{tp_degree}.{precision}"
    if not problem.policies.extrapolation:
        return Removed(f"{name} in stages", "pipeline stages were not measured", {})
    if isinstance(found, Curve):
        return found
    near = [r for r in catalogue.laws(llm.id) if r.precision == precision]
    if not near:
        return Removed(f"{name} in stages", f"no curve: {found.reason}", {})
    try:
        return moved_curve(catalogue, llm, device, (precision, engine), tp_degree, near[0].kv_dtype)
    except InputError as error:
        return Removed(f"{name} in stages", f"no curve: {error}", {})


def _fewest(problem: Problem, demands: Sequence[Demand], base: Curve) -> list[int]:
    """Return the fewest stages, a power of two, whose cache holds the longest request."""
    longest = max(min(longest_request(d.lengths), d.llm.max_context) for d in demands)
    free = Hop(float("inf"), 0.0, "")
    stages = 2
    while stages <= min(MOST_STAGES, base.llm.layers or 1):
        if staged(base, stages, free).room(_least(problem)).kv_tokens >= longest:
            return [stages]
        stages *= 2
    return []


def _in_stages(problem: Problem, supply: Supply, base: Curve, stages: int) -> Curve | Removed:
    name = hardware_name(
        supply.accelerator.id,
        Layout(tp_degree=base.layout.tp_degree, pp_degree=stages),
        base.precision,
    )
    if stages > (base.llm.layers or 1):
        why = f"{base.llm.id} has {base.llm.layers} layers, fewer than {stages} stages"
        return Removed(name, why, {})
    hop = _hop(problem, supply, base.layout.tp_degree * stages)
    if isinstance(hop, str):
        return Removed(name, hop, {})
    return staged(base, stages, hop)


def _hop(problem: Problem, supply: Supply, devices: int) -> Hop | str:
    """Return what stages of a replica send over, or why nobody knows."""
    device, topology = supply.accelerator, problem.topology
    if topology is not None:
        shape = topology.shape_of(device.id)
        rate = shape.scaleup.bytes_per_s
        if devices <= _node(problem, supply):
            return Hop(rate, LATENCY_S, f"the nodes' link at {rate / 1e9:g} GB/s a device")
        if shape.network_bytes_per_s is None:
            return "its stages lie on several nodes, and topology.nodes says no network of theirs"
        rate = min(rate, shape.network_bytes_per_s / shape.devices)
        return Hop(rate, LATENCY_S, f"the topology's network at {rate / 1e9:g} GB/s a device")
    within = devices <= _node(problem, supply)
    link = device.scaleup_bandwidth or device.pcie_bandwidth
    if within and link is not None:
        return Hop(link, LATENCY_S, f"the catalogue's link at {link / 1e9:g} GB/s a device")
    if device.scaleout_bandwidth is None:
        return (
            f"the catalogue knows no network of {device.id}, over which stages on several nodes"
            " would send; say it in a topology"
        )
    rate = float(device.scaleout_bandwidth)
    return Hop(
        rate,
        LATENCY_S,
        f"a network of {rate / 1e9:g} GB/s a device, assumed as in the catalogue's usual node",
    )
