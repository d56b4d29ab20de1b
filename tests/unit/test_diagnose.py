"""Measured requests: joint compliance counted directly, causes by hand, missing data by name."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter

import numpy as np
import pytest

from planner.attribution.diagnosis import Due, compliant, diagnose_run, diagnose_runs
from planner.attribution.measured import Unloaded, measured_split
from planner.cli import main
from planner.data import shipped
from planner.errors import InputError
from planner.explanation.counterfactual import Served, counterfactuals, served_by
from planner.kernels import Law, Limits
from planner.measurements.measurement import Records
from planner.measurements.staged import StagedRun, read_staged
from planner.planning.capacity import Wanted
from planner.scenario.load import load_scenario
from planner.simulation.pool import PoolSetup
from tests.shared import SHARED, needs_shared
from tests.unit.test_span_requests import otlp, span

pytestmark = pytest.mark.minutes_in_plain

REQUESTS = SHARED / "data" / "measured" / "llama405b_h100_mi300x_requests.csv.gz"
ENGINE = SHARED / "data" / "step-profiles" / "gt_vllm_requests_llmservingsim.csv"
NAN = float("nan")


def run_of(**columns) -> StagedRun:
    """Requests by hand, seconds; what is left out is not known."""
    n = len(columns["ttft_s"])
    table = {name: np.full(n, NAN) for name in Records.__dataclass_fields__ if name != "completed"}
    table |= {name: np.array(values, float) for name, values in columns.items()}
    done = np.isfinite(table["ttft_s"])
    if not np.isfinite(table["tpot_s"]).any():
        steps = np.maximum(table["output_tokens"] - 1, 1)
        table["tpot_s"] = (table["e2e_s"] - table["ttft_s"]) / steps
    before = {
        name.removesuffix("_s"): table[name]
        for name in ("queue_s", "prefill_s")
        if np.isfinite(table[name]).any()
    }
    return StagedRun("by hand", "", "test", Records(done, **table), before)


def causes(run, due, unloaded=None):
    found = diagnose_run(run, due, unloaded)
    assert sum(m.share for m in found.misses) == pytest.approx(1 - found.attainment)
    return {m.cause: pytest.approx(m.share * found.requests) for m in found.misses}


@needs_shared
@pytest.mark.parametrize("ttft_ms", [500.5, 2000.5, 30_000.5])
@pytest.mark.parametrize("tpot_ms", [60.00005, 120.00005, 300.00005])
def test_joint_attainment_of_a_client_file_is_that_of_a_count(ttft_ms, tpot_ms):
    with gzip.open(REQUESTS, "rt") as file:
        rows = list(csv.DictReader(file))
    good, every = Counter(), Counter()
    for row in rows:
        run = f"{row['config']} at {float(row['request_rate']):g} req/s"
        every[run] += 1
        if float(row["output_len"] or 0) < 1 or not float(row["ttft_ms"] or 0):
            continue
        pace = float(row["tpot_ms"] or 0)  # empty for one token
        good[run] += float(row["ttft_ms"]) <= ttft_ms and pace <= tpot_ms
    found = diagnose_runs(read_staged(REQUESTS), Due(ttft_ms / 1e3, tpot_ms / 1e3))
    assert {d.run: round(d.attainment * d.requests) for d in found} == dict(good)
    assert {d.run: d.requests for d in found} == dict(every)


@needs_shared
@pytest.mark.parametrize(("ttft_s", "tpot_s"), [(0.5, 0.03), (1.0, 0.05), (5.0, 0.08), (60, 1)])
def test_joint_attainment_of_an_engine_file_is_that_of_a_count(ttft_s, tpot_s):
    with ENGINE.open() as file:
        rows = list(csv.DictReader(file))
    good = Counter({row["config"]: 0 for row in rows})
    for row in rows:
        first, whole = float(row["ttft_s"]), float(row["e2e_s"])
        steps = max(int(row["output_toks"]) - 1, 1)
        good[row["config"]] += first <= ttft_s and (whole - first) / steps <= tpot_s
    found = diagnose_runs(read_staged(ENGINE), Due(ttft_s, tpot_s))
    assert {d.run: round(d.attainment * d.requests) for d in found} == dict(good)
    for diagnosis in found:
        shares = [d.met for d in diagnosis.deadlines]
        assert diagnosis.least_possible - 1e-12 <= diagnosis.attainment <= min(shares) + 1e-12
        assert sum(m.share for m in diagnosis.misses) == pytest.approx(1 - diagnosis.attainment)


@needs_shared
def test_stages_of_real_requests_sum_to_their_time():
    for run in read_staged(ENGINE):
        split = measured_split(run, Unloaded(run.records.ttft_s / 3, run.records.e2e_s / 3, "test"))
        before = sum(split.company_before.values()) + sum(split.own_before.values())
        after = sum(split.company_after.values()) + sum(split.own_after.values())
        assert before == pytest.approx(run.records.ttft_s, abs=1e-9)
        assert before + after == pytest.approx(run.records.e2e_s, abs=1e-9)
        assert all((part >= 0).all() for part in split.company_before.values())


@needs_shared
def test_the_queue_of_the_engine_that_ran_out_of_memory_is_found():
    """RTX PRO 6000 with Qwen3-32B: 300 requests at once, up to 90 s in the engine's queue."""
    with ENGINE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["config"].endswith("Qwen3-32B")]
    times = [(float(row["ttft_s"]), float(row["queue_s"])) for row in rows]
    late = [(ttft, queue) for ttft, queue in times if ttft > 1]
    # The queue alone is too long, and without it there is time: it is charged in full.
    surely = sum(queue > 1 and ttft - queue <= 1 for ttft, queue in late)
    run = next(r for r in read_staged(ENGINE) if r.name.endswith("Qwen3-32B"))
    (queue, *_) = diagnose_run(run, Due(ttft_s=1.0)).misses
    assert queue.cause == "queue"
    assert queue.of_misses >= surely / len(late) > 0.75


