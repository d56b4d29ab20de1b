"""The command line from outside: what goes where, exit codes, whole files, closed pipes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.output import write_whole
from planner.cli.plan import EXIT_CODES
from planner.data import shipped
from planner.errors import InputError
from planner.spec import dump_json
from tests.plans import infeasible, plan
from tests.unit.test_engine_case import SINGLE

ROOT = Path(__file__).parents[2]
VERBS = ("new", "schema", "check", "plan", "explain", "compare", "simulate", "capacity", "workload")
ONE, TWO = "rate=1000,attainment=98%,cost=1 USD/s", "rate=1200,attainment=70%,cost=1 USD/s"


def run(*words, **changes):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **changes.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "planner", *map(str, words)],
        env=environment,
        text=True,
        check=False,
        timeout=60,
        **{"capture_output": True, **changes},
    )


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(dump_json(plan()))
    return path


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from planner.cli import main; main(['--help']); "
        "print(' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded.isdisjoint({"numpy", "scipy", "pulp", "highspy", "pydantic", "yaml", "rich"})
    assert "planner" in loaded


def test_importing_the_package_imports_nothing():
    code = "import sys, planner; print(' '.join(m for m in sys.modules if m.startswith('planner')))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["planner"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    assert main([verb, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: planner {verb} ")
    assert "--json" in out
    assert err == ""


@pytest.mark.parametrize(
    "words",
    [
        ["plna"],
        ["check"],
        ["check", "--fast", "x.yaml"],
        ["plan", "x.yaml", "--seed", "-1"],
        ["plan", "x.yaml", "--seed", "one"],
        ["schema", "fleet"],
        ["compare", ONE],
    ],
)
def test_wrong_usage_is_wrong_input(words, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: planner")


@pytest.mark.parametrize("path", sorted(shipped("scenarios").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_scenario_is_good(path, capsys):
    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}: ok (")
    assert err == ""


def test_new_copies_and_never_overwrites(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine"]) == 0
    written = (tmp_path / "mine.yaml").read_text()
    assert written == (shipped("scenarios") / "quickstart.yaml").read_text()
    assert main(["check", "mine.yaml"]) == 0
    capsys.readouterr()
    (tmp_path / "mine.yaml").write_text("mine")
    assert main(["new", "mine"]) == 2
    assert capsys.readouterr().err == "mine.yaml: is there already; choose another name\n"
    assert (tmp_path / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        (".", ".: is a folder; name a file in it"),
        ("..", "..: is a folder; name a file in it"),
        ("/", "/: is a folder; name a file in it"),
        ("none/mine", "none/mine.yaml: there is no folder none; make it first"),
        ("x" * 300, "x" * 300 + ".yaml: cannot be written: File name too long"),
    ],
)
def test_new_tells_what_is_no_file(name, mistake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 2
    assert capsys.readouterr().err == f"{mistake}\n"
    assert list(tmp_path.iterdir()) == []


def test_new_knows_what_it_can_copy(capsys):
    assert main(["new", "x", "--from", "quickstrat"]) == 2
    assert "did you mean 'quickstart'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "fields"), [("scenario", {"workloads"}), ("plan", {"pools", "evidence"})]
)
def test_schema_is_a_json_schema_with_words_for_fields(kind, fields, capsys):
    assert main(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert fields <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_compare_gives_the_founding_example(capsys):
    assert main(["compare", ONE, TWO, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["winner"] == "one"
    assert result["two"]["usd_per_thousand_compliant"] == pytest.approx(1000 / 840)
    assert main(["compare", ONE, TWO]) == 0
    assert capsys.readouterr().out.startswith("one wins: a compliant request of two is 17 % dearer")


def test_a_plan_compared_with_itself_wins_nothing(plan_file, capsys):
    assert main(["compare", str(plan_file), str(plan_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["winner"] == "neither"


def test_explain_reads_a_plan(plan_file, capsys):
    assert main(["explain", str(plan_file), "--why-not", "l40s", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rejected"]) == 2
    assert main(["explain", str(plan_file), "--why-not", "abacus"]) == 2
    assert capsys.readouterr().err.startswith("--why-not abacus: no template has it; ")


def test_a_plan_that_is_not_there_is_told(capsys):
    assert main(["explain", "none.json"]) == 2
    assert capsys.readouterr().err == "none.json: no such file\n"
    assert main(["compare", "none.json", TWO]) == 2
    assert capsys.readouterr().err.startswith("none.json: no such file; name a plan, or write")


def test_explain_says_why_there_is_no_fleet(tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(dump_json(infeasible()))
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out.startswith("No fleet keeps every promise.")


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("{", "not JSON"),
        ("[]", "is this a plan?"),
        ("{}", "is this a plan?"),
        ("\xff", "not JSON"),
        ('{"seed": NaN}', "NaN is no number"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_plan_is_told_in_one_line(content, mistake, tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert main(["explain", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:")
    assert mistake in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["--gap", "5"], "--gap: 5 is more than all; write 0.05 or 5 %"),
        (["--gap", "-1%"], "--gap: '-1%' is not between 0 and 1; write 0.1% or 0.001"),
        (["--gap", "small"], "--gap: expected a share, such as 0.95 or 95 %; got 'small'"),
        (["--time-limit", "60"], "--time-limit: expected a time with its unit"),
        (["--time-limit", "0s"], "--time-limit: '0s' must be above 0"),
        (["-o", "/none/plan.json"], "/none/plan.json: cannot be written: there is no folder /none"),
        (["-o", "/"], "/: is a folder; name a file"),
        (["--set", "solver.gap=2 %%"], "--set solver.gap: solver.gap: expected a share"),
    ],
)
def test_plan_refuses_options_before_it_plans(words, mistake, capsys):
    assert main(["plan", str(shipped("scenarios") / "quickstart.yaml"), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(mistake)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ([], "give either a PLAN or --engine-case FILE; neither is given"),
        (["p.json", "--engine-case", "c.json"], "give either a PLAN or --engine-case FILE; both"),
        (["p.json", "--check"], "--check belongs to --engine-case"),
    ],
)
def test_simulate_takes_one_thing(words, mistake, capsys):
    assert main(["simulate", *words]) == 2
    assert capsys.readouterr().err.startswith(mistake)


def test_exit_codes_cover_every_status():
    assert EXIT_CODES == {"optimal": 0, "feasible": 4, "unknown": 4, "infeasible": 3}


def test_a_closed_pipe_ends_quietly():
    words = [sys.executable, "-m", "planner", "schema", "plan"]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["--version"]])
def test_help_into_a_closed_pipe_ends_quietly(words):
    with subprocess.Popen(
        [sys.executable, "-m", "planner", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_a_full_device_is_told_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = run("schema", "plan", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == "cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    [
        ["catalogue", "list", "llms"],
        ["catalogue", "list", "--json"],
        ["catalogue", "show", "h100-sxm"],
        ["simulate", "--engine-case", "{case}"],
        ["simulate", "--engine-case", "{case}", "--json"],
    ],
)
@pytest.mark.parametrize("device", ["full", "closed"])
def test_what_cannot_be_written_is_no_mistake_of_ours(words, device, tmp_path):
    case = tmp_path / "case.json"
    case.write_text(json.dumps(SINGLE))
    words = [sys.executable, "-m", "planner", *(w.replace("{case}", str(case)) for w in words)]
    to = ">/dev/full" if device == "full" else ">&-"
    done = subprocess.run(
        f"{shlex.join(words)} {to}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    why = "No space left on device" if device == "full" else "it is closed"
    assert (done.returncode, done.stderr) == (1, f"cannot write to standard output: {why}\n")


def test_remarks_never_take_the_place_of_results():
    """With standard error closed, print would write the remark to standard output."""
    words = shlex.join([sys.executable, "-m", "planner", "check", "none.yaml"])
    done = subprocess.run(
        f"{words} 2>&-", shell=True, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_an_interrupt_ends_with_4():
    code = (
        "import os, signal, sys, planner.cli.check as c\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells may have it ignored
        "c._summary = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "from planner.cli import main\n"
        "sys.exit(main(['check', 'x.yaml']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (4, "interrupted\n")
    assert signal.SIGINT == 2


@pytest.mark.parametrize("where", ["typer.main.get_command", "typer.core.TyperGroup.parse_args"])
def test_an_interrupt_outside_of_a_verb_ends_with_4(where):
    code = (
        "import os, signal, sys, typer.core, typer.main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"{where} = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\n"
        "from planner.cli import main\n"
        "sys.exit(main(['check', 'x.yaml']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (4, "interrupted\n")


@pytest.mark.parametrize(("debug", "lines"), [("0", 1), ("1", 5)])
def test_a_mistake_of_ours_is_one_line_unless_debugged(debug, lines):
    code = (
        "import sys, planner.cli.check as c\n"
        "c._summary = lambda *a: 1 / 0\n"
        "from planner.cli import main\n"
        "sys.exit(main(['check', 'x.yaml']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PLANNER_DEBUG": debug},
    )
    assert done.returncode == 1
    if lines == 1:
        assert done.stderr.startswith("planner: internal error: ZeroDivisionError: division by")
        assert "please report it" in done.stderr
        assert done.stderr.count("\n") == 1
    else:
        assert done.stderr.startswith("Traceback")


def test_output_in_a_narrow_encoding_is_still_output():
    done = run("compare", ONE, TWO, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stderr == ""
    assert "compliant goodput" in done.stdout


@pytest.mark.parametrize("colour", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_colour_goes_into_a_pipe(colour):
    assert "\x1b[3" not in run("compare", ONE, TWO, env=colour).stdout


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_rights_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "plan.json", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o640


def test_a_link_is_followed_and_a_device_is_written(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_whole(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


def test_what_cannot_be_written_is_told(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*none; make it first"):
        write_whole(tmp_path / "none" / "plan.json", "new")
    with pytest.raises(InputError, match="is a folder; name a file"):
        write_whole(tmp_path, "new")
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(tmp_path / "a\0b", "new")


@pytest.mark.parametrize(
    ("number", "reason"), [(28, "the disk is full; the file is left"), (30, "is read-only for you")]
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, number, reason):
    path = tmp_path / "plan.json"
    path.write_text("old")

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=reason):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
