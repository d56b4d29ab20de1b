"""What a plan says of scheduler settings, and of accelerators that are kept busy."""

from __future__ import annotations

import pytest

from tests.e2e.test_shipped_scenarios import plan_of


@pytest.mark.parametrize("name", ["quickstart", "busy"])
def test_every_limit_of_every_pool_is_halved_and_doubled(name):
    plan = plan_of(name)
    tried = {x.change.rpartition(": ")[2] for x in plan.settings.knobs}
    for pool in plan.pools:
        for knob in ("max_num_batched_tokens", "max_num_seqs"):
            now = getattr(pool, knob)
            assert {f"{knob} {now} → {now // 2}", f"{knob} {now} → {2 * now}"} <= tried


@pytest.mark.parametrize("name", ["quickstart", "busy"])
def test_effects_are_paired_with_the_plan_and_cost_what_they_must(name):
    plan = plan_of(name)
    base, cost = plan.settings.plan, plan.totals.cost_usd_per_hour
    defaults = plan.settings.engine_defaults
    for one in (base, *plan.settings.knobs, defaults):
        if one.impossible:
            continue
        for workload, apart in one.difference.items():
            moved = one.attainment[workload].value - base.attainment[workload].value
            assert apart.value == pytest.approx(moved, abs=1e-9)
            assert apart.low <= apart.value <= apart.high
        assert one.goodput_rps <= plan.totals.offered_rps * (1 + 1e-9)
        dollars = cost / 3.6 / one.goodput_rps
        assert one.usd_per_thousand_compliant == pytest.approx(dollars)
    assert defaults.accelerators >= 1
    assert {(p.max_num_batched_tokens, p.max_num_seqs) for p in defaults.pools} <= {
        (8192, 1024),
        (2048, 256),
    }


def test_seats_that_nobody_needs_change_nothing():
    """Twice as many seats as requests ever run at once give the same schedule, bit by bit."""
    plan = plan_of("busy")
    (doubled,) = [x for x in plan.settings.knobs if x.change == "max_num_seqs 256 → 512"]
    assert doubled.difference["chat"].value == 0.0


@pytest.mark.parametrize("name", ["quickstart", "busy"])
def test_busy_accelerators_obey_the_books(name):
    plan = plan_of(name)
    first, *rest = plan.settings.busy
    assert first.offered_rps == pytest.approx(plan.totals.offered_rps)
    for point in (first, *rest):
        assert point.goodput_rps <= point.completed_rps * (1 + 1e-9)
        assert point.completed_rps <= point.offered_rps * (1 + 1e-9)
        assert point.attainment == pytest.approx(point.goodput_rps / point.offered_rps)
        assert point.usd_per_thousand_compliant == pytest.approx(
            plan.totals.cost_usd_per_hour / 3.6 / point.goodput_rps
        )
        # of one mix every request is as many FLOP: MFU goes with the raw rate
        assert point.mfu / first.mfu == pytest.approx(
            point.completed_rps / first.completed_rps, rel=1e-6
        )


def test_a_fifth_more_work_makes_a_compliant_request_dearer():
    """1,000 req/s of which 98 % are in time cost less each than 1,200 of which 70 % are: on a
    fleet at a fixed price the ratio is that of the compliant rates."""
    plan = plan_of("busy")
    first, *rest = plan.settings.busy
    assert first.attainment >= 0.98
    (more,) = [p for p in rest if p.label.endswith("× 1.2")]
    assert more.completed_rps == pytest.approx(1.2 * first.completed_rps)
    assert more.mfu > first.mfu
    assert more.attainment < 0.8
    assert more.usd_per_thousand_compliant > 1.02 * first.usd_per_thousand_compliant
    full = max(rest, key=lambda p: p.mfu)
    assert full.completed_rps == max(p.completed_rps for p in rest)
    assert full.usd_per_thousand_compliant > 2 * first.usd_per_thousand_compliant


def test_searched_settings_save_an_accelerator_against_the_defaults_of_the_engine():
    plan = plan_of("code")
    listed = plan_of("code", "policies.search=listed")
    defaults = plan.settings.engine_defaults
    assert plan.totals.accelerators < listed.totals.accelerators
    assert plan.totals.accelerators < defaults.accelerators
    (told,) = [d for d in plan.decisions if d.question == "which scheduler settings"]
    (pool,) = plan.pools
    carried = told.numbers[f"load_rps_of_{pool.id.partition('@')[0]}"]
    assert carried >= pool.offered_rps / pool.replicas
    assert not [d for d in listed.decisions if d.question == "which scheduler settings"]


def test_brief_evidence_is_the_same_fleet_and_proof():
    full, brief = plan_of("quickstart"), plan_of("quickstart", "solver.evidence=brief")
    for part in ("status", "objective", "totals", "pools", "workloads", "supply", "bill"):
        assert getattr(brief, part) == getattr(full, part), part
    assert brief.evidence.verified == full.evidence.verified
    assert brief.evidence.requests < full.evidence.requests
    evidence = brief.evidence
    assert (evidence.demand_sweep, evidence.breaks_at) == ((), ())
    assert (brief.settings, brief.alternatives) == (None, None)
