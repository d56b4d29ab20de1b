"""What would have become of measured requests under another policy, or with more replicas.

The requests are served again by a simulated pool of one template of a scenario, as they came; what
is compared is simulation with simulation, and how far the unchanged one is from the measurement is
told first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.attribution.diagnosis import MissCause, compliant
from planner.attribution.measured import Unloaded
from planner.attribution.shapley import Allowed, charge
from planner.attribution.stage_split import split_of
from planner.attribution.traced import SimulatedGaps
from planner.candidates.frontier import setup_of
from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.kernels.engine import simulate_fleet
from planner.kernels.engine.records import NEVER
from planner.planning.capacity import Wanted, wanted_templates
from planner.planning.study import study_of
from planner.problem.resolve import resolve
from planner.simulation.cached_pool import NO_LIMIT, Replicas, engine_question, step_law_of
from planner.simulation.draw import Traffic
from planner.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.attribution.diagnosis import Due
    from planner.kernels import Law, Router
    from planner.kernels.engine import FleetRecords
    from planner.kernels.engine import Traffic as EngineTraffic
    from planner.measurements.staged import StagedRun
    from planner.scenario.load import LoadedScenario
    from planner.simulation.pool import PoolSetup

FURTHEST: Final = 0.05
"""Distance of simulated from measured attainment above which the note warns."""


class Counterfactual(Spec):
    """One change, and what it would have made of the attainment."""

    change: str
    replicas: int
    attainment: float
    difference: float | None
    """Against the unchanged simulation; null of that itself and of the measurement."""


class Counterfactuals(Spec):
    """What would have been of one run."""

    run: str
    template: str
    rows: tuple[Counterfactual, ...]
    """First what was measured, then the simulation of the same, then changes."""
    simulated_misses: tuple[MissCause, ...]
    """What the simulation of the same charges its misses to: it tells other decodes, chunks of
    others, preemption and waiting for blocks apart, which measured data seldom do."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """The template that stands for what served the measured requests."""

    id: str
    setup: PoolSetup


def served_by(loaded: LoadedScenario, wanted: Wanted, replicas: int) -> Served:
    """Return the template of a scenario that is wanted; of several, the first.

    Raises:
        InputError: No template of the scenario fits.
    """
    catalogue = Catalogue()
    problem = resolve(loaded, catalogue)
    found = wanted_templates(problem, study_of(problem), catalogue, wanted)
    if len(found) > 1:
        ids = ", ".join(t.id for t in found[:6]) + (", …" if len(found) > 6 else "")
        raise InputError(
            f"{len(found)} templates fit; name the one that served with --template: {ids}"
        )
    build = found[0].build
    return Served(found[0].id, setup_of(build, replicas, problem.policies.router))


def unloaded_by(served: Served, run: StagedRun) -> Unloaded:
    """Return what the requests of a run take alone by the template's step law."""
    law, limits = served.setup.law, served.setup.limits
    coefficients = (law.square_ps_2p15, law.context_ps, law.sequence_ps, law.chunk_context_ps)
    steps = step_law_of(law.tokens_ps.tobytes(), coefficients)
    prompt = np.maximum(np.nan_to_num(run.records.prompt_tokens, nan=1.0), 1).astype(np.int64)
    lengths, position = np.unique(prompt, return_inverse=True)
    alone = np.array([steps.alone(int(n), limits.max_num_batched_tokens) for n in lengths])
    decode = _decode_alone_ps(law, prompt, np.nan_to_num(run.records.output_tokens))
    path_s = served.setup.path_ps * 1e-12
    return Unloaded(
        alone[position] * 1e-12 + path_s, decode * 1e-12, f"the step law of {served.id}"
    )


