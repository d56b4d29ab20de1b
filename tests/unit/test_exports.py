"""Exports: what goes out comes back, every corruption is seen, and nothing is invented."""

from __future__ import annotations

import copy
import json
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.app import run
from planner.errors import InputError
from planner.exports import TARGETS, ExportOptions, check, export, read_options
from planner.exports.facts import facts_of, file_name
from planner.exports.load_test import requests_needed
from planner.exports.vllm import arguments, config_of, config_of_arguments
from planner.spec import dump_json
from tests.plans import infeasible, plan, pool, workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.fleet import FleetPlan

OPTIONS = ExportOptions(
    models={"llama-3.1-8b": "organisation/model"},
    image="registry.test/vllm:1",
    kv_connector="NixlConnector",
    selectors={"h100-sxm": {"gpu": "h100"}, "h200-sxm": {"gpu": "h200"}},
)


def side(role: str, **changes: Any) -> dict[str, Any]:
    link = None
    return pool(id=f"g/{role}", role=role, group="g", groups=1, link=link) | changes


PLANS = {
    "one pool": plan(),
    "two kinds": plan(
        pools=[
            pool(),
            pool(id="b@x", accelerator="h200-sxm", tp_degree=8, prefix_caching=True, replicas=7),
        ]
    ),
    "apart": plan(pools=[side("prefill"), side("decode", tp_degree=4, kv_dtype="fp8")]),
    "ranks": plan(pools=[pool(dp_degree=4, ep_degree=8, scheduling_policy="priority")]),
    "whole prompts": plan(pools=[pool(chunked_prefill=False, memory_utilisation=0.925)]),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_goes_out_comes_back(name, target):
    given_plan = PLANS[name]
    texts = export(given_plan, [target], OPTIONS)
    read = TARGETS[target][1]
    back = [read(text) for file, text in texts.items() if file.startswith(f"{target}/")]
    assert back == [facts_of(p) for p in given_plan.pools]
    assert folder(texts, target, given_plan) == []


def folder(texts: dict[str, str], target: str, given_plan: FleetPlan) -> list[str]:
    files = {k.removeprefix(f"{target}/"): v for k, v in texts.items() if k.startswith(target)}
    return check(given_plan, target, files)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every value of a document stands."""
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        yield (*path, key)
        yield from places_in(part, (*path, key))


def corrupted(document: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Yield copies in which one value is another, of another type, missing, or one key unknown."""
    places = list(places_in(document))
    while True:
        path = places[int(rng.integers(len(places)))]
        found = copy.deepcopy(document)
        holder = found
        for key in path[:-1]:
            holder = holder[key]
        now, key = holder[path[-1]], path[-1]
        kind = int(rng.integers(4))
        if kind < 2 and isinstance(holder, dict):
            del holder[key]
            holder |= {f"{key}X": now} if kind else {}
        elif isinstance(now, dict | list) or kind == 2:
            holder[key] = {"x": 1} if not isinstance(now, dict) else "x"
        else:
            holder[key] = f"{now}x" if isinstance(now, str) else now + 1
        yield found


FREE = ("model", "image", "nodeSelector", "planner.engine", "periodSeconds", "failureThreshold")
"""What a plan does not state: another value of it is another choice of the user's."""


def is_free(before: Any, after: Any, target: str) -> bool:
    """Tell whether only something that the plan leaves open is another, and still in its form."""
    kept = copy.deepcopy(after)

    def blank(value: Any) -> Any:
        if isinstance(value, dict):
            kept_keys = {k: v for k, v in value.items() if k != "nodeSelector" or not _fits(v)}
            return {k: "free" if k in FREE and _fits(v) else blank(v) for k, v in kept_keys.items()}
        if isinstance(value, list):
            return [blank(x) for x in value]
        return value

    def words(value: Any) -> Any:
        if target == "lws" and isinstance(value, dict):
            try:
                args = value["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
                args["containers"][0]["args"][0] = "free"
            except (KeyError, TypeError, IndexError):
                pass
        return value

    return blank(words(copy.deepcopy(before))) == blank(words(kept))


def _fits(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(v, str) for v in value.values())
    return (isinstance(value, str) and value != "") or (type(value) is int and value > 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["one pool", "apart"])
def test_a_hundred_corruptions_are_all_seen(target, name):
    given_plan = PLANS[name]
    texts = export(given_plan, [target], OPTIONS)
    files = {k.split("/")[1]: v for k, v in texts.items() if k.startswith(target)}
    rng, seen = np.random.default_rng(7), 0
    file = sorted(files)[0]
    head = "\n".join(line for line in files[file].splitlines() if line.startswith("#"))
    document = yaml.safe_load(files[file])
    for bad in corrupted(document, rng):
        if bad == document or is_free(document, bad, target):
            continue
        text = f"{head}\n{yaml.safe_dump(bad, sort_keys=False)}"
        assert check(given_plan, target, {**files, file: text}), bad
        seen += 1
        if seen == 100:
            break


def test_another_number_of_replicas_is_seen():
    given_plan = plan()
    for target in TARGETS:
        texts = export(given_plan, [target], OPTIONS)
        more = plan(pools=[pool(replicas=3)])
        assert [line.split(": ", 1)[1] for line in folder(texts, target, more)] == [
            "replicas: is 2, and the plan says 3"
        ]
        assert len(folder(texts, target, plan(pools=[pool(id="other")]))) == 2


def test_a_command_line_says_what_a_file_does():
    for one in PLANS.values():
        for each in one.pools:
            assert config_of_arguments(arguments(each, OPTIONS)) == config_of(each, OPTIONS)


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_names_are_names_and_tell_pools_apart(one, other):
    names = [file_name(one), file_name(other)]
    for name in names:
        assert len(name) <= 42
        assert name[0].isalpha()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert (names[0] == names[1]) == (one == other)


def test_nothing_is_invented():
    nothing = ExportOptions()
    for target, what in (("vllm", "--model llama-3.1-8b=LOCATION"), ("lws", "--image")):
        with pytest.raises(InputError, match=what):
            export(plan(), [target], nothing)
    bare = OPTIONS.model_copy(update={"kv_connector": None})
    with pytest.raises(InputError, match="--kv-connector"):
        export(PLANS["apart"], ["vllm"], bare)
    no_labels = OPTIONS.model_copy(update={"selectors": {}})
    with pytest.raises(InputError, match="--node-selector h100-sxm=LABEL=VALUE"):
        export(PLANS["two kinds"], ["lws"], no_labels)
    with pytest.raises(InputError, match="no pools"):
        export(infeasible(), ["vllm"], OPTIONS)
    with pytest.raises(InputError, match="several nodes"):
        export(plan(pools=[pool(tp_degree=8, pp_degree=2)]), ["lws"], OPTIONS)


def test_options_name_what_is_in_the_plan():
    with pytest.raises(InputError) as error:
        read_options(plan(), ["llama=x", "y"], "a\nb", None, ["h100=a=b", "h100-sxm=a"])
    assert len(str(error.value).splitlines()) == 5


def test_words_of_a_plan_do_not_reach_a_shell_a_comment_or_a_heading():
    bad = "$(touch x)`|<b>#\nkind: Evil/../x"
    made = plan(pools=[pool(id=bad, engine=bad, router=bad)])
    texts = export(made, list(TARGETS), OPTIONS)
    page = texts["README.md"]
    assert "<b>" not in page.replace("\\<b", "")
    assert not any(line.startswith("kind:") for line in page.splitlines())
    for target in TARGETS:
        assert folder(texts, target, made) == []
        assert all(name.count("/") == 1 for name in texts if name != "README.md")
    line = next(x for x in page.splitlines() if x.startswith("vllm bench"))
    words = shlex.split(line)
    assert words[:3] == ["vllm", "bench", "serve"]
    assert "/" not in words[words.index("--result-filename") + 1]
    with pytest.raises(InputError, match="is no id of a scenario"):
        export(plan(workloads=[workload(id=bad)]), ["vllm"], OPTIONS)


@given(st.floats(0.5, 0.999), st.floats(0.005, 0.3))
def test_requests_needed_tell_two_shares_apart(promise, apart):
    """With so many, the 95 % intervals about both shares do not meet; with half, they do."""
    share = promise - apart if promise - apart > 0.01 else promise / 2
    n = requests_needed(share, promise)
    assert n is not None

    def reach(p: float, count: float) -> float:
        return float(1.959964 * np.sqrt(p * (1 - p) / count))

    assert reach(share, n) + reach(promise, n) <= abs(promise - share) * (1 + 1e-9)
    if n > 1000:
        assert reach(share, n / 2) + reach(promise, n / 2) > abs(promise - share)
    assert requests_needed(promise, promise) is None


def test_from_the_command_line(tmp_path, capsys):
    file, out = tmp_path / "plan.json", tmp_path / "out"
    file.write_text(dump_json(plan()), encoding="utf-8")
    words = ["export", str(file), "--target", "vllm", "--target", "lws", "-o", str(out)]
    given_words = ["--model", "llama-3.1-8b=organisation/model", "--image", "x:1"]
    assert run([*words, *given_words]) == 0
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "--request-rate 20" in page
    assert "--random-input-len 1000 --random-output-len 250" in page
    assert "--goodput ttft:500 tpot:30" in page
    assert "planner confirm" in page
    assert run([*words, "--check"]) == 0
    (vllm,) = (out / "vllm").iterdir()
    vllm.write_text(
        vllm.read_text(encoding="utf-8").replace("max-num-seqs: 256", "max-num-seqs: 64"),
        encoding="utf-8",
    )
    capsys.readouterr()
    assert run([*words, "--check", "--json"]) == 5
    (told,) = json.loads(capsys.readouterr().out)["differs"]
    assert told.endswith("max_num_seqs: is 64, and the plan says 256")
    other = tmp_path / "other.json"
    other.write_text(dump_json(plan(pools=[pool(id="other")])), encoding="utf-8")
    assert run(["export", str(other), *words[2:], *given_words]) == 2
    assert "name another folder" in capsys.readouterr().err
    assert run(["export", str(file), "--target", "helm", "-o", str(out)]) == 2
