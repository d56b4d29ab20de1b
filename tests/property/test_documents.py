"""A document survives being written and read; settings change what they name and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from planner.errors import InputError
from planner.fleet import FleetPlan, Interval, read_plan
from planner.scenario.aim import Solver
from planner.scenario.arrivals import Arrivals, Bursts, Renewal, Replay, Sessions, Users
from planner.scenario.hard_limits import FleetLimits
from planner.scenario.lengths import (
    Columns,
    Gamma,
    Lengths,
    LengthsPart,
    Lognormal,
    Marginal,
    MarginalPart,
    Pareto,
    Uniform,
    Zipf,
)
from planner.scenario.load import load_scenario
from planner.scenario.overrides import apply_overrides
from planner.scenario.policies import Policies
from planner.scenario.scenario import Scenario
from planner.scenario.slo import PromptBucket, Slo
from planner.scenario.supply import AcceleratorOffer, PriceChoice
from planner.scenario.traffic import Growth, Profile, Traffic
from planner.scenario.workload import Workload
from planner.source import parse_yaml
from planner.spec import Spec, dump_json, dump_yaml, validate
from tests.plans import infeasible, plan

times = st.floats(1e-12, 3.1536e8)
rates = st.floats(1e-6, 1e9)
tokens = st.floats(1, 1e9)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ids = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,12}", fullmatch=True)
shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
ranges = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted)
forms = st.one_of(
    st.fixed_dictionaries({"fixed": tokens}),
    st.fixed_dictionaries(
        {"lognormal": st.builds(Lognormal, mean=tokens, cv=st.floats(0, 20))},
    ),
    st.fixed_dictionaries({"gamma": st.builds(Gamma, mean=tokens, cv=st.floats(0.01, 20))}),
    st.fixed_dictionaries(
        {
            "pareto": st.builds(
                Pareto,
                minimum=st.floats(1, 100),
                tail=st.floats(0.1, 9),
                maximum=st.floats(101, 1e6),
            )
        }
    ),
    ranges.map(lambda r: {"zipf": Zipf(minimum=r[0], maximum=r[1], exponent=1.1)}),
    ranges.map(lambda r: {"uniform": Uniform(minimum=r[0], maximum=r[1])}),
)
weights = st.floats(1e-9, 1e9)
plain_marginals = forms.map(lambda form: Marginal(**form))
marginals = plain_marginals | st.lists(
    st.builds(lambda form, weight: MarginalPart(weight=weight, **form), forms, weights),
    min_size=1,
    max_size=3,
).map(lambda parts: Marginal(mixture=tuple(parts)))
lengths = st.one_of(
    st.builds(Lengths, histogram=texts, beyond_context=st.sampled_from(["refuse", "cut"])),
    st.builds(Lengths, trace=texts, columns=st.builds(Columns, prompt=texts, output=texts)),
    st.builds(Lengths, prompt=marginals, output=marginals, correlation=st.floats(-1, 1)),
    st.lists(st.builds(LengthsPart, histogram=texts, weight=weights), min_size=1, max_size=2).map(
        lambda parts: Lengths(mixture=tuple(parts))
    ),
)
renewals = st.builds(Renewal, rate=rates, cv=st.floats(0, 20))
arrivals = st.one_of(
    st.builds(Arrivals, poisson=rates),
    st.builds(Arrivals, gamma=renewals),
    st.builds(Arrivals, weibull=renewals),
    st.builds(
        Arrivals,
        bursts=st.builds(
            Bursts,
            rate=rates,
            burst=times,
            quiet=times,
            quiet_level=st.floats(0, 1, exclude_max=True),
            sources=st.integers(1, 1000),
        ),
    ),
    st.builds(
        Arrivals,
        sessions=st.builds(
            Sessions,
            rate=rates,
            turns=st.floats(1, 1000),
            between=times,
            system_prompt=tokens,
        ),
    ),
    st.builds(Arrivals, replay=st.builds(Replay, file=texts, rate=st.none() | rates)),
    st.builds(
        Arrivals,
        users=st.builds(
            Users,
            count=st.integers(10**3, 10**9),
            active=st.floats(0.01, 1),
            requests_per_hour=st.floats(0.01, 1e3),
        ),
    ),
)
levels = st.lists(st.floats(0, 1e6), min_size=24, max_size=24).map(lambda d: (1.0, *d[1:]))
traffics = st.none() | st.builds(
    Traffic,
    profiles=st.tuples(st.builds(Profile, weekday=levels, weekend=st.none() | levels)),
    plan_for=st.sampled_from(["peak", "mean", "p95", "p99.9"]),
    peak_factor=st.floats(1, 100),
    growth=st.none() | st.builds(Growth, per_quarter=shares, quarters=st.integers(1, 40)),
    clusters=st.integers(1, 200),
)
slos = st.tuples(times, times, times, shares).map(
    lambda t: Slo(
        ttft=sorted(t[:3])[1],
        tpot=min(t[:3]),
        e2e=max(t[:3]),
        ttft_by_prompt=(PromptBucket(up_to=100, ttft=t[0]), PromptBucket(up_to=900, ttft=t[1])),
        attainment=t[3],
    )
)
workloads = st.lists(
    st.builds(
        Workload,
        id=ids,
        model=texts,
        precisions=st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple),
        arrivals=arrivals,
        lengths=lengths,
        slo=slos,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda w: w.id,
).map(tuple)
prices = st.one_of(
    st.fixed_dictionaries({"price": st.floats(1e-6, 1e6)}),
    st.fixed_dictionaries(
        {"price_from": st.builds(PriceChoice, provider=texts, region=st.none() | texts, term=texts)}
    ),
)
offers = st.lists(
    st.tuples(texts, st.integers(1, 10_000_000), prices).map(
        lambda t: AcceleratorOffer(id=t[0], stock=t[1], **t[2])
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda offer: offer.id,
).map(tuple)
policies = st.builds(
    Policies,
    tp_degrees=st.lists(st.integers(1, 1024), min_size=1, max_size=4, unique=True).map(tuple),
    router=st.sampled_from(("round_robin", "least_outstanding")),
    memory_utilisation=shares,
    watermark=st.floats(0, 0.49),
    reserve_full_prompt=st.booleans(),
)
scenarios = st.builds(
    Scenario,
    format_version=st.just("1.0"),
    name=texts,
    workloads=workloads,
    traffic=traffics,
    accelerators=offers,
    policies=policies,
    limits=st.builds(FleetLimits, budget=st.none() | st.just(0.0) | st.floats(1e-6, 1e12)),
    objective=st.sampled_from(("max_goodput_per_usd", "min_cost", "max_goodput")),
    solver=st.builds(
        Solver, seed=st.integers(0, 2**32 - 1), gap=st.floats(0, 0.99), time_limit=times
    ),
)


@given(scenarios)
def test_a_scenario_written_as_yaml_reads_back_equal(scenario):
    assert validate(parse_yaml(dump_yaml(scenario), "x"), Scenario) == scenario


@given(scenarios)
def test_a_scenario_in_a_plan_reads_back_equal(scenario):
    """The effective scenario stands in plan.json as JSON, which is YAML as well."""
    data = scenario.model_dump(mode="json", exclude_none=True)
    text = json.dumps(data, ensure_ascii=True)
    assert Scenario.model_validate_json(text, context={"from_file": True}) == scenario


WORDS_OF_OTHER_YAMLS = (
    "1e3", "1E5", "no", "Yes", "on", "~", "null", "1:30", "012", "0o14", "0x1F", "1_000",
    "2026-01-31", "<<", "=", ".5", "5.", "-", "- a", "a: b", "#x", "a #b", "&a", "*a", "!a", "%a",
    "true", ".inf", ".nan", "+1", "[", "{", "'", '"', " a", "a ", "\n", "\t", "a\nb", "\u2028",
    "\x85", "\ufeff", "\x07", "\U0001f600",
)  # fmt: skip


@pytest.mark.parametrize("word", WORDS_OF_OTHER_YAMLS)
def test_words_that_look_like_something_else_stay_words(word):
    class Note(Spec):
        text: str

    assert validate(parse_yaml(dump_yaml(Note(text=word)), "x"), Note).text == word


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=5),
    st.dictionaries(texts, finite, max_size=3),
    st.none() | texts,
)
def test_a_plan_written_as_json_reads_back_equal(intervals, numbers, created):
    sweep = tuple(
        {"multiple": 1.0 + i, "attainment": {"chat": Interval(value=v, low=a, high=b)}}
        for i, (v, a, b) in enumerate(intervals)
    )
    base = plan(created=created)
    evidence = base.evidence.model_dump() | {"demand_sweep": sweep}
    rejected = [{"template": "x", "reason": "y", "numbers": numbers}]
    document = plan(created=created, evidence=evidence, rejected=rejected)
    assert FleetPlan.model_validate_json(dump_json(document)) == document


@pytest.mark.parametrize("document", [plan(), infeasible()], ids=["plan", "infeasible"])
def test_a_plan_file_reads_back_equal_and_is_written_the_same(document, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(dump_json(document), encoding="utf-8")
    again = read_plan(path)
    assert again == document
    assert dump_json(again) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("replicas", [0, -1])
def test_a_pool_without_replicas_is_no_plan(replicas, tmp_path):
    document = json.loads(dump_json(plan()))
    document["pools"][0]["replicas"] = replicas
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=r"pools\.0\.replicas"):
        read_plan(path)


@given(scenarios, st.data())
def test_a_setting_changes_the_value_it_names_and_nothing_else(scenario, data):
    position = data.draw(st.integers(0, len(scenario.workloads) - 1))
    name = data.draw(st.sampled_from((scenario.workloads[position].id, str(position))))
    taken = [w.id for i, w in enumerate(scenario.workloads) if i != position]
    if name in taken:  # an id of digits comes before a position
        position = next(i for i, w in enumerate(scenario.workloads) if w.id == name)
    source = parse_yaml(dump_yaml(scenario), "x")
    setting = f"workloads.{name}.arrivals={{poisson: 7.5 req/s}}"
    changed = validate(apply_overrides(source, [setting]), Scenario)
    expected = scenario.model_dump()
    expected["workloads"][position]["arrivals"] = Arrivals(poisson=7.5).model_dump()
    assert changed.model_dump() == expected


def test_settings_apply_in_order_and_open_sections(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "format_version: '1.0'\nname: x\npolicies:\nworkloads:\n"
        "  - {id: chat-3.1, model: m, arrivals: {poisson: 1 req/s}, lengths: {histogram: h},\n"
        "     slo: {ttft: 1 s, tpot: 30 ms}}\n"
        "accelerators: [{id: a, price: 1 USD/h}]\n"
    )
    loaded = load_scenario(
        path,
        [
            "policies.engine=sglang",
            "solver.seed=1",
            "solver.seed=2",
            "workloads.chat-3.1.slo.ttft=2 s",
            "accelerators.a.stock=8",
        ],
    )
    scenario = loaded.scenario
    assert (scenario.policies.engine, scenario.solver.seed) == ("sglang", 2)
    assert (scenario.workloads[0].slo.ttft, scenario.accelerators[0].stock) == (2.0, 8)
    origins = loaded.origins()
    assert origins["workloads.0.slo.ttft"] == "set"
    assert origins["workloads.0.slo.tpot"] == "file"
    assert origins["workloads.0.slo.attainment"] == "default"
    assert origins["solver.seed"] == "set"
    assert origins["solver.gap"] == "default"
    assert loaded.at("workloads", 0, "slo", "ttft") == "--set workloads.chat-3.1.slo.ttft"


def documents(base=Spec):
    for kind in base.__subclasses__():
        if kind.__module__.startswith("planner."):
            yield kind
        yield from documents(kind)


@pytest.mark.parametrize("kind", sorted(documents(), key=lambda k: k.__name__))
def test_every_default_is_a_value_that_the_field_accepts(kind):
    """Defaults are not validated at run time; a default in a section must be valid all the same."""
    for field in kind.model_fields.values():
        if not field.is_required():
            accepted = TypeAdapter(Annotated[(field.annotation, "default", *field.metadata)])
            default = field.get_default(call_default_factory=True)
            assert accepted.validate_python(default) == default


def test_the_folder_of_a_scenario_is_kept_for_relative_paths(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text((Path(__file__).parents[2] / "scenarios" / "quickstart.yaml").read_text())
    assert load_scenario(path).folder == tmp_path
