"""Replicas under other settings are those that would be enumerated; defaults are the engine's."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.settings import engine_defaults, with_settings
from planner.catalogue import Catalogue
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario

CATALOGUE = Catalogue()

CHAT_ON_TWO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 20 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 1 s, tpot: 40 ms, attainment: 95 %}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
  - {id: l40s, price: 1 USD/h}
policies: {tp_degrees: [1, 2], max_num_batched_tokens: [512, 4096], max_num_seqs: [16, 256]}
"""


@pytest.fixture(scope="module")
def enumerated(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s.yaml"
    path.write_text(CHAT_ON_TWO)
    problem = resolve(load_scenario(path), CATALOGUE)
    builds, _ = enumerate_builds(problem, CATALOGUE)
    return problem.policies, builds


def same(one, other) -> bool:
    """Whether two builds are the same replica to the last number."""
    laws = np.array_equal(one.law.tokens_ps, other.law.tokens_ps) and one.law[1:] == other.law[1:]
    rest = all(
        getattr(one, name) == getattr(other, name)
        for name in ("id", "limits", "kv_tokens", "usd_per_hour", "accelerator", "tp_degree")
    )
    return laws and rest


def test_a_build_with_other_settings_is_the_one_that_would_be_enumerated(enumerated):
    policies, builds = enumerated
    assert {b.max_num_batched_tokens for b in builds} == {512, 4096}
    for one in builds:
        for other in builds:
            if one.hardware == other.hardware:
                pair = other.max_num_batched_tokens, other.max_num_seqs
                made = with_settings(policies, one, *pair, longest=1100)
                assert same(made, other)


def test_settings_that_the_engine_refuses_have_a_reason(enumerated):
    policies, builds = enumerated
    one = builds[0]
    assert "max_num_seqs 1024 is above" in with_settings(policies, one, 512, 1024, 1100)
    why = with_settings(policies, one, 512, 8, longest=one.kv_tokens * 50)
    assert "the longest request" in why


@pytest.mark.parametrize(
    ("accelerator", "expected"),
    [
        ("h100-sxm", (8192, 1024)),
        ("h200-sxm", (8192, 1024)),
        ("mi300x", (8192, 1024)),
        ("a100-80g-sxm", (2048, 256)),
        ("a100-80g-pcie", (2048, 256)),
        ("l40s", (2048, 256)),
    ],
)
def test_defaults_are_those_that_the_engine_documents(accelerator, expected):
    """By memory of the device, but small on every A100."""
    found = engine_defaults("vllm", CATALOGUE.accelerator(accelerator))
    assert found is not None
    assert (found.max_num_batched_tokens, found.max_num_seqs) == expected
    assert "arg_utils.py" in found.source


def test_defaults_of_other_engines_are_not_made_up():
    assert engine_defaults("sglang", CATALOGUE.accelerator("h100-sxm")) is None
