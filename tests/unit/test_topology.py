"""Places of nodes: names, nearest common places, links, and what they carry."""

from pathlib import Path

import pytest

from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.spec import dump_json
from planner.topology import (
    Topology,
    bytes_per_s_out,
    common_level,
    islands,
    link_between,
    link_class,
    place_at,
    transfer_s,
)

CATALOGUE = Catalogue()

HEAD = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-8b
    origin: town
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 100}, output: {fixed: 10}}
    slo: {ttft: 1 s, tpot: 50 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
  - {id: l40s, price: 1 USD/h, stock: 12}
topology:
"""
PLACES = """\
  nodes:
    - {accelerator: h100-sxm, preset: nvlink-8, count: 4, region: eu, zone: eu-a, racks: 2}
    - {accelerator: h100-sxm, preset: nvlink-8, count: 2, region: eu, zone: eu-b, rack: r, free: 3}
    - {accelerator: h100-sxm, preset: nvlink-8, count: 1, region: eu, zone: eu-b, rack: r}
    - {accelerator: l40s, devices: 4, count: 5, region: us, zone: us-a}
  links:
    zone: {bandwidth: 40 GB/s, oversubscription: 2}
    region: {bandwidth: 3 GB/s, latency: 1 ms, transport: tcp, oversubscription: 4}
  users:
    - {origin: town, round_trip: {eu: 20 ms, us: 100 ms}}
"""


def problem(folder: Path, places: str = PLACES):
    path = folder / "s.yaml"
    path.write_text(HEAD + places)
    return resolve(load_scenario(path), CATALOGUE)


def test_domains_are_named_by_place_and_entries_of_one_place_are_joined(tmp_path: Path) -> None:
    topology = problem(tmp_path).topology
    assert [(d.id, d.nodes, d.free_devices) for d in topology.domains] == [
        ("eu-a.rack1.h100-sxm", 4, 32),
        ("eu-a.rack2.h100-sxm", 4, 32),
        ("eu-b.r.h100-sxm", 3, 14),
        ("us-a.l40s", 5, 20),
    ]
    assert islands(topology.domain("eu-b.r.h100-sxm")) == ((8, 1), (3, 2))
    assert topology.domain("us-a.l40s").node_name(0) == "us-a.l40s.n1"
    assert topology.regions == ("eu", "us")


def test_stock_is_what_nodes_and_offer_both_have(tmp_path: Path) -> None:
    assert [s.stock for s in problem(tmp_path).supplies] == [32 + 32 + 14, 12]


def test_pcie_is_assumed_and_said_where_nothing_says_what_joins_devices(tmp_path: Path) -> None:
    topology = problem(tmp_path).topology
    shape = topology.domain("us-a.l40s").shape
    assert (shape.assumed_pcie, shape.scaleup.transport) == (True, "pcie")
    assert shape.scaleup.bytes_per_s == 32e9  # of its file in models/accelerators
    assert topology.notes == (
        "topology.nodes.3: nothing says what joins the 4 devices of a l40s node: PCIe is assumed",
        "topology.links.world is not given: nothing is moved between regions",
    )
    bare = "  nodes: [{accelerator: h100-sxm, devices: 8}, {accelerator: l40s, preset: pcie-8}]\n"
    users = "  users: [{origin: town, round_trip: {region: 1 ms}}]\n"
    first = problem(tmp_path, bare + users).topology.domains[0].shape
    assert (first.scaleup.transport, first.scaleup.bytes_per_s) == ("pcie", 64e9)


def test_links_follow_the_nearest_common_place(tmp_path: Path) -> None:
    t = problem(tmp_path).topology
    one, two, other, far = t.domains
    assert common_level(one, one) == "rack"
    assert common_level(one, two) == "zone"
    assert common_level(one, other) == "region"
    assert common_level(one, far) == "world"
    assert common_level(far, far) == "zone"  # racks are not told apart
    link = link_between(t, one, one)
    assert (link.id, link.bytes_per_s, link.latency_s) == ("rack-rdma", 8 * 50e9, 10e-6)
    link = link_between(t, one, other)
    assert (link.id, link.bytes_per_s, link.latency_s) == ("region-tcp", 3e9, 1e-3)
    assert transfer_s(link, 6e9) == pytest.approx(2.001)
    assert transfer_s(link, 6e9, sharing=2) == pytest.approx(4.001)
    assert link_between(t, one, far) is None
    assert link_class(t, "scaleup", one, one).bytes_per_s == 450e9


def test_oversubscription_bounds_what_leaves_a_place(tmp_path: Path) -> None:
    t = problem(tmp_path).topology
    one = t.domains[0]
    assert bytes_per_s_out(t, "node", one.id) == 4 * 400e9
    assert bytes_per_s_out(t, "rack", place_at(one, "rack")) == 4 * 40e9 / 2
    assert bytes_per_s_out(t, "zone", place_at(one, "zone")) == 8 * 3e9 / 4
    assert bytes_per_s_out(t, "region", "eu") == 0


def test_a_rack_wide_link_makes_one_domain_of_its_trays(tmp_path: Path) -> None:
    places = (
        "  nodes:\n    - {accelerator: h100-sxm, preset: nvlink-8}\n"
        "    - {accelerator: l40s, devices: 2, count: 6, rack: r, network: 10 GB/s,"
        " link: {technology: scaleup, devices: 6, bandwidth: 100 GB/s}}\n"
        "  users: [{origin: town, round_trip: {region: 1 ms}}]\n"
    )
    domain = problem(tmp_path, places).topology.domains[1]
    assert islands(domain) == ((6, 2),)
    assert common_level(domain, domain) == "rack"
    half = domain.model_copy(update={"groups": (domain.groups[0].model_copy(update={"nodes": 3}),)})
    assert common_level(half, half) == "scaleup"


def test_the_document_reads_back(tmp_path: Path) -> None:
    topology = problem(tmp_path).topology
    assert Topology.model_validate_json(dump_json(topology)) == topology
    assert topology.round_trip_s("town", "us") == 0.1
    assert topology.round_trip_s(None, "us") == 0


def test_every_shipped_node_kind_says_its_source() -> None:
    kinds = {kind.id: kind for kind in CATALOGUE.node_kinds()}
    assert kinds["nvlink-8"].scaleup_devices == 8
    assert (kinds["nvl72-tray"].devices, kinds["nvl72-tray"].scaleup_devices) == (4, 72)
    for kind in kinds.values():
        assert kind.source
        assert kind.licence
        assert (kind.link == "pcie") == kind.id.startswith("pcie")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "nvlink-8, count: 1",
            "nvlink-9, count: 1",
            "17:31: topology.nodes.2.preset: no node is called 'nvlink-9'; did you mean 'nvlink-8'",
        ),
        (
            "preset: nvlink-8, count: 1,",
            "preset: pcie-8, count: 1,",
            "17:7: topology.nodes.2: devices of h100-sxm are joined otherwise in",
        ),
        ("free: 3", "free: 9", "16:92: topology.nodes.1.free: a node has 8 devices; got 9"),
        ("devices: 4, ", "", "18:7: topology.nodes.3: give a preset, or the devices of a node"),
        (
            "accelerator: l40s, devices: 4",
            "accelerator: l40s, preset: nvlink-8",
            "18:27: topology.nodes.3.preset: l40s has no scale-up link",
        ),
        ("origin: town, round", "origin: city, round", "6:5: workloads.0.origin: topology.users"),
        ("us: 100 ms", "as: 100 ms", "no node stands in region 'as'"),
        (", us: 100 ms", "", "region 'us' has nodes but no round trip; add it"),
        ("region: us", "region: us, rack: x, zoned: 1", "zoned: unknown key"),
        ("zone: us-a", "zone: eu-a", "18:61: topology.nodes.3.zone: zone 'eu-a' lies in region"),
        ("latency: 1 ms, ", "", "21:5: topology.links.region: tcp has no usual latency"),
        ("oversubscription: 2", "oversubscription: 0.5", "must be at least 1; got 0.5"),
        ("region: us", "region: us, network: 0 B/s", "topology.nodes.3.network: must be above 0"),
        ("count: 5", "count: 200001", "must be at most 200,000; got 200001"),
        ("accelerator: l40s", "accelerator: l4", "12:6: accelerators.1.id: no node of the"),
        ("accelerator: l40s", "accelerator: l4", "l4 has no price; add it to accelerators"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in PLACES
    with pytest.raises(InputError) as error:
        problem(tmp_path, PLACES.replace(old, new))
    assert told in str(error.value)


def test_an_origin_needs_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.removesuffix("topology:\n"))
    with pytest.raises(InputError, match=r"s.yaml:6:5: workloads.0.origin: .*none is known"):
        resolve(load_scenario(path), CATALOGUE)
