"""Tiny instances with answers worked out by hand."""

from planner.milp import Instance


def two_by_two(**changes: object) -> Instance:
    """Chat and batch; small (1 x a10, 1 USD/h) serves batch, big (4 x h100, 10 USD/h) both.

    Demand: chat 10 req/s at 95 %, batch 6 req/s at 50 %.

    One big unit carries 8 req/s of chat (7.6 compliant) or 8 req/s of batch, or, in the mix,
    5 and 3 (4.9 and 3); at its overload point it takes 16 of chat and 4 of them comply.
    One small unit carries 1 req/s of batch (all compliant), or 2 (0.8 compliant).
    """
    data = {
        "W": ("chat", "batch"),
        "J": ("small", "big"),
        "G": ("a10", "h100"),
        "O": {"small": ("0", "1"), "big": ("chat", "over", "batch", "mix")},
        "demand_rps": {"chat": 10.0, "batch": 6.0},
        "promise": {"chat": 0.95, "batch": 0.5},
        "load_rps": {
            ("small", "0", "batch"): 1.0,
            ("small", "1", "batch"): 2.0,
            ("big", "chat", "chat"): 8.0,
            ("big", "over", "chat"): 16.0,
            ("big", "batch", "batch"): 8.0,
            ("big", "mix", "chat"): 5.0,
            ("big", "mix", "batch"): 3.0,
        },
        "goodput_rps": {
            ("small", "0", "batch"): 1.0,
            ("small", "1", "batch"): 0.8,
            ("big", "chat", "chat"): 7.6,
            ("big", "over", "chat"): 4.0,
            ("big", "batch", "batch"): 8.0,
            ("big", "mix", "chat"): 4.9,
            ("big", "mix", "batch"): 3.0,
        },
        "devices": {"small": 1, "big": 4},
        "accelerator_of": {"small": "a10", "big": "h100"},
        "usd_per_hour": {"small": 1.0, "big": 10.0},
    }
    return Instance(**(data | changes))  # type: ignore[arg-type]
