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
from planner.curves.link import joined_by, over_link
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
    assert "over PCIe at 64 GB/s" in moved.source
    joined = shape("scaleup", 450e9).model_copy(update={"network_bytes_per_s": 8 * 64e9})
    across = over_link(curve, joined, crosses=True)
    assert across.step_law == moved.step_law
    assert "over the network at 64 GB/s" in across.source
    assert over_link(curve, shape("scaleup", 450e9)) is curve
    assert over_link(curve, shape("scaleup", 900e9)) is curve


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


def builds(folder: Path, node: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO.replace("devices: 8, NODE", node))
    found, removed = enumerate_builds(resolve(load_scenario(path), CATALOGUE), CATALOGUE)
    flat = [b for group in (found.values() if isinstance(found, dict) else [found]) for b in group]
    return {b.tp_degree: b.curve for b in flat}, removed


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
