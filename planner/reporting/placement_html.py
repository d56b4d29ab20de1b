"""A plan's placement as one page: zones, racks, nodes, and which pool runs on every device."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.topology import place_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.fleet import FleetPlan, PlacedReplica
    from planner.topology import Domain, Topology

WIDTH: Final = 1240
DEVICE, GAP, ROW, HEAD, PAD, LABEL = 22, 3, 28, 26, 10, 34
"""Sizes in the picture: a device, between two, a node's row, a rack's title, its rim, node name."""
COLOURS: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#ff9da7", "#86bc57", "#5f6caf", "#d37295",
)  # fmt: skip
TAKEN: Final = "#cfcfcf"
FREE: Final = "#ffffff"

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1280px;padding:0 1rem;color:#222}
h1{font-size:1.4rem;margin-bottom:.2rem}h2{font-size:1.05rem;margin:1.4rem 0 .4rem}
p{margin:.2rem 0;color:#555}ul{list-style:none;padding:0;margin:.8rem 0;columns:2;max-width:1240px}
li{margin:.15rem 0;break-inside:avoid}
li span{display:inline-block;width:14px;height:14px;margin-right:.5rem;vertical-align:-2px;
border:1px solid #888;border-radius:3px}
svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#333}
svg text.n{font-size:10px;fill:#fff}svg text.t{font-weight:600;font-size:12px}
"""


def placement_page(plan: FleetPlan) -> str:
    """Write the page.

    Raises:
        InputError: The plan has no placement.
    """
    topology = plan.topology
    if topology is None or not plan.placement:
        raise InputError("the plan has no placement; plan a scenario with a topology")
    title = escape(f"{plan.scenario.document.get('name', 'plan')}: where it runs")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><p>Each square is an accelerator, each row a node; squares that are"
        " joined are one replica, with its number.</p>"
        f"{placement_figures(plan)}"
        f"<p>{escape(_links(topology))}</p></body></html>\n"
    )


def placement_figures(plan: FleetPlan) -> str:
    """Draw the places of a plan that has some: a legend, and a picture per zone."""
    topology = plan.topology
    if topology is None:
        return ""
    colours = {pool.id: _colour(i) for i, pool in enumerate(plan.pools)}
    held: dict[str, list[PlacedReplica]] = {}
    for row in plan.placement:
        held.setdefault(row.node, []).append(row)
    zones: dict[str, list[Domain]] = {}
    for domain in topology.domains:
        zones.setdefault(place_at(domain, "zone"), []).append(domain)
    figures = "".join(
        f"<h2>Zone {escape(zone)}: {_used(domains, held)}</h2>{_zone(zone, domains, held, colours)}"
        for zone, domains in zones.items()
    )
    return f"<ul>{''.join(_legend(plan, colours))}</ul>{figures}"


def _colour(i: int) -> str:
    """Return a colour per pool: the palette first, then hues far from one another."""
    return COLOURS[i] if i < len(COLOURS) else f"hsl({(i * 137) % 360},45%,45%)"


def _legend(plan: FleetPlan, colours: Mapping[str, str]) -> Iterator[str]:
    for pool in plan.pools:
        devices = pool.tp_degree * pool.pp_degree * pool.dp_degree
        what = f"{pool.replicas} × {pool.model} on {devices} {pool.accelerator} each"
        yield (
            f'<li><span style="background:{colours[pool.id]}"></span>{escape(what)}'
            f" <small>({escape(pool.id)})</small></li>"
        )
    yield f'<li><span style="background:{FREE}"></span>free</li>'
    yield f'<li><span style="background:{TAKEN}"></span>used by others</li>'


def _used(domains: Sequence[Domain], held: Mapping[str, Sequence[PlacedReplica]]) -> str:
    names = {d.node_name(n) for d in domains for n in range(d.nodes)}
    used = sum(len(row.devices) for name in names for row in held.get(name, ()))
    free = sum(d.free_devices for d in domains)
    return f"{used:,} of the {free:,} accelerators that the fleet may use"


