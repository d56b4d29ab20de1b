"""Names resolve to one entry or are refused; tables answer what they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.catalogue import Catalogue, LengthCell, LengthHistogram
from planner.data import shipped
from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.mark.parametrize(
    ("spelling", "accelerator"),
    [
        ("h100-sxm", "h100-sxm"),
        ("h100_sxm", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("gb200", "gb200-nvl72"),
        ("a100_sxm", "a100-80g-sxm"),
        ("h200", "h200-sxm"),
    ],
)
def test_an_accelerator_has_many_spellings(
    catalogue: Catalogue, spelling: str, accelerator: str
) -> None:
    assert catalogue.accelerator(spelling).id == accelerator


@pytest.mark.parametrize(
    ("spelling", "llm"),
    [
        ("llama-3.1-70b", "llama-3.1-70b"),
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("DeepSeek-R1", "deepseek-r1"),
    ],
)
def test_a_model_has_many_spellings(catalogue: Catalogue, spelling: str, llm: str) -> None:
    assert catalogue.llm(spelling).id == llm


def test_an_ambiguous_name_is_refused_with_its_meanings(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match="ambiguous; write h100-pcie or h100-sxm"):
        catalogue.accelerator("h100")
    assert catalogue.find_accelerator("h100") is None
    assert catalogue.is_ambiguous("accelerator", "a100")


def test_an_unknown_name_is_refused_with_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match="did you mean 'h100-sxm'"):
        catalogue.accelerator("h10-sxm")
    with pytest.raises(InputError, match=r"did you mean 'llama-3\.1-70b'"):
        catalogue.llm("llama-3.1-71b")
    assert catalogue.find_llm("no-such-model") is None
    assert catalogue.why_not("llm", "qwen3-32b") is None


def test_a_path_is_no_name(catalogue: Catalogue) -> None:
    assert catalogue.find_llm("../accelerators/h100-sxm") is None


def test_memory_is_what_the_device_reports(catalogue: Catalogue) -> None:
    h100 = catalogue.accelerator("h100-sxm")
    assert h100.memory == 81_559 * 2**20
    assert h100.memory_basis == "reported"
    assert h100.memory_note is not None
    assert h100.scaleup_bandwidth == 450e9  # NVLink 4: 900 GB/s in both directions together


def test_an_unknown_fact_is_absent(catalogue: Catalogue) -> None:
    assert catalogue.accelerator("a10g").bf16 is None
    assert catalogue.accelerator("a100-80g-sxm").fp8 is None
    assert catalogue.llm("mimo-v2-flash").params_total_b is None


def test_the_peak_rate_follows_the_units_that_exist(catalogue: Catalogue) -> None:
    a100, b200 = catalogue.accelerator("a100-80g-sxm"), catalogue.accelerator("b200")
    assert a100.peak("fp8") == a100.bf16 == 312e12
    assert b200.peak("nvfp4") == 9000e12
    assert b200.peak("fp8") == 4500e12
    assert b200.peak("bf16") == 2250e12


def test_a_law_id_names_model_precision_accelerator_engine_and_degrees(
    catalogue: Catalogue,
) -> None:
    row = catalogue.law("llama-3.1-70b.fp8.h100-sxm.vllm.tp4")
    assert (row.model, row.precision, row.accelerator) == ("llama-3.1-70b", "fp8", "h100-sxm")
    assert (row.engine, row.tp_degree, row.degrees) == ("vllm", 4, "tp4")
    row = catalogue.law("deepseek-r1.fp8.b200-sxm.sglang.tp1.dp8.ep8")
    assert (row.tp_degree, row.dp_degree, row.ep_degree, row.accelerators) == (1, 8, 8, 8)
    assert row.degrees == "tp1.dp8.ep8"
    with pytest.raises(InputError, match="did you mean"):
        catalogue.law("llama-3.1-70b.fp8.h100-sxm.vllm.tp5")


def test_a_quantised_checkpoint_means_its_base_at_its_precision(catalogue: Catalogue) -> None:
    quantised = catalogue.laws("qwen3-32b-fp8")
    assert quantised == catalogue.laws("qwen3-32b", precision="fp8")
    assert len(quantised) == 36
    assert catalogue.laws("qwen3-8b") == ()


def test_laws_of_all_filters_agree_with_one_pass_over_all(catalogue: Catalogue) -> None:
    every = catalogue.laws()
    assert len(every) == 424
    assert len({row.id for row in every}) == 424
    some = catalogue.laws("gpt-oss-120b", "h200_sxm", "sglang", "mxfp4")
    assert some == tuple(
        r
        for r in every
        if (r.model, r.accelerator, r.engine) == ("gpt-oss-120b", "h200-sxm", "sglang")
    )


def test_prices_keep_what_must_be_bought_at_once(catalogue: Catalogue) -> None:
    rows = catalogue.prices("h100_sxm", provider="aws", region="us-east-1", term="on_demand")
    eight = [r for r in rows if r.instance == "p5.48xlarge"]
    assert eight
    for row in eight:
        assert row.n_accelerators == 8
        each = row.usd_per_instance_hour / 8
        assert row.usd_per_accelerator_hour == pytest.approx(each, rel=1e-4)


def test_prices_refuse_names_that_nobody_sells(catalogue: Catalogue) -> None:
    for wrong in (
        {"accelerator": "h101-sxm"},
        {"provider": "AWD"},
        {"region": "us-east-9"},
        {"term": "on-demnd"},
    ):
        with pytest.raises(InputError, match="did you mean"):
            catalogue.prices(**wrong)
    with pytest.raises(InputError, match="ambiguous"):
        catalogue.prices("h100")
    assert catalogue.prices("l40")  # has prices but no other facts


def test_a_histogram_means_its_midpoints() -> None:
    cells = (LengthCell(1, 1, 10, 12, 3), LengthCell(5, 8, 1, 1, 1))
    histogram = LengthHistogram("two", cells)
    assert histogram.requests == 4
    assert histogram.mean_prompt_tokens == pytest.approx((3 * 1 + 6.5) / 4)
    assert histogram.mean_output_tokens == pytest.approx((3 * 11 + 1) / 4)
    with pytest.raises(InputError, match="out of order"):
        LengthHistogram("bad", (LengthCell(2, 1, 1, 1, 1),))


def test_an_unknown_histogram_is_refused(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match="did you mean 'azure-code-2023'"):
        catalogue.length_histogram("azure-code-2024")


def test_a_folder_of_ones_own_needs_no_tables(tmp_path: Path) -> None:
    text = (shipped("models") / "accelerators" / "l4.yaml").read_text(encoding="utf-8")
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "mine.yaml").write_text(text.replace("id: l4", "id: mine"))
    own = Catalogue(tmp_path)
    assert own.accelerator("mine").memory == 24 * 2**30
    assert own.laws() == ()
    assert own.prices() == ()
    with pytest.raises(InputError, match="known: mine"):
        own.accelerator("other-device")


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "broken.yaml").write_text("no: [")
    text = (shipped("models") / "accelerators" / "l4.yaml").read_text(encoding="utf-8")
    (tmp_path / "accelerators" / "l4.yaml").write_text(text)
    own = Catalogue(tmp_path)
    assert own.accelerator("l4").id == "l4"
    with pytest.raises(InputError, match=r"broken\.yaml:1:\d+: not YAML"):
        own.accelerator("broken")
