"""The targets by name, what each writes, and whether a folder still says what the plan does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.exports import lws, vllm
from planner.exports.facts import facts_of, file_name
from planner.exports.readme import readme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from planner.exports.facts import PoolFacts
    from planner.exports.options import ExportOptions
    from planner.fleet import FleetPlan, Pool

    Writer = Callable[[FleetPlan, Pool, ExportOptions], str]
    Reader = Callable[[str], PoolFacts]


_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")


def _config(_plan: FleetPlan, pool: Pool, options: ExportOptions) -> str:
    return vllm.config_text(pool, options)


TARGETS: Final[Mapping[str, tuple[Writer, Reader]]] = {
    "vllm": (_config, vllm.read_config),
    "lws": (lws.manifest_text, lws.read_manifest),
}


def export(plan: FleetPlan, targets: Sequence[str], options: ExportOptions) -> dict[str, str]:
    """Write what creates a plan's fleet.

    Args:
        plan: A plan with pools.
        targets: Names of :data:`TARGETS`.
        options: What the plan does not know.

    Returns:
        Texts by path in the output folder.

    Raises:
        InputError: The plan has no pools, or something cannot be exported; one line per mistake.
    """
    if not plan.pools:
        raise InputError("the plan has no pools; there is nothing to export")
    found: dict[str, str] = {}
    told: dict[str, None] = dict.fromkeys(_odd_ids(plan))
    for target in targets:
        write, read = TARGETS[target]
        for pool in plan.pools:
            try:
                text = write(plan, pool, options)
            except InputError as error:
                told.update(dict.fromkeys(str(error).splitlines()))
                continue
            if read(text) != facts_of(pool):  # what is written must be readable as what was meant
                raise AssertionError(f"{target}: {pool.id} does not come back as it went out")
            found[f"{target}/{file_name(pool.id)}.yaml"] = text
    if told:
        raise InputError("\n".join(told))
    found["README.md"] = readme(plan, targets, options)
    return found


def _odd_ids(plan: FleetPlan) -> Iterator[str]:
    """Refuse ids that no scenario can have: they go into commands that people copy."""
    for result in plan.workloads:
        if _SLUG.fullmatch(result.id) is None:
            yield f"workload {result.id!r}: is no id of a scenario; was the plan written by hand?"


def check(plan: FleetPlan, target: str, texts: Mapping[str, str]) -> list[str]:
    """Say where files of a target differ from the plan; nothing where they create its fleet.

    Args:
        plan: The plan.
        target: Name of a target.
        texts: Files by name.
    """
    read = TARGETS[target][1]
    wanted = {f"{file_name(pool.id)}.yaml": facts_of(pool) for pool in plan.pools}
    told = [f"{target}/{name}: is missing" for name in wanted if name not in texts]
    for name, text in texts.items():
        if name not in wanted:
            told.append(f"{target}/{name}: belongs to no pool of the plan")
            continue
        try:
            found = read(text)
        except ValueError as error:
            told.append(f"{target}/{name}: {error}")
            continue
        mine, its = wanted[name].model_dump(), found.model_dump()
        told += [
            f"{target}/{name}: {key}: is {its[key]}, and the plan says {mine[key]}"
            for key in mine
            if mine[key] != its[key]
        ]
    return told
