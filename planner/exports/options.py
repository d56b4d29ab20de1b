"""What a plan does not know and an export needs: models' places, image, connector, node labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from planner.errors import InputError, nearest
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.fleet import FleetPlan

Text = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f]+$")]


class ExportOptions(Spec):
    """Given by the user; nothing here is guessed."""

    models: dict[str, Text] = Field(default_factory=dict)
    """Where the weights of each model lie, in the precision that the plan names."""
    image: Text | None = None
    """Container image with the engine."""
    kv_connector: Text | None = None
    """The engine's connector for prefill and decode apart, such as ``NixlConnector``."""
    selectors: dict[str, dict[str, Text]] = Field(default_factory=dict)
    """Node labels by accelerator."""


def read_options(
    plan: FleetPlan,
    models: Sequence[str],
    image: str | None,
    kv_connector: str | None,
    selectors: Sequence[str],
) -> ExportOptions:
    """Read options in words.

    Args:
        plan: The plan that is exported; names that are not in it are refused.
        models: ``MODEL=LOCATION``, each.
        image: Container image.
        kv_connector: Name of the connector.
        selectors: ``ACCELERATOR=LABEL=VALUE``, each.

    Raises:
        InputError: One line per mistake.
    """
    told: list[str] = []
    found: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    for text in models:
        name, equals, place = text.partition("=")
        if not equals or not place:
            told.append(f"--model {text}: write it as MODEL=LOCATION")
        elif name not in (known := {pool.model for pool in plan.pools}):
            told.append(f"--model {name}: {nearest(name, known)}")
        else:
            found[name] = place
    for text in selectors:
        name, _, rest = text.partition("=")
        label, equals, value = rest.partition("=")
        if not equals or not label or not value:
            told.append(f"--node-selector {text}: write it as ACCELERATOR=LABEL=VALUE")
        elif name not in (kinds := {pool.accelerator for pool in plan.pools}):
            told.append(f"--node-selector {name}: {nearest(name, kinds)}")
        else:
            labels.setdefault(name, {})[label] = value
    told += [
        f"{what[:40]!r}: holds what no name may hold; write it on one line"
        for what in (*found.values(), image or "x", kv_connector or "x", *_all(labels))
        if any(ord(c) < 32 for c in what) or len(what) > 1000
    ]
    if told:
        raise InputError("\n".join(told))
    return ExportOptions(models=found, image=image, kv_connector=kv_connector, selectors=labels)


def _all(labels: dict[str, dict[str, str]]) -> Iterable[str]:
    for pairs in labels.values():
        for label, value in pairs.items():
            yield label
            yield value
