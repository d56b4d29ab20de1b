"""Kubernetes: one LeaderWorkerSet (leaderworkerset.x-k8s.io/v1) per pool, and back.

The classes below are a reduced schema, written from the published description of the resource:
what an export uses, and nothing else, so that an unknown key is a mistake here even where a cluster
would drop it in silence. A replica that needs several nodes is not exported: how its engine starts
across nodes is not in a plan.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.errors import InputError
from planner.exports.facts import PoolFacts, Whole, devices_of, facts_of, file_name
from planner.exports.vllm import arguments, config_of_arguments, facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.exports.options import ExportOptions
    from planner.fleet import FleetPlan, Pool

VERSION: Final = "leaderworkerset.x-k8s.io/v1"
POOL: Final = "planner.pool"
ROLE: Final = "planner.role"
KIND: Final = "planner.accelerator"
ENGINE: Final = "planner.engine"
PORT: Final = 8000
RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu")
Name = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,51}[a-z0-9])?$")]
Label = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Metadata(_Closed):
    name: Name
    labels: dict[str, Label]
    annotations: dict[str, str]


class _PodMetadata(_Closed):
    labels: dict[str, Label]


class _Port(_Closed):
    name: Literal["http"]
    containerPort: Literal[8000]  # noqa: N815 - the resource's own spelling


class _HttpGet(_Closed):
    path: Literal["/health"]
    port: Literal["http"]


class _Probe(_Closed):
    httpGet: _HttpGet  # noqa: N815
    periodSeconds: Whole  # noqa: N815
    failureThreshold: Whole  # noqa: N815


class _Resources(_Closed):
    limits: dict[Literal["nvidia.com/gpu", "amd.com/gpu"], Whole] = Field(
        min_length=1, max_length=1
    )


class _Container(_Closed):
    name: Literal["server"]
    image: Annotated[str, Field(min_length=1)]
    command: Annotated[list[Literal["vllm", "serve"]], Field(min_length=2, max_length=2)]
    args: Annotated[list[str], Field(min_length=1)]
    ports: Annotated[list[_Port], Field(min_length=1, max_length=1)]
    resources: _Resources
    startupProbe: _Probe  # noqa: N815
    readinessProbe: _Probe  # noqa: N815


class _PodSpec(_Closed):
    nodeSelector: dict[str, Label] | None = None  # noqa: N815
    containers: Annotated[list[_Container], Field(min_length=1, max_length=1)]


class _PodTemplate(_Closed):
    metadata: _PodMetadata
    spec: _PodSpec


class _LeaderWorkerTemplate(_Closed):
    size: Literal[1]
    restartPolicy: Literal["RecreateGroupOnPodRestart"]  # noqa: N815
    workerTemplate: _PodTemplate  # noqa: N815


class _Spec(_Closed):
    replicas: Whole
    startupPolicy: Literal["LeaderCreated"]  # noqa: N815
    leaderWorkerTemplate: _LeaderWorkerTemplate  # noqa: N815


class LeaderWorkerSet(_Closed):
    """The resource, as far as it is used here."""

    apiVersion: Literal["leaderworkerset.x-k8s.io/v1"]  # noqa: N815
    kind: Literal["LeaderWorkerSet"]
    metadata: _Metadata
    spec: _Spec


def manifest(plan: FleetPlan, pool: Pool, options: ExportOptions) -> dict[str, Any]:
    """Return the resource of a pool.

    Raises:
        InputError: A replica does not fit on a node, or the user must say more.
    """
    from planner.catalogue import Catalogue

    if options.image is None:
        raise InputError(f"pool {pool.id}: name the container image with the engine: --image")
    kind = Catalogue().accelerator(pool.accelerator)
    devices = devices_of(facts_of(pool))
    _require_one_node(plan, pool, devices)
    selector = options.selectors.get(pool.accelerator)
    if selector is None and len({p.accelerator for p in plan.pools}) > 1:
        raise InputError(
            f"pool {pool.id}: the fleet has several kinds of accelerators; say by which label its"
            f" nodes are known: --node-selector {pool.accelerator}=LABEL=VALUE"
        )
    resource = "amd.com/gpu" if "amd" in str(kind.vendor).lower() else "nvidia.com/gpu"
    name = file_name(pool.id)
    labels = {"app.kubernetes.io/name": name, ROLE: pool.role}
    container = {
        "name": "server",
        "image": options.image,
        "command": ["vllm", "serve"],
        "args": arguments(pool, options),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"limits": {resource: devices}},
        "startupProbe": _probe(10, 180),
        "readinessProbe": _probe(5, 3),
    }
    pod: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    return {
        "apiVersion": VERSION,
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": name,
            "labels": dict(labels),
            "annotations": {POOL: pool.id, KIND: pool.accelerator, ENGINE: pool.engine},
        },
        "spec": {
            "replicas": pool.replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": 1,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "workerTemplate": {
                    "metadata": {"labels": dict(labels)},
                    "spec": {**pod, "containers": [container]},
                },
            },
        },
    }


def _require_one_node(plan: FleetPlan, pool: Pool, devices: int) -> None:
    places: dict[tuple[str, int, int | None], int] = {}
    for row in plan.placement:
        key = (row.pool, row.replica, row.unit)
        places[key] = places.get(key, 0) + 1
    several = any(n > 1 for (name, _, _), n in places.items() if name == pool.id)
    if several or pool.pp_degree > 1 or devices > 16:
        raise InputError(
            f"pool {pool.id}: a replica of {devices} accelerators stands on several nodes; how its"
            " engine starts across them is not in a plan: use the vllm target"
        )


def _probe(period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period_s,
        "failureThreshold": failures,
    }


def manifest_text(plan: FleetPlan, pool: Pool, options: ExportOptions) -> str:
    """Write the resource of a pool."""
    text: str = yaml.safe_dump(
        manifest(plan, pool, options), sort_keys=False, allow_unicode=True, width=1000
    )
    return f"# LeaderWorkerSet v1; engine: {json.dumps(pool.engine)}\n{text}"


def read_manifest(text: str) -> PoolFacts:
    """Recover a pool from its resource.

    Raises:
        ValueError: It is none such, or contradicts itself; all mistakes are told.
    """
    try:
        found = LeaderWorkerSet.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from error
    except ValidationError as error:
        raise ValueError(
            "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        ) from error
    pod = found.spec.leaderWorkerTemplate.workerTemplate
    container = pod.spec.containers[0]
    pool_id, role = found.metadata.annotations.get(POOL, ""), found.metadata.labels.get(ROLE, "")
    told = list(_odd_names(found, pool_id))
    kind = found.metadata.annotations.get(KIND, "")
    pool = facts(pool_id, kind, role, found.spec.replicas, config_of_arguments(container.args))
    (devices,) = container.resources.limits.values()
    if devices != devices_of(pool):
        told.append(f"a pod has {devices} accelerators, and its replica {devices_of(pool)}")
    if told:
        raise ValueError("; ".join(told))
    return pool


def _odd_names(found: LeaderWorkerSet, pool_id: str) -> Iterator[str]:
    """Say which names and labels do not belong together."""
    meta, pod = found.metadata, found.spec.leaderWorkerTemplate.workerTemplate
    if pod.spec.containers[0].command != ["vllm", "serve"]:
        yield "command: is vllm serve"
    if pod.metadata.labels != meta.labels:
        yield "labels of the pods differ from those of the set"
    if meta.name != file_name(pool_id):
        yield f"metadata.name: is not that of pool {pool_id!r}"
    if meta.labels.get("app.kubernetes.io/name") != meta.name:
        yield "label app.kubernetes.io/name: is not the set's name"
    if set(meta.annotations) != {POOL, KIND, ENGINE}:
        yield f"annotations: are {POOL}, {KIND} and {ENGINE}"
    if set(meta.labels) != {"app.kubernetes.io/name", ROLE}:
        yield f"labels: are app.kubernetes.io/name and {ROLE}"
