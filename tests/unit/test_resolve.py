"""What only the catalogue and other files can tell about a scenario, each with its line."""

from pathlib import Path

import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.problem.lengths import JointLengths
from planner.problem.prefixes import TracePrefixes
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.simulation.cached_pool import PrefixCache

CATALOGUE = Catalogue()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 100}, output: {fixed: 10}}
    slo: {ttft: 1 s, tpot: 50 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
"""


def resolved(folder: Path, text: str):
    path = folder / "s.yaml"
    path.write_text(text)
    return resolve(load_scenario(path), CATALOGUE)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        resolved(folder, text)
    return [line.replace(f"{folder}/", "") for line in str(error.value).splitlines()]


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        (
            "llama-3.1-8b",
            "lama-3.1-8b",
            "s.yaml:5:5: workloads.0.model",
            "did you mean 'llama-3.1-8b'",
        ),
        ("h100-sxm", "h100-smx", "s.yaml:10:6: accelerators.0.id", "did you mean 'h100-sxm'"),
        ("id: h100-sxm", "id: h100", "s.yaml:10:6: accelerators.0.id", "ambiguous"),
        (
            "price: 3 USD/h",
            "price_from: {provider: AWS, region: mars-1}",
            "s.yaml:10:20: accelerators.0.price_from",
            "mars-1",
        ),
        (
            "price: 3 USD/h",
            "price_from: {provider: AWS}",
            "s.yaml:10:20: accelerators.0.price_from",
            "differ by region",
        ),
        (
            "lengths: {prompt: {fixed: 100}, output: {fixed: 10}}",
            "lengths: {histogram: azure-conversations}",
            "s.yaml:7:15: workloads.0.lengths.histogram: ",
            "did you mean 'azure-conversation-2023'",
        ),
        (
            "lengths: {prompt: {fixed: 100}, output: {fixed: 10}}",
            "lengths: {trace: nowhere.csv}",
            "s.yaml:7:15: workloads.0.lengths.trace: ",
            "nowhere.csv: no such file",
        ),
        (
            "arrivals:",
            "precisions: [fp9]\n    arrivals:",
            "s.yaml:6:18: workloads.0.precisions",
            "known: bf16",
        ),
        (
            "accelerators:",
            "policies: {tp_degrees: [1, 3]}\naccelerators:",
            "s.yaml:9:28: policies.tp_degrees.1",
            "use 2 or 4",
        ),
        ("llama-3.1-8b", "gpt-oss-20b", "s.yaml:5:5: workloads.0.model", "no step law"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_mend(tmp_path, old, new, where, words):
    (line,) = mistakes(tmp_path, SCENARIO.replace(old, new, 1))
    assert line.startswith(where)
    assert words in line


def test_all_mistakes_are_told_at_once(tmp_path):
    text = SCENARIO.replace("llama-3.1-8b", "lama").replace("h100-sxm", "h1000")
    assert len(mistakes(tmp_path, text)) == 2


def test_one_accelerator_under_two_names_is_refused(tmp_path):
    text = SCENARIO + "  - {id: h100_sxm, price: 2 USD/h}\n"
    (line,) = mistakes(tmp_path, text)
    assert line == (
        "s.yaml:11:6: accelerators.1.id: 'h100_sxm' and 'h100-sxm' are the same accelerator;"
        " keep one"
    )


TRACE_LINE = "lengths: {prompt: {fixed: 100}, output: {fixed: 10}}"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "the trace is empty"),
        ("t.csv", "ContextTokens,GeneratedTokens\n", "the trace is empty"),
        ("t.csv", "a,b\n1,2\n", "no known pair"),
        ("t.csv", "ContextTokens,GeneratedTokens\n5,x\n", "t.csv:2:1: GeneratedTokens is 'x'"),
        (
            "t.csv",
            "ContextTokens,GeneratedTokens\n5,4\n-3,4\n",
            "t.csv:3:1: ContextTokens is -3",
        ),
        ("t.csv", "ContextTokens,GeneratedTokens\n5,nan\n", "no request has both lengths"),
        ("t.csv", 'ContextTokens,GeneratedTokens\n"5","\n4"\n6,x\n', "t.csv:4:1: "),
        (
            "t.csv",
            "ContextTokens,GeneratedTokens\n5\n",
            "t.csv:2:1: 1 cells where the header has 2",
        ),
        ("t.csv", "ContextTokens,GeneratedTokens\n5,4" + 2_000_000 * " ", "t.csv:2:1: a line of"),
        (
            "t.jsonl",
            '{"input_length": 1' + 5_000 * "0" + ', "output_length": 1}',
            "t.jsonl:1:1: input_length",
        ),
        ("t.jsonl", '{"input_length": 1' + 400 * "0" + ', "output_length": 1}', "t.jsonl:1:1: "),
        ("t.jsonl", '{"input_length": 5}\n', "no known pair"),
        ("t.jsonl", '{"input_length": 5, "output_length"\n', "t.jsonl:1:36: not JSON"),
        ("t.csv.gz", "this is no gzip", "is no whole gzip file"),
    ],
)
def test_a_bad_trace_blames_the_row(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    (line,) = mistakes(tmp_path, SCENARIO.replace(TRACE_LINE, f"lengths: {{trace: {name}}}"))
    assert line.startswith("s.yaml:7:15: workloads.0.lengths.trace: ")
    assert words in line
    assert "Errno" not in line


def test_a_folder_and_a_device_are_no_traces(tmp_path):
    (tmp_path / "d.csv").mkdir()
    (line,) = mistakes(tmp_path, SCENARIO.replace(TRACE_LINE, "lengths: {trace: d.csv}"))
    assert "d.csv: is a folder without" in line
    assert line.endswith("; name a file")
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    (line,) = mistakes(tmp_path, SCENARIO.replace(TRACE_LINE, "lengths: {trace: endless.csv}"))
    assert "endless.csv: is no regular file but a pipe or a device" in line


def test_a_trace_is_read_with_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("in,out\n5,0\n7,3\n")
    columns = "lengths: {trace: t.csv, columns: {prompt: in, output: out}}"
    law = resolved(tmp_path, SCENARIO.replace(TRACE_LINE, columns)).demands[0].lengths
    assert isinstance(law, JointLengths)
    assert law.prompt_low.tolist() == [5, 7]
    assert law.output_low.tolist() == [3, 3]  # no token, no answer: it failed, and asked for one


def test_a_histogram_file_beside_the_scenario_is_read(tmp_path):
    (tmp_path / "h.csv").write_text(
        "prompt_low,prompt_high,output_low,output_high,count\n1,9,2,3,4\n"
    )
    text = SCENARIO.replace(TRACE_LINE, "lengths: {histogram: h.csv}")
    law = resolved(tmp_path, text).demands[0].lengths
    assert isinstance(law, JointLengths)
    assert (law.prompt_high.tolist(), law.weight.tolist()) == ([9], [4.0])


def test_a_price_of_the_catalogue_names_its_source(tmp_path):
    choice = "price_from: {provider: AWS, region: us-east-1, term: on_demand}"
    supply = resolved(tmp_path, SCENARIO.replace("price: 3 USD/h", choice)).supplies[0]
    assert supply.usd_per_hour == pytest.approx(6.88, rel=0.001)  # p5.48xlarge / 8
    assert "AWS us-east-1 on-demand, p5" in supply.price_source


def test_precision_is_the_models_own_unless_listed(tmp_path):
    assert resolved(tmp_path, SCENARIO).demands[0].precisions == ("bf16",)


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("{history: true}", "only arrivals.sessions have a history"),
        ("{trace: t.jsonl}", "give t.jsonl as lengths.trace and as arrivals.replay.file, too"),
    ],
)
def test_a_prefix_that_does_not_go_with_its_arrivals_is_refused(tmp_path, prefix, words):
    text = SCENARIO.replace("    slo:", f"    prefix: {prefix}\n    slo:")
    (line,) = mistakes(tmp_path, text)
    assert line.startswith("s.yaml:8:5: workloads.0.prefix")
    assert words in line


def test_sessions_have_their_own_system_prompt(tmp_path):
    text = SCENARIO.replace(
        "{poisson: 5 req/s}", "{sessions: {rate: 5 req/s, turns: 3, between: 9 s}}"
    ).replace("    slo:", "    prefix: {system_prompt: 500}\n    slo:")
    (line,) = mistakes(tmp_path, text)
    assert "write prefix: {history: true}" in line


ROW = '{"timestamp": %d, "input_length": 1100, "output_length": 5, "hash_ids": [0, %d, 9]}\n'


def test_a_trace_names_what_its_prompts_begin_with(tmp_path):
    (tmp_path / "t.jsonl").write_text("".join(ROW % (1000 * i, i % 2) for i in range(8)))
    text = SCENARIO.replace("{poisson: 5 req/s}", "{replay: {file: t.jsonl}}")
    text = text.replace("{prompt: {fixed: 100}, output: {fixed: 10}}", "{trace: t.jsonl}")
    problem = resolved(tmp_path, text.replace("    slo:", "    prefix: {trace: t.jsonl}\n    slo:"))
    assert problem.demands[0].prefix == TracePrefixes(512)
    assert {b.cache for b in enumerate_builds(problem, CATALOGUE)[0]} == {PrefixCache(512)}
    plain = resolved(tmp_path, text)
    assert plain.demands[0].prefix is None
    assert {b.cache for b in enumerate_builds(plain, CATALOGUE)[0]} == {None}


def test_a_trace_without_block_names_has_no_prefixes(tmp_path):
    (tmp_path / "t.csv").write_text("timestamp,prompt_tokens,output_tokens\n0,9,9\n1,9,9\n")
    text = SCENARIO.replace("{poisson: 5 req/s}", "{replay: {file: t.csv}}")
    text = text.replace("{prompt: {fixed: 100}, output: {fixed: 10}}", "{trace: t.csv}")
    (line,) = mistakes(tmp_path, text.replace("    slo:", "    prefix: {trace: t.csv}\n    slo:"))
    assert "names no blocks (hash_ids)" in line


def test_longer_prompts_are_kept_in_coarser_blocks(tmp_path):
    text = SCENARIO.replace("    slo:", "    prefix: {system_prompt: 50}\n    slo:")
    sizes = {}
    for mean in (100, 1024, 1100, 5000):
        problem = resolved(tmp_path, text.replace("{fixed: 100}", f"{{fixed: {mean}}}"))
        (cache,) = {b.cache for b in enumerate_builds(problem, CATALOGUE)[0]}
        sizes[mean] = cache.block_tokens
    assert sizes == {100: 16, 1024: 16, 1100: 32, 5000: 128}