def _decode_alone_ps(
    law: Law, prompt: NDArray[np.int64], output: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the decode steps of lone requests together: k steps from a context of ``prompt``."""
    k = np.maximum(output - 1, 0)
    one = float(law.tokens_ps[1]) + law.sequence_ps
    return np.asarray(k * one + law.context_ps * (k * prompt + k * (k + 1) / 2))


def counterfactuals(run: StagedRun, due: Due, served: Served) -> Counterfactuals:
    """Serve the completed requests of a run again, unchanged and changed.

    Raises:
        InputError: The run tells no arrivals or no lengths.
    """
    traffic, outputs = _requests(run)
    joint, _ = compliant(run, due)
    measured = float(joint.mean())
    failed = int((~run.records.completed).sum())
    setup = served.setup
    unchanged = _attained(setup, traffic, outputs, due, failed)
    charged = _simulated_misses(setup, traffic, due, failed)
    rows = [
        Counterfactual(
            change="as measured", replicas=setup.replicas, attainment=measured, difference=None
        ),
        Counterfactual(
            change="the same, simulated",
            replicas=setup.replicas,
            attainment=unchanged,
            difference=None,
        ),
    ]
    for change, other in _changes(setup):
        found = _attained(other, traffic, outputs, due, failed)
        rows.append(
            Counterfactual(
                change=change,
                replicas=other.replicas,
                attainment=found,
                difference=found - unchanged,
            )
        )
    off = unchanged - measured
    notes = [f"the simulation of the same is {100 * off:+.1f} points from what was measured"]
    if abs(off) > FURTHEST:
        notes.append(
            "that is far: the template, its number of replicas or its curve is not what served;"
            " calibrate on these runs, and name the curve in the scenario"
        )
    if failed:
        notes.append(f"{failed:,} failed requests stay misses; they are not served again")
    return Counterfactuals(
        run=run.name,
        template=served.id,
        rows=tuple(rows),
        simulated_misses=charged,
        notes=tuple(notes),
    )


def _changes(setup: PoolSetup) -> list[tuple[str, PoolSetup]]:
    """Return what might have been otherwise: replicas, router, size of a step, seats."""
    limits = setup.limits
    found = [
        (f"{n} more replica{'s' if n > 1 else ''}", replace(setup, replicas=setup.replicas + n))
        for n in (1, 2)
    ]
    if setup.replicas > 1:
        other: Router = "least_outstanding" if setup.router == "round_robin" else "round_robin"
        found.append((f"router {other}", replace(setup, router=other)))
    half = limits.max_num_batched_tokens // 2
    if half >= max(256, limits.max_num_seqs):
        changed = limits._replace(max_num_batched_tokens=half)
        found.append((f"max_num_batched_tokens {half:,}", replace(setup, limits=changed)))
    seats = max(limits.max_num_seqs // 2, 1)
    if seats < limits.max_num_seqs:
        changed = limits._replace(max_num_seqs=seats)
        found.append((f"max_num_seqs {seats:,}", replace(setup, limits=changed)))
    return found


def _requests(run: StagedRun) -> tuple[Traffic, NDArray[np.int64]]:
    of = run.records
    rows = np.flatnonzero(of.completed)
    start, prompt, output = of.start_s[rows], of.prompt_tokens[rows], of.output_tokens[rows]
    for name, column in (("arrival times", start), ("prompt", prompt), ("output lengths", output)):
        if not (column.size and np.isfinite(column).all()):
            raise InputError(
                f"{run.name}: the data do not tell {name} of every request, so it cannot be"
                " simulated again; leave --scenario out"
            )
    order = np.argsort(start, kind="stable")
    begin = float(start.min())
    traffic = Traffic(
        np.rint((start[order] - begin) * 1e12).astype(np.int64),
        np.zeros(rows.size, np.int32),
        np.maximum(prompt[order], 1).astype(np.int32),
        np.maximum(output[order], 1).astype(np.int32),
    )
    return traffic, traffic.output.astype(np.int64)


def _serve(
    setup: PoolSetup, traffic: Traffic, *, stages: bool
) -> tuple[EngineTraffic, FleetRecords]:
    asked, engines = engine_question(
        setup.law,
        setup.limits,
        None,
        traffic,
        Replicas(setup.replicas, setup.router, None, setup.ranks, setup.stages),
    )
    return asked, simulate_fleet(asked, engines, stages=stages, max_steps=NO_LIMIT)


def _simulated_misses(
    setup: PoolSetup, traffic: Traffic, due: Due, failed: int
) -> tuple[MissCause, ...]:
    """Charge the misses of the unchanged simulation; failed requests stay failed."""
    asked, records = _serve(setup, traffic, stages=True)
    done = np.flatnonzero(records.finish >= 0)
    n = asked.arrival.size + failed
    steps = np.maximum(asked.output[done].astype(np.int64) - 1, 0)
    first, whole, gap = (
        np.full(done.size, NEVER if by is None else round(by * 1e12), np.int64)
        for by in (due.ttft_s, due.e2e_s, due.max_itl_s)
    )
    rest = np.full(done.size, NEVER) if due.tpot_s is None else round(due.tpot_s * 1e12) * steps
    split = split_of(records, asked.arrival, done, setup.path_ps)
    allowed = Allowed(first, rest, whole, gap, SimulatedGaps.of(records, done))
    totals = {name: float(share.sum()) for name, share in charge(split, allowed).items()}
    totals["failed"] = float(n - done.size)
    missed = sum(totals.values())
    rows = [
        MissCause(cause=name, share=total / n, of_misses=total / missed)
        for name, total in totals.items()
        if total > 0
    ]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.cause)))


def _attained(
    setup: PoolSetup, traffic: Traffic, output: NDArray[np.int64], due: Due, failed: int
) -> float:
    asked, records = _serve(setup, traffic, stages=False)
    done = records.finish >= 0
    ttft = (records.first_token - asked.arrival + setup.path_ps) * 1e-12
    rest = (records.finish - records.first_token) * 1e-12
    good = done.copy()
    if due.ttft_s is not None:
        good &= ttft <= due.ttft_s
    if due.tpot_s is not None:
        good &= rest <= due.tpot_s * np.maximum(output - 1, 0)
    if due.e2e_s is not None:
        good &= ttft + rest <= due.e2e_s
    if due.max_itl_s is not None:
        good &= records.max_token_gap * 1e-12 <= due.max_itl_s
    return float(good.sum() / (good.size + failed))
