"""Whether the pools of a plan say of themselves what their templates are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.candidates.template import Build
    from planner.fleet import Pool

FIELDS: Final = (
    "replicas",
    "model",
    "accelerator",
    "precision",
    "tp_degree",
    "pp_degree",
    "ep_degree",
    "dp_degree",
    "max_num_seqs",
    "max_num_batched_tokens",
)
"""Of a pool, that follow from its template."""


def require_own_fields(pools: Iterable[tuple[Pool, Build, int]]) -> None:
    """Require that pools are what their ids say: a simulation goes by the ids.

    Args:
        pools: Each pool, with the build and the number of its replicas as they are rebuilt; of a
            group, those of its side.

    Raises:
        InputError: A pool says otherwise, as only a hand writes it; one line per field.
    """
    told = [line for each in pools for line in _differing(*each)]
    if told:
        raise InputError("\n".join(told))


def _differing(pool: Pool, build: Build, replicas: int) -> Iterator[str]:
    layout = build.curve.layout
    own = {
        "replicas": replicas,
        "pp_degree": layout.pp_degree,
        "ep_degree": layout.ep_degree,
        "dp_degree": layout.dp_degree,
    }
    for field in FIELDS:
        said, is_so = getattr(pool, field), own.get(field, getattr(build, field, None))
        if said != is_so:
            yield (
                f"pool {pool.id}: {field}: is {said}, and in its template and group it is"
                f" {is_so}; change the scenario and plan again"
            )