def test_failed_requests_are_misses_and_charged_as_such():
    run = run_of(ttft_s=[0.1, NAN, 0.1], e2e_s=[1, NAN, 1], output_tokens=[10, 0, 10])
    assert causes(run, Due(1.0, 1.0)) == {"failed": 1}


def test_causes_by_hand_where_the_engine_tells_queue_and_prefill():
    """Alone 0.2 s and 1 s; TTFT within 1 s, 11 tokens within 2 s of the first."""
    alone = Unloaded(np.full(4, 0.2), np.full(4, 1.0), "test")
    run = run_of(
        ttft_s=[2.0, 1.5, 0.5, 0.5],
        e2e_s=[3.5, 3.0, 4.0, 2.5],
        output_tokens=[11] * 4,
        queue_s=[1.6, 0.1, 0.1, 0.1],
        prefill_s=[0.3, 0.3, 0.3, 0.3],
    )
    found = causes(run, Due(1.0, 0.2), alone)
    # 1: without its queue 0.4; 2: 1.1 s neither queue nor prefill; 3: 3.5 s for 10 gaps
    assert found == {"queue": 1, "outside_engine": 1, "decode_company": 1}


def test_a_gap_is_a_cause_of_its_own_and_mends_a_deadline_on_gaps():
    alone = Unloaded(np.full(2, 0.2), np.full(2, 1.0), "test")
    run = run_of(
        ttft_s=[0.3, 0.3],
        e2e_s=[3.3, 1.5],
        output_tokens=[11, 11],
        max_itl_s=[2.1, 0.3],
    )
    # 3 s for 10 gaps of which one is 2.1: without it 1 s; the other keeps both deadlines
    assert causes(run, Due(1.0, 0.2), alone) == {"decode_gap": 1}
    assert causes(run, Due(1.0, 0.5, 1.0), alone) == {"decode_gap": 1}
    assert causes(run, Due(1.0, 0.5, 0.2), alone) == {"decode_gap": 2}
    assert causes(run, Due(1.0, 0.5, 0.05), alone) == {"decode_solo": 2}


