"""Tensor parallel over PCIe: measured to lose to devices of their own, and never taken for NVLink.

The measurements are a user's: four H200 without NVLink served Qwen3-30B-A3B at 0.65 times the
throughput of one of them; two cards over PCIe serve less together than either alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.catalogue import Catalogue
from planner.curves.curve import Curve, find_curve
from planner.curves.link import Across, joined_by, over_link
from planner.curves.roofline import Degrees
from planner.curves.transfer import Configuration, StepLawLibrary
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.topology import Link, NodeShape

if TYPE_CHECKING:
    from pathlib import Path

CATALOGUE = Catalogue()


def shape(transport: str, rate: float) -> NodeShape:
    link = Link(transport=transport, bytes_per_s=rate, latency_s=1e-5)
    return NodeShape(accelerator="h100-sxm", devices=8, scaleup_devices=8, scaleup=link)


def test_four_devices_over_pcie_serve_less_than_half_of_one_each() -> None:
    library = StepLawLibrary(CATALOGUE)
    pcie = joined_by(CATALOGUE.accelerator("h200-sxm"), 64e9, "pcie")
    llm = CATALOGUE.llm("qwen3-30b-a3b")
    law = {
        tp: library.law(Configuration(llm, "bf16", pcie, "vllm", Degrees(tp))).law for tp in (1, 4)
    }
    for tokens in (1024, 2048, 8192):
        per_device = float(law[1].tokens_s(tokens)) / (4 * float(law[4].tokens_s(tokens)))
        assert per_device <= 0.5


def test_a_law_of_nvlink_is_no_law_of_pcie() -> None:
    library = StepLawLibrary(CATALOGUE)
    usual = CATALOGUE.accelerator("h100-sxm")
    llm = CATALOGUE.llm("llama-3.1-70b")

    def law(device, tp):
        return library.law(Configuration(llm, "fp8", device, "vllm", Degrees(tp)))

    pcie = joined_by(usual, 64e9, "pcie")
    assert law(usual, 4).source.startswith("library step law")
    assert law(pcie, 4).source.startswith("transfer")
    assert law(pcie, 4).law.tokens_s(2048) > 1.2 * law(usual, 4).law.tokens_s(2048)


def curve_of(tp: int) -> Curve:
    found = find_curve(CATALOGUE, "llama-3.1-70b", "fp8", "h100-sxm", "vllm", tp)
    assert isinstance(found, Curve)
    return found


def test_what_collectives_take_longer_is_added_to_every_step() -> None:
    curve = curve_of(4)
    moved = over_link(curve, shape("pcie", 64e9))
    # Two all-reduces a layer send a token's 8,192 hidden values of 2 bytes, twice, over 3/4 of
    # the devices, at 0.3 of the link's rate.
    sent = 80 * 2 * 2048 * 8192 * 4 * 3 / 4
    longer = sent / 0.3 * (1 / 64e9 - 1 / 450e9)
    found = float(moved.step_law.tokens_s(2048) - curve.step_law.tokens_s(2048))
    assert found == pytest.approx(longer, rel=1e-6)
    assert "over PCIe at 64 GB/s a device" in moved.source
    assert over_link(curve, shape("scaleup", 450e9)) is curve
    assert over_link(curve, shape("scaleup", 900e9)) is curve


@pytest.mark.parametrize(("within", "network"), [(64e9, 12.5e9 / 4), (450e9, 50e9)])
def test_over_a_network_a_scale_up_domain_sends_what_it_has_reduced(
    within: float, network: float
) -> None:
    """Eight devices in two domains of four: a device keeps a quarter, and swaps half of that."""
    curve = curve_of(8)
    transport = "pcie" if within < 450e9 else "scaleup"
    moved = over_link(curve, shape(transport, within), Across(2, network, 10e-6))
    bytes_all = 2048 * 8192 * 2
    inside = 2 * bytes_all * 3 / 4 / within
    between = 2 * bytes_all / 4 / 2 / network
    before = 2 * bytes_all * 7 / 8 / 450e9
    longer = 80 * 2 * ((inside + between - before) / 0.3 + 2 * 10e-6)
    found = float(moved.step_law.tokens_s(2048) - curve.step_law.tokens_s(2048))
    assert found == pytest.approx(longer, rel=1e-6)
    assert "the network between 2 scale-up domains" in moved.source
    assert "roofline" in moved.caveat


SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 1 s, tpot: 50 ms}
accelerators: [{id: h100-sxm, price: 3 USD/h}]
policies: {tp_degrees: [1, 2, 4, 8], max_num_batched_tokens: [2048], max_num_seqs: [64]}
topology:
  nodes: [{accelerator: h100-sxm, devices: 8, NODE}]
"""


def builds(folder: Path, node: str, scenario: str = SCENARIO):
    path = folder / "s.yaml"
    path.write_text(scenario.replace("devices: 8, NODE", node))
    found, removed = enumerate_builds(resolve(load_scenario(path), CATALOGUE), CATALOGUE)
    flat = [b for group in (found.values() if isinstance(found, dict) else [found]) for b in group]
    return {b.tp_degree: b.curve for b in flat}, removed


def test_degrees_beyond_a_scale_up_domain_cross_only_where_that_is_allowed(tmp_path: Path) -> None:
    nodes = "preset: pcie-4, count: 2, network: 12.5 GB/s"
    apart, removed = builds(tmp_path, nodes)
    assert set(apart) == {1, 2, 4}
    assert any("needs 8 devices of one scale-up domain" in r.reason for r in removed)
    allowed = SCENARIO.replace("topology:\n", "topology:\n  tp_may_cross: true\n")
    across, _ = builds(tmp_path, nodes, allowed)
    assert "the network between 2 scale-up domains at 3.125 GB/s" in across[8].source
    assert across[4].step_law == apart[4].step_law
    slow = allowed + "  links: {zone: {bandwidth: 8 GB/s, oversubscription: 2}}\n"
    assert "at 1 GB/s a device" in builds(tmp_path, nodes, slow)[0][8].source
    far = "preset: pcie-4, zone: a}, {accelerator: h100-sxm, preset: pcie-4, zone: b"
    _, lonely = builds(tmp_path, far, allowed)
    assert any("needs 2 scale-up domains with 4 free devices" in r.reason for r in lonely)


def test_a_rack_wide_link_joins_trays_as_one(tmp_path: Path) -> None:
    """Of eighteen trays of four devices eight are as near as four."""
    rack = SCENARIO.replace("h100-sxm", "gb200-nvl72").replace("1, 2, 4, 8", "4, 8, 16")
    trays, _ = builds(tmp_path, "preset: nvl72-tray, count: 18", rack)
    assert set(trays) == {4, 8}  # nobody measured sixteen
    assert not any("network" in curve.source for curve in trays.values())


def test_plans_heed_the_link_of_the_topology(tmp_path: Path) -> None:
    fast, _ = builds(tmp_path, "preset: nvlink-8")
    assumed, _ = builds(tmp_path, "devices: 8")
    assert assumed[1].step_law == fast[1].step_law
    for tp in (2, 4, 8):
        assert assumed[tp].step_law.tokens_s(2048) > fast[tp].step_law.tokens_s(2048)
        assert "PCIe" in assumed[tp].source
        assert "PCIe" not in fast[tp].source
    part, removed = builds(tmp_path, "preset: nvlink-8, free: 5, count: 2")
    assert set(part) == {1, 2, 4}
    assert any("topology's have 5 free" in r.reason for r in removed)
