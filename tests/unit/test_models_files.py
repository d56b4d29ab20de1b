"""Every file under models/ reads, names its source, and is what its tool makes."""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from planner.catalogue import Catalogue, LengthHistogram
from planner.data import shipped
from tests.shared import SHARED, needs_shared

MODELS = shipped("models")
TOOLS = MODELS.parent / "tools"

README_LENGTHS = {
    # mean, then (quantile, tokens) of prompt and output, as published with the traces
    "azure-conversation-2023": (
        (1155, {0.5: 1020, 0.9: 2734, 0.95: 4083, 0.99: 4142}),
        (211, {0.5: 129, 0.9: 424, 0.95: 451, 0.99: 601}),
    ),
    "azure-code-2023": (
        (2048, {0.5: 1469, 0.9: 5187, 0.95: 7303, 0.99: 7436}),
        (27.9, {0.5: 13, 0.9: 55, 0.95: 90, 0.99: 251}),
    ),
}


def rows_of(name: str) -> list[dict[str, str]]:
    with (MODELS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_accelerator_reads_and_bears_its_file_name() -> None:
    catalogue = Catalogue()
    assert len(catalogue.accelerator_ids()) == 25
    for name in catalogue.accelerator_ids():
        found = catalogue.accelerator(name)
        assert found.id == name
        assert found.source
        assert found.licence
        assert found.memory_source
        off = abs(found.memory_nominal / found.memory - 1)
        assert (found.memory_note is not None) == (found.memory_basis == "reported" and off > 0.03)


def test_every_model_reads_and_its_base_exists() -> None:
    catalogue = Catalogue()
    for name in catalogue.llm_ids():
        found = catalogue.llm(name)
        assert found.id == name
        assert found.source
        assert found.licence
        if found.base is not None:
            base = catalogue.llm(found.base)
            assert base.base is None
            assert base.layers == found.layers
            assert base.kv_heads == found.kv_heads


def test_the_alias_table_is_what_the_files_say() -> None:
    catalogue = Catalogue()
    said = {
        ("accelerator", alias, name)
        for name in catalogue.accelerator_ids()
        for alias in catalogue.accelerator(name).aliases
    } | {
        ("llm", alias, name)
        for name in catalogue.llm_ids()
        for alias in catalogue.llm(name).aliases
    }
    table = [(r["kind"], r["alias"], r["id"]) for r in rows_of("aliases.csv")]
    assert set(table) == said
    assert len(table) == len(said)


def test_no_alias_hides_an_id() -> None:
    catalogue = Catalogue()
    ids = {"accelerator": set(catalogue.accelerator_ids()), "llm": set(catalogue.llm_ids())}
    for row in rows_of("aliases.csv"):
        assert row["id"] in ids[row["kind"]]
        assert row["alias"] not in ids[row["kind"]]


def test_every_step_law_names_entries_that_exist() -> None:
    catalogue = Catalogue()
    for row in catalogue.laws():
        assert row.accelerator in catalogue.accelerator_ids()
        assert row.model in catalogue.llm_ids()
        assert list(row.step_s) == sorted(row.step_s)
        degrees = row.tp_degree * row.pp_degree * row.dp_degree
        assert row.accelerators == degrees
    assert "NVIDIA" in catalogue.law_source().attribution


def test_every_price_names_a_source_with_a_licence() -> None:
    import yaml

    sources = yaml.safe_load((MODELS / "prices.yaml").read_text(encoding="utf-8"))["sources"]
    points = Catalogue().prices()
    assert len(points) == 1536
    assert {p.source for p in points} == set(sources)
    assert all(s["licence"] for s in sources.values())
    for p in points:
        assert p.confidence in ("high", "medium", "low")
        each = p.usd_per_instance_hour / p.n_accelerators
        assert p.usd_per_accelerator_hour == pytest.approx(each, rel=0.005)


def quantile_bin(histogram: LengthHistogram, side: str, share: float) -> tuple[int, int]:
    """Return the bounds of the bin in which a marginal passes a share of requests."""
    counts: dict[tuple[int, int], int] = {}
    for c in histogram.cells:
        bounds = (getattr(c, f"{side}_low"), getattr(c, f"{side}_high"))
        counts[bounds] = counts.get(bounds, 0) + c.count
    seen = 0
    for bounds in sorted(counts):
        seen += counts[bounds]
        if seen >= share * histogram.requests:
            return bounds
    raise AssertionError


@pytest.mark.parametrize("name", README_LENGTHS)
def test_a_histogram_has_the_means_and_quantiles_of_its_trace(name: str) -> None:
    histogram = Catalogue().length_histogram(name)
    means = (histogram.mean_prompt_tokens, histogram.mean_output_tokens)
    for side, mean, (published, quantiles) in zip(
        ("prompt", "output"), means, README_LENGTHS[name], strict=True
    ):
        assert mean == pytest.approx(published, rel=0.0052)  # 0.5 % and the rounding in print
        for share, tokens in quantiles.items():
            low, high = quantile_bin(histogram, side, share)
            assert low / 1.09 - 1 <= tokens <= high * 1.09 + 1
    assert (MODELS / "lengths" / f"{name}.csv").stat().st_size < 300_000


def test_bins_do_not_overlap() -> None:
    for name in README_LENGTHS:
        for side in ("prompt", "output"):
            cells = Catalogue().length_histogram(name).cells
            bounds = sorted(
                {(getattr(c, f"{side}_low"), getattr(c, f"{side}_high")) for c in cells}
            )
            assert all(a[1] < b[0] for a, b in pairwise(bounds))


@needs_shared
def test_the_tool_makes_the_same_bytes_again(tmp_path: Path) -> None:
    tool = [
        sys.executable,
        str(TOOLS / "import_catalogue.py"),
        str(SHARED),
        "--into",
        str(tmp_path),
    ]
    subprocess.run(tool, check=True)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert len(made) > 120
    for path in made:
        assert (tmp_path / path).read_bytes() == (MODELS / path).read_bytes(), path
    kept = {p.relative_to(MODELS) for p in MODELS.rglob("*") if p.is_file()}
    others = ("calibration", "node-kinds")  # fitted by another tool; written by hand
    kept = {p for p in kept if p.parts[0] not in others}
    assert kept - set(made) == {Path("README.md"), Path("NOTICE.md")}


@needs_shared
@pytest.mark.parametrize("name", README_LENGTHS)
def test_a_histogram_is_within_half_a_percent_of_the_raw_trace(name: str) -> None:
    file = {"azure-conversation-2023": "conv", "azure-code-2023": "code"}[name]
    path = SHARED / "data/traces" / f"AzureLLMInferenceTrace_{file}.csv"
    with path.open(newline="") as opened:
        requests = list(csv.DictReader(opened))
    histogram = Catalogue().length_histogram(name)
    assert histogram.requests == len(requests)
    for mean, column in (
        (histogram.mean_prompt_tokens, "ContextTokens"),
        (histogram.mean_output_tokens, "GeneratedTokens"),
    ):
        truth = sum(int(r[column]) for r in requests) / len(requests)
        assert mean == pytest.approx(truth, rel=0.005)


def test_every_node_holds_known_devices_and_its_domain_is_no_larger_than_it() -> None:
    catalogue = Catalogue()
    nodes = catalogue.nodes()
    assert len({(n.id, n.provider, n.accelerator) for n in nodes}) == len(nodes)
    known = set(catalogue.accelerator_ids())
    for n in nodes:
        assert n.n_accelerators >= 1
        assert n.scaleup_domain is None or 1 <= n.scaleup_domain <= n.n_accelerators
        assert (n.scaleup_domain is not None) == (n.accelerator in known)
    (p5,) = [n for n in catalogue.nodes("h100-sxm") if n.id == "p5.48xlarge"]
    assert (p5.n_accelerators, p5.scaleup_domain) == (8, 8)
