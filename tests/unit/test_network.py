"""The way to the users: off the deadlines of the fleet, in the TTFT of the plan."""

from pathlib import Path

import pytest

from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-8b
    origin: town
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 100}, output: {fixed: 10}}
    slo: {ttft: 1 s, tpot: 50 ms, e2e: 3 s, ttft_by_prompt: [{up_to: 50, ttft: 400 ms}]}
accelerators: [{id: h100-sxm, price: 3 USD/h}]
topology:
  nodes:
    - {accelerator: h100-sxm, preset: nvlink-8, region: eu, zone: eu-a}
    - {accelerator: h100-sxm, preset: nvlink-8, region: us, zone: us-a}
  users: [{origin: town, round_trip: {eu: 20 ms, us: 100 ms}}]
"""


def resolved(folder: Path, text: str):
    path = folder / "s.yaml"
    path.write_text(text)
    return resolve(load_scenario(path), Catalogue())


def test_the_round_trip_to_the_farthest_region_is_off_every_deadline_it_counts_in(
    tmp_path: Path,
) -> None:
    (chat,) = resolved(tmp_path, SCENARIO).demands
    assert chat.network_s == 0.1
    assert chat.slo.ttft == pytest.approx(0.9)
    assert chat.slo.e2e == pytest.approx(2.9)
    assert chat.slo.ttft_by_prompt[0].ttft == pytest.approx(0.3)
    assert chat.slo.tpot == 0.05


def test_a_workload_kept_near_loses_only_the_way_there(tmp_path: Path) -> None:
    near = SCENARIO.replace("origin: town\n", "origin: town\n    regions: [eu]\n")
    (chat,) = resolved(tmp_path, near).demands
    assert chat.network_s == 0.02
    assert chat.slo.ttft == pytest.approx(0.98)
    assert chat.regions == {"eu"}


def test_regions_are_those_of_the_topology(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        resolved(tmp_path, SCENARIO.replace("origin: town\n", "origin: town\n    regions: [ue]\n"))
    assert "workloads.0.regions.0: no nodes in region 'ue'" in str(error.value)


def test_regions_need_places(tmp_path: Path) -> None:
    bare = SCENARIO.partition("topology:")[0].replace("origin: town", "regions: [eu]")
    with pytest.raises(InputError) as error:
        resolved(tmp_path, bare)
    assert "workloads.0.regions: needs a topology, or nodes" in str(error.value)


def test_users_beside_the_fleet_take_nothing(tmp_path: Path) -> None:
    (chat,) = resolved(tmp_path, SCENARIO.replace("    origin: town\n", "")).demands
    assert (chat.network_s, chat.slo.ttft) == (0, 1)


def test_a_deadline_that_is_over_on_the_way_is_refused(tmp_path: Path) -> None:
    far = SCENARIO.replace("us: 100 ms", "us: 500 ms")
    with pytest.raises(InputError) as error:
        resolved(tmp_path, far)
    told = "s.yaml:9:74: workloads.0.slo.ttft_by_prompt.0.ttft: is over on the way: the round trip"
    assert told in str(error.value)