def test_sums_of_quantiles_and_products_of_shares_are_shown_beside_the_truth():
    """Two halves: one late in TTFT, the other in TPOT; none meets both, and never both late."""
    n = 100
    first = [2.0] * n + [0.5] * n
    rest = [1.0] * n + [10.0] * n
    run = run_of(
        ttft_s=first,
        e2e_s=np.add(first, rest),
        output_tokens=[11] * 2 * n,
        queue_s=[1.8] * n + [0.0] * n,
        prefill_s=[0.2] * n + [0.5] * n,
    )
    found = diagnose_run(run, Due(1.0, 0.5))
    assert [d.met for d in found.deadlines] == [0.5, 0.5]
    assert (found.attainment, found.product_of_shares, found.least_possible) == (0.0, 0.25, 0.0)
    whole = next(q for q in found.quantile_sums if q.of == "e2e" and q.level == 0.99)
    assert whole.quantile_s == pytest.approx(10.5)
    assert whole.sum_of_quantiles_s == pytest.approx(12.0)


def test_what_the_data_lack_is_said_by_name():
    bare = diagnose_run(
        run_of(ttft_s=[0.1], e2e_s=[1], output_tokens=[10], prompt_tokens=[5]), Due(1.0, 1.0)
    )
    told = " ".join(bare.missing)
    for word in ("time_in_queue", "time_in_model_prefill", "longest gap", "preemptions", "arrival"):
        assert word in told
    with pytest.raises(InputError, match="do not tell max_itl"):
        compliant(run_of(ttft_s=[0.1], e2e_s=[1], output_tokens=[10]), Due(max_itl_s=1.0))


def pd_trace(trace, start, queue, prefill, on_link, step):
    """A sidecar's span around those of a prefill and a decode engine."""
    made = [
        span(start, own=f"{trace}a", llm_d__pd_proxy__total_duration_ms=3000.0),
        span(
            start,
            own=f"{trace}b",
            parent=f"{trace}a",
            gen_ai__latency__e2e=queue + prefill,
            gen_ai__latency__time_to_first_token=queue + prefill,
            gen_ai__latency__time_in_queue=queue,
            gen_ai__latency__time_in_model_prefill=prefill,
            gen_ai__usage__prompt_tokens=100,
            gen_ai__usage__completion_tokens=1,
        ),
        span(
            start + queue + prefill + 0.05,
            own=f"{trace}c",
            parent=f"{trace}a",
            gen_ai__latency__e2e=on_link + step + 1.0,
            gen_ai__latency__time_to_first_token=on_link + step,
            gen_ai__latency__time_in_queue=on_link,
            gen_ai__latency__time_in_model_prefill=step,
            gen_ai__usage__prompt_tokens=100,
            gen_ai__usage__completion_tokens=11,
        ),
    ]
    return [one | {"traceId": trace, "name": "x"} for one in made]


def test_spans_of_a_pair_of_engines_are_one_request(tmp_path):
    """Two requests; the second's KV takes 2 s on the way, and TTFT is due within 1 s."""
    path = tmp_path / "spans.json"
    spans = [*pd_trace("t1", 0, 0.1, 0.2, 0.1, 0.02), *pd_trace("t2", 1, 0.1, 0.2, 2.0, 0.02)]
    path.write_text(json.dumps(otlp(*spans)))
    (run,) = read_staged(path)
    assert run.records.ttft_s == pytest.approx([0.1 + 0.2 + 0.05 + 0.12, 0.1 + 0.2 + 0.05 + 2.02])
    assert run.records.tpot_s == pytest.approx([0.1, 0.1])
    assert run.records.prompt_tokens.tolist() == [100, 100]
    assert run.before["handoff"] == pytest.approx([0.05, 0.05], abs=1e-6)
    assert causes(run, Due(1.0, 0.2)) == {"kv_transfer": 1}


def test_spans_of_a_sidecar_alone_tell_ttft_and_say_what_they_lack(tmp_path):
    sidecar = span(
        0,
        llm_d__pd_proxy__total_duration_ms=3000.0,
        llm_d__pd_proxy__true_ttft_ms=1500.0,
        llm_d__pd_proxy__prefill_duration_ms=1400.0,
        llm_d__pd_proxy__coordinator_overhead_ms=20.0,
    )
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(otlp(sidecar | {"traceId": "t", "name": "x"})))
    (run,) = read_staged(path)
    found = diagnose_run(run, Due(ttft_s=1.0))
    assert found.misses[0].cause == "prefill_leg"
    assert any("output tokens" in what for what in found.missing)
    assert main(["diagnose", str(path), "--ttft", "1 s", "--tpot", "1 s"]) == 2


