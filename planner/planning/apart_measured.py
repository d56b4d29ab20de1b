"""What the dollar lines rest on: coarse searches of a group with one cause less after the other.

All run on the same draw, and all are scaled by what a full measurement says of the group as it is:
errors that they share cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.candidates.groups import Group, group_build, kv_bytes_per_token
from planner.candidates.meanfield import coarse_bounds, moments
from planner.planning.apart_lines import Apart, Sides, Together
from planner.scenario.disaggregation import KvLink
from planner.simulation.capacity import coarse_capacity
from planner.simulation.undisturbed import undisturbed_capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.candidates.template import Build
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.simulation.draw import Draw
    from planner.simulation.fleet import Study

ABUNDANCE: Final = 4
"""How many times the replicas of the side that is not to limit a group."""
DRAWN: Final = 4_000
MOST_SHARED: Final = 1e-6
"""Least share of a prompt's time that decode is left with in a shared replica, so that a rate can
be told."""


def measure_together(answer: Answer, fleet: Fleet, capacity: dict[str, float]) -> list[Together]:
    """Measure the pools of a fleet whose replicas do both.

    Args:
        answer: The question.
        fleet: The pools.
        capacity: Of a unit of each template, req/s.
    """
    builds, _ = enumerate_builds(answer.problem, answer.catalogue)
    return [_together(answer, pool, capacity[pool.template.id], builds) for pool in fleet.pools]


def _together(answer: Answer, pool: PoolChoice, kappa: float, builds: Sequence[Build]) -> Together:
    """Forgive interference, with the chunks that are then best: small ones only hold it down."""
    own, mix = pool.template.build, pool.template.mix_rps
    alike = [
        b
        for b in builds
        if (b.model, b.hardware, b.max_num_seqs, b.priority)
        == (own.model, own.hardware, own.max_num_seqs, own.priority)
        and b.max_num_batched_tokens != own.max_num_batched_tokens
    ]
    runs, router = answer.effort.screen_requests, answer.problem.policies.router
    study = answer.study
    as_it_is = coarse_capacity(study, setup_of(own, 1, router), mix, kappa, runs) or kappa
    best, calm = own, as_it_is
    for build in (own, *alike):
        found = undisturbed_capacity(study, setup_of(build, 1, router), mix, as_it_is, runs)
        if found > calm:
            best, calm = build, found
    draw = study.draws.get(mix, DRAWN, 0, 0)
    prompts = moments(draw.prompt, np.ones_like(draw.output), best.max_num_batched_tokens)
    (bound,) = coarse_bounds([best], [prompts], [math.inf])
    calm *= kappa / as_it_is
    prompt_s = min(1 / bound.load_rps, 1 / calm)
    sides = prompt_s, max(1 / calm - prompt_s, MOST_SHARED * prompt_s)
    policy = answer.problem.policies.disaggregation
    if policy is not None and best.priority is None and not best.step_wise:
        bytes_per_token = kv_bytes_per_token(best, float(draw.prompt.mean()))
        link = KvLink.model_construct(bandwidth=math.inf, latency=0.0)
        both = Group(best, best, 1, 1, link, 0.0, bytes_per_token)
        alone = [
            1 / (_coarse(answer, one, mix, calm) or calm)
            for one in (_busy_prefill(both), _busy_decode(both))
        ]
        sides = max(alone[0], prompt_s), alone[1]
    return Together(
        load_rps=sum(pool.load_rps),
        unit_usd_per_hour=own.usd_per_hour,
        capacity_rps=kappa,
        calm_rps=calm,
        prompt_s=prompt_s,
        as_prefill_rps=1 / sides[0],
        as_decode_rps=1 / sides[1],
    )


def _coarse(answer: Answer, group: Group, mix: tuple[float, ...], guess: float) -> float:
    setup = setup_of(group_build(group), 1, answer.problem.policies.router)
    return coarse_capacity(answer.study, setup, mix, guess, answer.effort.screen_requests)


def _without_a_way(group: Group) -> Group:
    """Return a group whose link takes no time."""
    link = group.link.model_copy(update={"bandwidth": math.inf, "latency": 0.0})
    return replace(group, link=link)


def _busy_prefill(group: Group) -> Group:
    """Return the group that its prefill side alone limits."""
    free = replace(_without_a_way(group), hand_off_s=0.0)
    return replace(free, n_decode=ABUNDANCE * group.n_decode)


def _busy_decode(group: Group) -> Group:
    """Return the group that its decode side alone limits."""
    free = replace(_without_a_way(group), hand_off_s=0.0)
    return replace(free, n_prefill=ABUNDANCE * group.n_prefill)


def measure_apart(answer: Answer, pool: PoolChoice, kappa: float) -> Apart:
    """Measure a pool of groups.

    Args:
        answer: The question.
        pool: Its template is of groups.
        kappa: Capacity of a group, req/s.
    """
    group = pool.template.build.group
    assert group is not None  # the caller gives a pool of groups
    mix = pool.template.mix_rps

    def coarse(one: Group) -> float:
        return _coarse(answer, one, mix, kappa)

    return Apart(
        load_rps=sum(pool.load_rps),
        n_prefill=group.n_prefill,
        n_decode=group.n_decode,
        prefill_usd_per_hour=group.prefill.usd_per_hour,
        decode_usd_per_hour=group.decode.usd_per_hour,
        rps=sides_of_group(group, kappa, held_at_most(answer.study, mix, kappa), coarse),
    )


@dataclass(frozen=True, slots=True)
class Held:
    """Tokens that the requests of a group hold at most while they keep their deadlines."""

    prefill: float
    """Of prompts before their first token, all prefill replicas together."""
    decode: float


def held_at_most(study: Study, mix_rps: tuple[float, ...], load_rps: float) -> Held:
    """Return what requests hold if each stays as long as its deadlines let it (Little)."""
    draw: Draw = study.draws.get(mix_rps, DRAWN, 0, 0)
    prompt, output = draw.prompt.astype(float), draw.output.astype(float)
    before = study.deadlines.ttft_limit_ps(draw.workload, draw.prompt) * 1e-12
    after = study.deadlines.decode_limit_ps(draw.workload, draw.output) * 1e-12
    return Held(
        load_rps * float((prompt * before).mean()),
        load_rps * float(((prompt + output / 2) * after).mean()),
    )


def sides_of_group(
    group: Group, kappa: float, held: Held, coarse: Callable[[Group], float]
) -> Sides:
    """Search a group with one cause less after the other.

    Args:
        group: As it is.
        kappa: Its capacity by a full measurement, req/s.
        held: What its requests hold.
        coarse: Returns the capacity of a group by a short search, req/s; what is found without
            a cause is never told to be less than with it, for nobody must use what is free.
    """
    hop = _without_a_way(group)
    many_decode, many_prefill = _busy_prefill(group), _busy_decode(group)
    copies = group.n_prefill * _weights_bytes(group.prefill)
    idle_prefill = _idle_bytes(group.prefill, group.n_prefill, held.prefill)
    idle_decode = _idle_bytes(group.decode, group.n_decode, held.decode)
    once = with_more_cache(group.decode, copies / group.n_decode)
    roomy = with_more_cache(group.decode, (copies + idle_prefill) / group.n_decode)
    lent = with_more_cache(group.prefill, idle_decode / group.n_prefill)

    def at_least(one: Group, least: float) -> float:
        return max(coarse(one), least)

    as_it_is = coarse(group) or kappa
    at_hop = at_least(hop, as_it_is)
    at_free = at_least(replace(hop, hand_off_s=0.0), at_hop)
    prefill = at_least(many_decode, at_free)
    prefill_roomy = at_least(replace(many_decode, prefill=lent), prefill)
    decode = at_least(many_prefill, at_free)
    decode_once = at_least(replace(many_prefill, decode=once), decode)
    decode_roomy = at_least(replace(many_prefill, decode=roomy), decode_once)
    scale = kappa / as_it_is
    return Sides(
        group=kappa,
        hop=at_hop * scale,
        free=at_free * scale,
        prefill=prefill * scale / group.n_prefill,
        prefill_roomy=prefill_roomy * scale / group.n_prefill,
        decode=decode * scale / group.n_decode,
        decode_once=decode_once * scale / group.n_decode,
        decode_roomy=decode_roomy * scale / group.n_decode,
    )


def _weights_bytes(build: Build) -> float:
    """Return bytes of the weights of a replica, all its devices."""
    return build.devices_per_replica * build.curve.room().reserve.weights_bytes


def _idle_bytes(build: Build, replicas: int, held_tokens: float) -> float:
    """Return bytes of the cache of a side that nobody needs, all its replicas together."""
    idle = max(replicas * build.kv_tokens - held_tokens, 0.0)
    return idle * build.devices_per_replica * build.curve.room().kv_bytes_per_token


def with_more_cache(build: Build, spare_bytes: float) -> Build:
    """Return a build whose replica has so many bytes of cache more, over all its devices."""
    limits, per_token = build.limits, build.curve.room().kv_bytes_per_token
    tokens = spare_bytes / build.devices_per_replica / per_token
    more = int(tokens) // limits.block_size
    return replace(build, limits=limits._replace(kv_blocks=limits.kv_blocks + more))
