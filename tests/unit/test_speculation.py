"""Steps that verify several tokens, told per token: what holds exactly, and what nearly does."""

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.catalogue import Catalogue
from planner.curves.curve import Curve, find_curve
from planner.curves.speculation import (
    Speculation,
    added_ttft_s,
    plain_step_s,
    speculative_law,
    verification_s,
)
from planner.curves.step_law import StepLaw, law_fields
from planner.errors import InputError
from planner.explanation.pattern import not_considered
from planner.kernels import Limits, simulate_pool
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from tests.drafting import serve_drafting

CATALOGUE = Catalogue()
SEATS, BUDGET = 64, 2048


def drafts(k: int, acceptance: float, cost: float = 0.04) -> Speculation:
    gained = sum(acceptance**i for i in range(k + 1))
    return Speculation(f"eagle{k}", "eagle", k, acceptance, gained, cost, 1e9, 0.0125)


def measured() -> Curve:
    found = find_curve(CATALOGUE, "llama-3.1-70b", "fp8", "h100-sxm", "vllm", 4)
    assert isinstance(found, Curve)
    return found


@pytest.mark.parametrize(("k", "acceptance"), [(1, 0.8), (3, 0.7), (5, 0.9), (16, 1.0), (4, 0.0)])
def test_a_token_takes_its_part_of_a_verification_at_every_number_of_sequences(k, acceptance):
    law, spec = measured().step_law, drafts(k, acceptance)
    told = speculative_law(law, spec, SEATS)
    context = 1500.0
    for n in range(1, SEATS + 1):
        each = told.one_step_s((), [int(context)] * n)
        assert each == pytest.approx(verification_s(law, spec, n, n * context) / spec.gained)


@pytest.mark.parametrize("seats", [8, 64, 8192])
def test_a_prompt_adds_what_it_adds_to_a_full_verification_once_and_whole(seats):
    law, spec = measured().step_law, drafts(3, 0.7)
    told = speculative_law(law, spec, seats)
    start = float(law.tokens_s(4 * seats))
    for prompt in (1, 100, 5000, 60_000):
        more = float(told.tokens_s(seats + prompt)) - float(told.tokens_s(seats))
        whole = float(law.tokens_s(4 * seats + prompt)) - start
        assert more == pytest.approx(1.04 * whole, rel=1e-9, abs=1e-12)


def test_tokens_of_a_verification_are_those_of_the_geometric_series():
    """(1 - a^(k+1)) / (1 - a), against drafts that are drawn."""
    rng = np.random.default_rng(1)
    for k, a in ((1, 0.8), (3, 0.7), (7, 0.5)):
        drawn = 1 + (rng.random((200_000, k)) < a).cumprod(axis=1).sum(axis=1)
        assert drafts(k, a).gained == pytest.approx((1 - a ** (k + 1)) / (1 - a))
        assert drafts(k, a).gained == pytest.approx(drawn.mean(), rel=0.01)


def test_drafts_pay_where_steps_read_weights_and_not_where_they_compute():
    """A step of 4 tokens takes no longer than one of 1; one of 4,096 four times one of 1,024."""
    law = StepLaw((1, 512, 1024), (0.02, 0.02, 0.04), 0.02 / 512, 0.0, 0.0)
    spec = drafts(3, 0.7, 0.0)
    few = verification_s(law, spec, 8) / spec.gained / plain_step_s(law, 8)
    many = verification_s(law, spec, 1024) / spec.gained / plain_step_s(law, 1024)
    assert few == pytest.approx(1 / 2.533)
    assert many == pytest.approx(4 / 2.533)


@pytest.mark.parametrize("rate", [4.0, 6.0])
def test_a_replica_told_per_token_is_near_one_whose_every_draft_is_drawn(rate):
    """At two thirds and at 90 % of its capacity: TPOT to 2 %, of which the last verification of
    an answer wastes half of one; TTFT with its addition no shorter than drawn by 2 %, nor longer
    by a verification; as many requests within both deadlines to two in a hundred."""
    rng = np.random.default_rng(3)
    n, spec, law = 600, drafts(3, 0.7), measured().step_law
    arrival = np.cumsum(rng.exponential(1 / rate, n))
    prompt = rng.lognormal(7.2, 0.5, n).astype(np.int32) + 1
    output = rng.lognormal(5.6, 0.5, n).astype(np.int32) + 2
    engine = (SEATS, BUDGET)
    drawn = serve_drafting(law, arrival, prompt, output, engine, (3, 0.7, spec.draft_cost))
    told = speculative_law(law, spec, SEATS)
    ps = np.rint(arrival * 1e12).astype(np.int64)
    limits = Limits(SEATS, BUDGET, 10**6)
    run = simulate_pool(law_fields(told, BUDGET), limits, ps, prompt, output)
    kept_tokens = measured().room().kv_tokens
    whole_s = verification_s(law, spec, SEATS, kept_tokens)
    ttft = (run.first_token_ps - ps) * 1e-12
    ttft += added_ttft_s(law, spec, SEATS, kept_tokens, 1.0)
    tpot = (run.finish_ps - run.first_token_ps) * 1e-12 / (output - 1)
    assert tpot.mean() == pytest.approx(drawn[1].mean(), rel=0.02)
    assert 0.98 * drawn[0].mean() <= ttft.mean() < drawn[0].mean() + whole_s
    deadlines = np.quantile(drawn[0], 0.97), np.quantile(drawn[1], 0.97)
    kept, truly = (
        float(((a <= deadlines[0]) & (b <= deadlines[1])).mean()) for a, b in ((ttft, tpot), drawn)
    )
    assert kept == pytest.approx(truly, abs=0.02)


SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-70b
    precisions: [fp8]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 50 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies:
  tp_degrees: [4]
  max_num_batched_tokens: [2048]
  max_num_seqs: [64]
  speculative_decoding:
    - {method: eagle, draft_tokens: 3, acceptance: 0.7, draft_cost: 4 %, draft_memory: 1 GB,
       draft_kv: 1.25 %}
"""
ONE = "policies.speculative_decoding.0"


def enumerated(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    problem = resolve(load_scenario(path, settings), CATALOGUE)
    builds, removed = enumerate_builds(problem, CATALOGUE)
    return {b.hardware: b for b in builds}, {r.name: r.reason for r in removed}


def test_with_and_without_side_by_side_or_always(tmp_path):
    builds, _ = enumerated(tmp_path)
    assert set(builds) == {"h100-sxm.tp4.fp8", "h100-sxm.tp4.fp8.eagle3"}
    builds, _ = enumerated(tmp_path, f"{ONE}.choose=always")
    assert set(builds) == {"h100-sxm.tp4.fp8.eagle3"}


def test_draft_its_cache_and_blocks_held_ahead_are_taken_off_the_cache(tmp_path):
    """In blocks of 16 tokens: 64 sequences of 3 tokens ahead hold 12; the null block is one."""
    builds, _ = enumerated(tmp_path)
    plain, drafting = builds["h100-sxm.tp4.fp8"], builds["h100-sxm.tp4.fp8.eagle3"]
    each = plain.curve.kv_bytes_per_token * 16
    room = plain.curve.room()
    left = room.kv_bytes - 1e9
    seats = drafting.curve.room().kv_blocks
    assert seats == int(left // (each * 1.0125)) - 1 - 256 * 3 // 16  # the engine's 256 by default
    assert drafting.kv_tokens < plain.kv_tokens


def test_what_is_waited_for_whole_verifications_is_in_every_ttft(tmp_path):
    builds, _ = enumerated(tmp_path)
    curve = builds["h100-sxm.tp4.fp8.eagle3"].curve
    assert curve.speculation is not None
    kv_tokens = builds["h100-sxm.tp4.fp8.eagle3"].kv_tokens
    gained = curve.speculation.gained
    whole = verification_s(curve.plain_law, curve.speculation, 64, kv_tokens)
    slowest = min(whole, gained * 0.05)
    assert curve.added_ttft_s == pytest.approx(1.5 * (1 - 1 / gained) * slowest)
    assert curve.path_s == curve.added_ttft_s
    assert builds["h100-sxm.tp4.fp8"].curve.path_s == 0


def test_what_drafts_cannot_be_told_for_is_left_out_with_its_reason(tmp_path):
    _, removed = enumerated(tmp_path, "workloads.0.slo.max_itl=200 ms")
    assert "bounds the gaps" in removed["h100-sxm.tp4.fp8.eagle3"]
    _, removed = enumerated(tmp_path, "policies.pipeline_degrees=[2]")
    assert "pipeline stages" in removed["h100-sxm.tp4.pp2.fp8.eagle3"]
    _, removed = enumerated(tmp_path, "policies.max_num_batched_tokens=[128]")
    assert "a max_num_seqs of 32 can" in removed["h100-sxm.tp4.fp8.eagle3.b128.s64"]


@pytest.mark.parametrize("gain", ["acceptance=0", "acceptance=0 %"])
def test_drafts_that_gain_nothing_are_no_rival(tmp_path, gain):
    """A verification of four tokens for one is never better than a step for one; as good, where
    one replica does, is no reason to draft. Who asks for it always has it."""
    builds, removed = enumerated(tmp_path, f"{ONE}.{gain}")
    assert set(builds) == {"h100-sxm.tp4.fp8"}
    assert "no drafted token is accepted" in removed["h100-sxm.tp4.fp8.eagle3"]
    builds, _ = enumerated(tmp_path, f"{ONE}.{gain}", f"{ONE}.choose=always")
    assert set(builds) == {"h100-sxm.tp4.fp8.eagle3"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (f"{ONE}.tokens_per_step=2", "give either acceptance or tokens_per_step"),
        (f"{ONE}.acceptance=null", "neither is given"),
        (f"{ONE}.acceptance=1.2", "more than all"),
        (f"{ONE}.draft_tokens=0", "draft_tokens"),
        (f"{ONE}.draft_cost=null", "draft_cost"),
        (f"{ONE}.draft_memory=5", "with its unit"),
        (f"{ONE}.model=llama-3.1-8b", "no workload wants"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path, setting, words):
    with pytest.raises(InputError, match=words) as caught:
        enumerated(tmp_path, setting)
    assert "speculative_decoding.0" in str(caught.value)


def test_more_tokens_than_are_drafted_are_refused(tmp_path):
    with pytest.raises(InputError, match="3 drafted tokens make at most 4 a step"):
        enumerated(tmp_path, f"{ONE}.acceptance=null", f"{ONE}.tokens_per_step=4.5")


def test_why_not_a_draft_that_is_not_stated():
    ways = {"speculative_decoding": [{"method": "eagle", "draft_tokens": 3}]}
    assert not_considered("eagle5", {"policies": ways}) == (
        "policies.speculative_decoding lists eagle3, not eagle5; add it to search it"
    )
    assert not_considered("eagle3", {"policies": ways}) is None