@needs_shared
def test_the_command_writes_a_table_of_100_columns_json_and_a_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    words = ["diagnose", str(ENGINE), "--ttft", "1 s", "--tpot", "50 ms"]
    assert main([*words, "--html", str(page)]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 100
    text = page.read_text()
    assert text.count("<svg") >= 2
    assert "Request " in text
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 4
    assert document["counterfactuals"] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no deadline to hold requests against"),
        (["--ttft", "1"], "--ttft"),
        (["--ttft", "1 s", "--template", "x"], "belongs to --scenario"),
        (["--ttft", "1 s", "--html", "x.txt"], "a page ends in .html"),
    ],
)
def test_mistakes_are_told(tmp_path, capsys, words, told):
    path = tmp_path / "requests.csv"
    path.write_text("ttft_s,e2e_s,prompt_tokens,output_tokens\n0.1,1,10,10\n")
    assert main(["diagnose", str(path), *words]) == 2
    assert told in capsys.readouterr().err


def test_a_file_of_figures_over_many_requests_is_refused(tmp_path, capsys):
    path = tmp_path / "levels.csv"
    path.write_text("rate_rps,ttft_p50_ms,tpot_p50_ms,isl,osl\n1,100,20,10,10\n")
    assert main(["diagnose", str(path), "--ttft", "1 s"]) == 2
    assert "tells no single requests" in capsys.readouterr().err


@needs_shared
@pytest.mark.parametrize("ttft_s", [1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("tpot_s", [0.025, 0.03, 0.04])
def test_a_real_run_simulated_again_attains_what_was_measured(ttft_s, tpot_s):
    """300 requests on one RTX PRO 6000 with 128 seats, by the affine law fitted to it."""
    n = np.arange(2049)
    law = Law((13.267e9 + 36.386e6 * n).astype(np.int64), 0, 57_157, 24_235_000, 57_157)
    setup = PoolSetup(law, Limits(128, 2_048, 200_000), 1, "round_robin")
    run = next(r for r in read_staged(ENGINE) if r.name == "RTXPRO6000/Llama-3.1-8B")
    found = counterfactuals(run, Due(ttft_s, tpot_s), Served("rtx", setup))
    measured, same, one_more, *_ = (row.attainment for row in found.rows)
    assert same == pytest.approx(measured, abs=0.01)
    assert one_more > same
    assert sum(m.share for m in found.simulated_misses) == pytest.approx(1 - same)
    assert {m.cause for m in found.simulated_misses} >= {"queue", "decode_batch"} or tpot_s > 0.03


def test_a_simulation_is_diagnosed_and_simulated_again(tmp_path, capsys):
    """A request each second and a replica that is never busy: again the same, to the request."""
    loaded = load_scenario(shipped("scenarios") / "quickstart.yaml")
    served = served_by(loaded, Wanted("h100-sxm.tp1.bf16.b2048.s256"), 1)
    n = 50
    run = run_of(
        ttft_s=[0.1] * n,
        e2e_s=[1.0] * n,
        output_tokens=[11] * n,
        prompt_tokens=[500] * n,
        start_s=np.arange(n) * 1.0,
    )
    found = counterfactuals(run, Due(0.5, 0.1), served)
    assert [row.attainment for row in found.rows] == [1.0] * len(found.rows)
    late = counterfactuals(run, Due(1e-4, 0.1), served)
    assert [row.attainment for row in late.rows] == [0.0] * len(late.rows)
    crowd = run_of(
        ttft_s=[0.1] * 400,
        e2e_s=[1.0] * 400,
        output_tokens=[11] * 400,
        prompt_tokens=[2000] * 400,
        start_s=np.linspace(0, 1, 400),
    )
    rows = {row.change: row for row in counterfactuals(crowd, Due(5.0), served).rows}
    assert rows["the same, simulated"].attainment < rows["1 more replica"].attainment
    assert rows["1 more replica"].attainment < rows["2 more replicas"].attainment