def _links(topology: Topology) -> str:
    said = []
    for level, network in topology.networks.items():
        if network is not None:
            rate = "the nodes' own rate" if network.bytes_per_s is None else (
                f"{network.bytes_per_s / 1e9:g} GB/s a node"
            )  # fmt: skip
            over = f", {network.oversubscription:g} times oversubscribed" * (
                network.oversubscription > 1
            )
            said.append(f"within a {level} by {network.transport} at {rate}{over}")
    return "Links: " + "; ".join(said) + "."


def _zone(
    zone: str,
    domains: Sequence[Domain],
    held: Mapping[str, Sequence[PlacedReplica]],
    colours: Mapping[str, str],
) -> str:
    """Draw the racks of a zone side by side, as many in a row as fit."""
    parts, x, y, tallest = [], 0, 0, 0
    for domain in domains:
        width = 2 * PAD + LABEL + domain.shape.devices * (DEVICE + GAP)
        width = max(width, 7 * len(_title(domain)) + 2 * PAD)
        height = HEAD + domain.nodes * ROW + PAD
        if x and x + width > WIDTH:
            x, y, tallest = 0, y + tallest + PAD, 0
        parts.append(
            f'<g transform="translate({x} {y})">{_rack(domain, width, height, held, colours)}</g>'
        )
        x, tallest = x + width + PAD, max(tallest, height)
    return (
        f'<svg viewBox="-1 -1 {WIDTH + 2} {y + tallest + 2}" width="{WIDTH + 2}" role="img"'
        f' aria-label="{escape(zone)}">{"".join(parts)}</svg>'
    )


def _title(domain: Domain) -> str:
    place = domain.rack if domain.rack is not None else "racks not told apart"
    return f"{place} · {domain.shape.accelerator}"


def _rack(
    domain: Domain,
    width: int,
    height: int,
    held: Mapping[str, Sequence[PlacedReplica]],
    colours: Mapping[str, str],
) -> str:
    parts = [
        f'<rect width="{width}" height="{height}" rx="6" fill="#f6f6f6" stroke="#999"/>'
        f'<text class="t" x="{PAD}" y="17">{escape(_title(domain))}</text>'
    ]
    shape = domain.shape
    for group in domain.groups:
        for node in range(group.first, group.first + group.nodes):
            y = HEAD + node * ROW
            name = domain.node_name(node)
            parts.append(f'<text x="{PAD}" y="{y + 16}">n{node + 1}</text>')
            for device in range(shape.devices):
                fill = TAKEN if device < shape.devices - group.free else FREE
                parts.append(_square(device, y, fill))
            for row in held.get(name, ()):
                parts += _replica(row, y, colours[row.pool])
    per = shape.nodes_per_island
    if per > 1:
        for first in range(0, domain.nodes, per):
            parts.append(
                f'<rect x="{PAD + LABEL - 4}" y="{HEAD + first * ROW - 3}" fill="none" rx="4"'
                f' width="{shape.devices * (DEVICE + GAP) + 5}" height="{per * ROW - 1}"'
                ' stroke="#333" stroke-width="1.5"><title>one scale-up domain</title></rect>'
            )
    return "".join(parts)


def _square(device: int, y: int, fill: str) -> str:
    x = PAD + LABEL + device * (DEVICE + GAP)
    return (
        f'<rect x="{x}" y="{y}" width="{DEVICE}" height="{DEVICE}" rx="3" fill="{fill}"'
        ' stroke="#bbb"/>'
    )


def _replica(row: PlacedReplica, y: int, colour: str) -> Iterator[str]:
    """Draw runs of neighbouring devices as one box each, with the replica's number."""
    runs: list[list[int]] = []
    for device in sorted(row.devices):
        if runs and runs[-1][-1] == device - 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    for run in runs:
        x = PAD + LABEL + run[0] * (DEVICE + GAP)
        width = len(run) * (DEVICE + GAP) - GAP
        devices = ", ".join(map(str, row.devices))
        yield (
            f"<g><title>{escape(row.pool)}, replica {row.replica}: {escape(row.node)}, devices"
            f' {devices}</title><rect x="{x}" y="{y}" width="{width}" height="{DEVICE}" rx="3"'
            f' fill="{colour}" stroke="#222" stroke-width="0.6"/><text class="n"'
            f' text-anchor="middle" x="{x + width / 2}" y="{y + 15}">{row.replica}</text></g>'
        )
