"""Pools of prefill/decode groups: written as two pools of a plan, and read from it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.groups import group_build, kv_bytes_per_token, mean_prompt, met
from planner.candidates.link_classes import meetings_of
from planner.candidates.regions import regions_of
from planner.errors import InputError
from planner.fleet import GroupLink, GroupWay, LimitUse, Quantiles
from planner.planning.ways import TakenWay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.candidates.groups import Group
    from planner.candidates.template import Build
    from planner.fleet import FleetPlan, Pool
    from planner.placement import Wanted
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study
    from planner.simulation.pool import Latencies, PoolRun
    from planner.topology import Level

PREFILL: Final = "/prefill"
DECODE: Final = "/decode"


def front_pool(template: str, build: Build) -> str:
    """Return the id of the pool that requests come to: of a group the prefill side."""
    return template if build.group is None else template + PREFILL


def side_documents(
    whole: Pool, pool: PoolChoice, runs: Sequence[PoolRun], kept: Sequence[Latencies] = ()
) -> tuple[Pool, ...]:
    """Split the document of a pool of groups into its two sides.

    Args:
        whole: The document as if of decode replicas.
        pool: Template and units.
        runs: Its replications.
        kept: Latencies of those in which they were kept.
    """
    group = pool.template.build.group
    if group is None:
        return (whole,)
    shares = [run.group for run in runs if run.group is not None]
    n = len(shares)
    busy = (sum(s.prefill_busy for s in shares) / n, sum(s.decode_busy for s in shares) / n)
    transfers = transfers_of(group, kept)
    link = GroupLink(
        transport=group.link.transport,
        bandwidth_bytes_per_s=group.link.bandwidth,
        latency_s=group.link.latency,
        sharing=group.link.sharing,
        hand_off_s=group.hand_off_s,
        kv_bytes_per_token=group.kv_bytes_per_token,
        busy_share=sum(s.link_busy for s in shares) / n,
        kv_transfer_idle_s=transfers[0] if transfers is not None else None,
        kv_transfer_s=transfers[1] if transfers is not None else None,
        ways=tuple(
            GroupWay(
                prefill=taken.way.source.id,
                decode=taken.way.target.id,
                groups=taken.units,
                share=taken.share,
                links=tuple(name for name, _ in taken.way.shared),
            )
            for taken in pool.ways
        ),
    )
    first, then = group.prefill, group.decode
    common = {
        "group": pool.template.id,
        "groups": pool.units,
        "link_class": link_class_of(group),
        "mfu": None,
        "prefix_hits": (),
        "prefix_caching": False,
        "prefix_block_tokens": None,
    }
    prefill = {
        "id": pool.template.id + PREFILL,
        "role": "prefill",
        "accelerator": first.accelerator,
        "tp_degree": first.tp_degree,
        "ep_degree": first.curve.layout.ep_degree,
        "replicas": pool.units * group.n_prefill,
        "max_num_seqs": first.max_num_seqs,
        "max_num_batched_tokens": first.max_num_batched_tokens,
        "kv_tokens": first.kv_tokens,
        "busy_share": busy[0],
    }
    decode = {
        "id": pool.template.id + DECODE,
        "role": "decode",
        "replicas": pool.units * group.n_decode,
        "kv_tokens": then.kv_tokens,
        "busy_share": busy[1],
        "link": link,
    }
    return (
        whole.model_copy(update=common | prefill),
        whole.model_copy(update=common | decode),
    )


def transfers_of(group: Group, kept: Sequence[Latencies]) -> tuple[Quantiles, Quantiles] | None:
    """Return what the KV of a pool of groups takes: on an idle link, and as it was under load.

    Args:
        group: Of the pool.
        kept: Of its replications; None is returned where they do not tell.
    """
    loaded = [one.parts.kv_transfer * 1e-12 for one in kept if one.parts is not None]
    prompts = [one.prompt.astype(np.float64) for one in kept if one.parts is not None]
    if not loaded or not sum(row.size for row in loaded):
        return None
    idle = np.asarray(group.transfer_s(np.concatenate(prompts)))
    found = []
    for row in (idle, np.concatenate(loaded)):
        p50, p90, p95, p99 = np.quantile(row, (0.5, 0.9, 0.95, 0.99)).tolist()
        found.append(Quantiles(p50=p50, p90=p90, p95=p95, p99=p99))
    return found[0], found[1]


def link_class_of(group: Group) -> str:
    """Return where the sides of a group meet and over what: ``rack-rdma``, or ``rdma`` alone."""
    return "-".join(word for word in (group.level, group.link.transport) if word)


def ways_of_plan(plan: FleetPlan, group: str, build: Build) -> tuple[TakenWay, ...]:
    """Return the ways of a pool of groups, as its decode pool in a plan has them.

    Raises:
        InputError: A way does not follow from the plan's topology.
    """
    pools = [p for p in plan.pools if p.group == group and p.link is not None]
    known = {way.id: way for way in (build.group.ways if build.group is not None else ())}
    found = []
    for one in (way for p in pools if p.link is not None for way in p.link.ways):
        way = known.get(f"{one.prefill}:{one.decode}")
        if way is None:
            raise InputError(
                f"group {group}: no way from {one.prefill} to {one.decode}; plan again"
            )
        found.append(TakenWay(way, one.groups, one.share))
    return tuple(found)


def sides_to_place(pool: PoolChoice) -> Iterator[tuple[str, Build, int, int, str | None]]:
    """Yield pools of a plan that stand for a pool: build, units, replicas of each, and group."""
    name, group = pool.template.id, pool.template.build.group
    if group is None:
        yield name, pool.template.build, pool.units, 1, None
        return
    for suffix, (build, n) in zip((PREFILL, DECODE), group.sides, strict=True):
        yield name + suffix, build, pool.units, n, name


def wanted_of(fleet: Fleet, problem: Problem, *, at_ends: bool = False) -> list[Wanted]:
    """Return what of a fleet is placed.

    Args:
        fleet: Pools and their units.
        problem: Says in which regions workloads may be served.
        at_ends: The sides of groups stand at the ends of their ways, not only as near as promised.
    """
    from planner.placement import Wanted  # the solver takes a second to load

    return [
        Wanted(
            *(pool, build.accelerator, build.devices_per_replica, units * n),
            group=group,
            per_unit=n,
            within=within_of(p),
            at=ends_of(p, pool, n) if at_ends else (),
            regions=regions_of(problem, p.template.serves),
        )
        for p in fleet.pools
        for pool, build, units, n, group in sides_to_place(p)
    ]


def within_of(pool: PoolChoice) -> Level:
    """Return the nearest common place that was promised to the sides of a group."""
    group = pool.template.build.group
    return "world" if group is None or group.level is None else group.level


def ends_of(pool: PoolChoice, side: str, replicas: int) -> tuple[tuple[str, int], ...]:
    """Return the domains in which a side of the groups stands, way by way, and how many replicas.

    Args:
        pool: Groups on their ways.
        side: Id of the side's pool in a plan.
        replicas: Of the side, in a group.
    """
    ends = [
        (taken.way.target if side.endswith(DECODE) else taken.way.source, taken.units)
        for taken in pool.ways
    ]
    return tuple((domain.id, units * replicas) for domain, units in ends)


def link_uses(fleet: Fleet, study: Study) -> list[LimitUse]:
    """Return what the links of groups carry, by the means of the prompts, in bytes a second.

    What the simulation shows is ``link.busy_share`` of the decode pool: the same within chance.
    """
    uses = []
    for pool in fleet.pools:
        group = pool.template.build.group
        if group is not None and not pool.ways:
            each = mean_prompt(study, pool.load_rps) * group.kv_bytes_per_token
            uses.append(
                LimitUse(
                    name=f"links of {pool.template.id} (bytes/s)",
                    used=sum(pool.load_rps) * each,
                    limit=pool.units * group.link.bandwidth,
                    shadow_price_usd_per_hour=None,
                )
            )
    return uses


def is_second(pool: Pool) -> bool:
    """Tell whether a pool of a plan is the side of a group that requests do not come to."""
    return pool.role == "decode"


def build_of_group(
    plan_pool: Pool, builds: Mapping[str, Build], problem: Problem, study: Study
) -> tuple[Build, int]:
    """Build a group again from its prefill pool.

    Args:
        plan_pool: The prefill pool; its ``group`` names both sides.
        builds: What the scenario can build, by id.
        problem: The plan's question.
        study: Its draws.

    Returns:
        The build, and how many groups there are.

    Raises:
        InputError: The group does not follow from the scenario.
    """
    name, _, label = (plan_pool.group or "").partition("@")
    name, _, level = name.partition(":")
    for build in builds.values():
        head, mark, tail = name.partition(f".{build.id}-d")
        n_decode, _, second = tail.partition(".")
        known = mark and head[:1] == "p" and head[1:].isdigit() and n_decode.isdigit()
        if not known or problem.policies.disaggregation is None or second not in builds:
            continue
        served = set(label.split(":"))
        rates = tuple(d.rate_rps if d.id in served else 0.0 for d in problem.demands)
        other = builds[second]
        prompt = mean_prompt(study, rates)
        sides = (build, int(head[1:])), (other, int(n_decode))
        meeting = next((m for m in meetings_of(problem, sides) if m.level == (level or None)), None)
        if meeting is None:
            continue
        group = met(problem, sides, meeting, kv_bytes_per_token(other, prompt), prompt)
        if plan_pool.groups and group.n_prefill * plan_pool.groups == plan_pool.replicas:
            return group_build(group), plan_pool.groups
    raise InputError(
        f"pool {plan_pool.id}: its group does not follow from the plan's scenario and this"
        " catalogue; plan again"
    )
