"""Plans made by hand: two replicas on one kind of accelerator, and one that cannot be."""

from __future__ import annotations

from typing import Any

from planner.fleet import FleetPlan

SCENARIO: dict[str, Any] = {
    "format_version": "1.0",
    "name": "Hand made",
    "workloads": [
        {
            "id": "chat",
            "model": "llama-3.1-8b",
            "arrivals": {"poisson": "20.0 req/s"},
            "lengths": {"prompt": {"fixed": 1000.0}, "output": {"fixed": 250.0}},
            "slo": {"ttft": "0.5 s", "tpot": "0.03 s", "attainment": 0.95},
        }
    ],
    "accelerators": [
        {"id": "h100-sxm", "price": "3.0 USD/h"},
        {"id": "l40s", "price": "1.0 USD/h"},
    ],
}


def interval(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.005, "high": value + 0.005}


def pool(**changes: Any) -> dict[str, Any]:
    return {
        "id": "chat-h100",
        "model": "llama-3.1-8b",
        "role": "colocated",
        "group": None,
        "accelerator": "h100-sxm",
        "tp_degree": 2,
        "pp_degree": 1,
        "ep_degree": 1,
        "dp_degree": 1,
        "replicas": 2,
        "domain": None,
        "link_class": None,
        "precision": "bf16",
        "kv_dtype": "bf16",
        "engine": "vllm",
        "max_model_len": 8192,
        "memory_utilisation": 0.9,
        "block_size": 16,
        "prefix_caching": False,
        "chunked_prefill": True,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "scheduling_policy": "fcfs",
        "admission_limit_rps": None,
        "router": "least_outstanding",
        "kv_tokens": 400_000,
        "offered_rps": 20.0,
        "capacity_rps": interval(11.0),
        "busy_share": 0.62,
        "mfu": 0.31,
        "curve": {
            "id": "llama-3.1-8b/h100-sxm/tp2",
            "source": "step tables",
            "extrapolated": False,
            "relative_error": 0.023,
            "caveat": "kernel times only",
        },
    } | changes


def plan(**changes: Any) -> FleetPlan:
    """Four accelerators at 3 USD/h serve 19.4 of 20 req/s: 12 USD / 69.84 thousand = 0.1718."""
    document = {
        "planner_version": "0.1.0",
        "seed": 0,
        "created": None,
        "scenario": {"document": SCENARIO, "origins": {"name": "file"}},
        "status": "optimal",
        "objective": {"name": "min_cost", "value": 12.0, "bound": 12.0, "gap": 0.0},
        "totals": {
            "offered_rps": 20.0,
            "goodput_rps": 19.4,
            "attainment": 0.97,
            "cost_usd_per_hour": 12.0,
            "usd_per_thousand_compliant": 12.0 / 69.84,
            "compliant_requests_per_usd": 69840 / 12.0,
            "accelerators": 4,
            "nodes": None,
            "power_w": 2800.0,
            "mfu": 0.31,
        },
        "pools": [pool()],
        "workloads": [workload()],
        "supply": [
            {
                "accelerator": "h100-sxm",
                "domain": None,
                "term": "on_demand",
                "count": 4,
                "usd_per_hour": 12.0,
                "price_source": "scenario",
            }
        ],
        "bill": [{"item": "h100-sxm, on demand", "usd_per_hour": 12.0}],
        "decisions": [
            {
                "question": "One pool or one per workload?",
                "answer": "one pool",
                "because": "there is one workload",
                "numbers": {},
            }
        ],
        "rejected": [
            rejected("h100-sxm-tp1-s64", "13.1 USD/h for the same promise"),
            rejected("l40s-tp1-s64", "tpot 30 ms: one request alone takes 41 ms a token"),
            rejected("l40s-tp2-s64", "17 % dearer per compliant request"),
        ],
        "limits": [
            {
                "name": "stock h100-sxm",
                "used": 4.0,
                "limit": 4.0,
                "shadow_price_usd_per_hour": 0.25,
            },
            {
                "name": "budget",
                "used": 12.0,
                "limit": 40.0,
                "shadow_price_usd_per_hour": None,
            },
        ],
        "evidence": {
            "verified": True,
            "seeds": [1, 2, 3],
            "requests": 300_000,
            "one_less": [
                {
                    "pool": "chat-h100",
                    "attainment": {"chat": interval(0.412)},
                    "verdict": "broken",
                }
            ],
            "demand_sweep": [
                {"multiple": m, "attainment": {"chat": interval(a)}}
                for m, a in ((1.0, 0.97), (1.1, 0.93), (1.2, 0.71))
            ],
            "candidates": 48,
            "proof_covers": "the candidates and their curves",
            "notes": ["prices as given in the scenario"],
        },
    }
    return FleetPlan.model_validate(document | changes)


def workload(**changes: Any) -> dict[str, Any]:
    return {
        "id": "chat",
        "offered_rps": 20.0,
        "goodput_rps": 19.4,
        "attainment": interval(0.97),
        "promise": 0.95,
        "verdict": "kept",
        "ttft_s": {"p50": 0.08, "p90": 0.2, "p95": 0.31, "p99": 0.62},
        "tpot_s": {"p50": 0.0125, "p90": 0.019, "p95": 0.0222, "p99": 0.0291},
        "misses": None,
        "routing": [{"pool": "chat-h100", "share": 1.0}],
    } | changes


def rejected(template: str, reason: str) -> dict[str, Any]:
    return {"template": template, "reason": reason, "numbers": {"usd_per_hour": 13.1}}


def infeasible() -> FleetPlan:
    """A deadline that no fleet of the scenario reaches."""
    return plan(
        status="infeasible",
        objective={"name": "min_cost", "value": None, "bound": None, "gap": None},
        totals=None,
        pools=[],
        workloads=[],
        supply=[],
        bill=[],
        decisions=[],
        limits=[],
        evidence={
            "verified": False,
            "seeds": [],
            "requests": 0,
            "one_less": [],
            "demand_sweep": [],
            "candidates": 0,
            "proof_covers": "",
        },
        infeasibility=[
            {
                "limit": "ttft of chat",
                "has": "200 ms",
                "needs": "218 ms for an isolated prefill of 4,096 tokens on h200-sxm tp8",
                "fastest_reachable": "218 ms",
                "remedy": "set workloads.chat.slo.ttft to 240 ms or more",
            }
        ],
    )
