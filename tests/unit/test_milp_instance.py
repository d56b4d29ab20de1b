import math

import pytest

from planner.errors import InputError
from tests.instances import two_by_two


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demand_rps": {"chat": 0.0, "batch": 6.0}}, r"demand_rps\[chat\]: must be above 0"),
        ({"demand_rps": {"chat": 10.0}}, r"demand_rps\[batch\]: is missing"),
        ({"promise": {"chat": 95.0, "batch": 0.5}}, r"promise\[chat\]: .* at most 1; got 95"),
        ({"usd_per_hour": {"small": math.nan, "big": 1.0}}, r"usd_per_hour\[small\]: .* finite"),
        ({"devices": {"small": 1.5, "big": 4}}, r"devices\[small\]: must be a whole number"),
        ({"accelerator_of": {"small": "a10", "big": "b"}}, r"accelerator_of\[big\]: 'b'"),
        ({"stock": {"h200": 4}}, r"stock\[h200\]: no such id"),
        ({"stock": {"h100": -1}}, r"stock\[h100\]: must be at least 0"),
        ({"budget_usd_per_hour": math.inf}, r"budget_usd_per_hour: must be finite"),
        ({"load_rps": {("big", "9", "chat"): 1.0}}, r"load_rps\[big,9,chat\]: no such"),
        ({"goodput_rps": {("small", "0", "batch"): 1.5}}, "1.5 is more than the load of 1"),
        ({"W": ("chat", "batch", "chat")}, "W: chat stands there twice"),
        ({"W": ()}, "W: is empty"),
        ({"G": ("a10", "h_100")}, "'h_100' is no id"),
        ({"O": {"small": ("0", "1")}}, r"O\[big\]: is missing"),
        ({"O": {"small": ("idle",), "big": ("mix",)}}, "take it out"),
    ],
)
def test_a_number_that_cannot_be_used_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        two_by_two(**change)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        two_by_two(promise={"chat": 2.0}, max_units={"small": -1})
    assert len(str(caught.value).splitlines()) == 3
