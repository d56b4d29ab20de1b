"""Roofline and transfer: limits that can be written down, and laws that move to themselves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from planner.catalogue import Catalogue
from planner.curves.roofline import (
    Degrees,
    Efficiency,
    Formats,
    formats_of,
    geometry_of,
    roofline,
)
from planner.curves.transfer import Configuration, StepLawLibrary, mixed_law
from planner.errors import InputError

IDEAL = Efficiency(
    bandwidth=1.0, arithmetic=1.0, experts=1.0, attention=1.0, overlap=0.0, launch_s=0.0,
    collective_s=0.0, link=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


@pytest.fixture(scope="module")
def library(catalogue: Catalogue) -> StepLawLibrary:
    return StepLawLibrary(catalogue)


def test_one_token_takes_the_reading_of_the_weights(catalogue: Catalogue) -> None:
    llm, device = catalogue.llm("llama-3.1-8b"), catalogue.accelerator("h100-sxm")
    geometry = geometry_of(llm)
    found = roofline(geometry, formats_of("bf16", "dense"), device, Degrees(1), IDEAL)
    read = geometry.plain_params * 2 / float(device.memory_bandwidth)
    assert found.law.step_s[0] == pytest.approx(read)
    assert found.law.c_k_s_per_token == pytest.approx(
        2 * 32 * 8 * 128 * 2 / float(device.memory_bandwidth)
    )


def test_a_long_prompt_takes_its_arithmetic(catalogue: Catalogue) -> None:
    llm, device = catalogue.llm("llama-3.1-8b"), catalogue.accelerator("h100-sxm")
    geometry = geometry_of(llm)
    found = roofline(geometry, formats_of("bf16", "dense"), device, Degrees(1), IDEAL)
    assert device.bf16 is not None
    work = 2 * 32768 * geometry.plain_params / float(device.bf16)
    assert found.law.step_s[-1] == pytest.approx(work)


def test_parameters_of_a_mixture_add_up(catalogue: Catalogue) -> None:
    g = geometry_of(catalogue.llm("deepseek-r1"))
    active = g.plain_params + g.active_experts * g.expert_params
    llm = catalogue.llm("deepseek-r1")
    assert llm.params_active_b is not None
    assert active + llm.vocab * llm.hidden == pytest.approx(llm.params_active_b * 1e9, rel=0.01)


def test_experts_are_touched_as_independent_draws_say(catalogue: Catalogue) -> None:
    device = catalogue.accelerator("h100-sxm")
    g = dataclasses.replace(geometry_of(catalogue.llm("gpt-oss-120b")), plain_params=0.0)
    formats = Formats(2.0, 1.0, "bf16", "bf16", 2.0)
    found = roofline(g, formats, device, Degrees(1), IDEAL)
    touched = [g.experts * (1 - (1 - g.active_experts / g.experts) ** n) for n in (1, 8)]
    read = np.array(touched) * g.expert_params / float(device.memory_bandwidth)
    assert found.law.step_s[:2] == pytest.approx(read)


def test_a_configuration_of_the_library_is_its_own_law(
    catalogue: Catalogue, library: StepLawLibrary
) -> None:
    for row in catalogue.laws("llama-3.1-70b")[::5]:
        if row.dp_degree > 1:
            continue
        wanted = Configuration(
            catalogue.llm(row.model),
            row.precision,
            catalogue.accelerator(row.accelerator),
            row.engine,
            Degrees(row.accelerators, row.dp_degree, row.ep_degree),
        )
        found = library.law(wanted)
        assert found.matched
        assert found.source.endswith(row.id)
        assert found.law.step_s == pytest.approx(np.maximum.accumulate(row.step_s))
        assert found.law.c_k_s_per_token == pytest.approx(row.c_k_s_per_token)


def test_where_nothing_is_near_a_law_is_moved_and_says_so(
    catalogue: Catalogue, library: StepLawLibrary
) -> None:
    wanted = Configuration(
        catalogue.llm("minimax-m2.5"), "fp8", catalogue.accelerator("b300-sxm"), "vllm", Degrees(4)
    )
    found = library.law(wanted)
    assert not found.matched
    assert found.source.startswith("transfer from ")
    assert list(found.law.step_s) == sorted(found.law.step_s)


def test_laws_mix_by_geometric_mean(catalogue: Catalogue, library: StepLawLibrary) -> None:
    device = catalogue.accelerator("h100-sxm")
    one, other = (
        library.law(Configuration(catalogue.llm(m), "bf16", device, "vllm", Degrees(1))).law
        for m in ("llama-3.1-8b", "qwen3-32b")
    )
    mixed = mixed_law(one, other, 0.25)
    expected = np.array(one.step_s) ** 0.75 * np.array(other.step_s) ** 0.25
    assert mixed.step_s == pytest.approx(expected)


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(InputError, match="int3"):
        formats_of("int3", "dense")
