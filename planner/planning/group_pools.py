"""Pools of prefill/decode groups: written as two pools of a plan, and read from it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.candidates.groups import Group, group_build, kv_bytes_per_token, mean_prompt
from planner.errors import InputError
from planner.fleet import GroupLink, LimitUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.candidates.template import Build
    from planner.fleet import Pool
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolRun

PREFILL: Final = "/prefill"
DECODE: Final = "/decode"


def front_pool(template: str, build: Build) -> str:
    """Return the id of the pool that requests come to: of a group the prefill side."""
    return template if build.group is None else template + PREFILL


def side_documents(whole: Pool, pool: PoolChoice, runs: Sequence[PoolRun]) -> tuple[Pool, ...]:
    """Split the document of a pool of groups into its two sides.

    Args:
        whole: The document as if of decode replicas.
        pool: Template and units.
        runs: Its replications.
    """
    group = pool.template.build.group
    if group is None:
        return (whole,)
    shares = [run.group for run in runs if run.group is not None]
    n = len(shares)
    busy = (sum(s.prefill_busy for s in shares) / n, sum(s.decode_busy for s in shares) / n)
    link = GroupLink(
        transport=group.link.transport,
        bandwidth_bytes_per_s=group.link.bandwidth,
        latency_s=group.link.latency,
        sharing=group.link.sharing,
        hand_off_s=group.hand_off_s,
        kv_bytes_per_token=group.kv_bytes_per_token,
        busy_share=sum(s.link_busy for s in shares) / n,
    )
    first, then = group.prefill, group.decode
    common = {
        "group": pool.template.id,
        "groups": pool.units,
        "link_class": group.link.transport,
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


def sides_to_place(pool: PoolChoice) -> Iterator[tuple[str, Build, int, int, str | None]]:
    """Yield pools of a plan that stand for a pool: build, units, replicas of each, and group."""
    name, group = pool.template.id, pool.template.build.group
    if group is None:
        yield name, pool.template.build, pool.units, 1, None
        return
    for suffix, (build, n) in zip((PREFILL, DECODE), group.sides, strict=True):
        yield name + suffix, build, pool.units, n, name


def link_uses(fleet: Fleet, study: Study) -> list[LimitUse]:
    """Return what the links of groups carry, by the means of the prompts, in bytes a second.

    What the simulation shows is ``link.busy_share`` of the decode pool: the same within chance.
    """
    uses = []
    for pool in fleet.pools:
        group = pool.template.build.group
        if group is not None:
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
    policy = problem.policies.disaggregation
    name, _, label = (plan_pool.group or "").partition("@")
    for build in builds.values():
        head, mark, tail = name.partition(f".{build.id}-d")
        n_decode, _, second = tail.partition(".")
        known = mark and head[:1] == "p" and head[1:].isdigit() and n_decode.isdigit()
        if not known or policy is None or second not in builds:
            continue
        served = set(label.split(":"))
        rates = tuple(d.rate_rps if d.id in served else 0.0 for d in problem.demands)
        other = builds[second]
        moved = kv_bytes_per_token(other, mean_prompt(study, rates))
        group = Group(
            build, other, int(head[1:]), int(n_decode), policy.link, policy.hand_off, moved
        )
        if plan_pool.groups and group.n_prefill * plan_pool.groups == plan_pool.replicas:
            return group_build(group), plan_pool.groups
    raise InputError(
        f"pool {plan_pool.id}: its group does not follow from the plan's scenario and this"
        " catalogue; plan again"
    )
