"""What the repository says of itself: commands that exist, pages that are true, no traces."""

from __future__ import annotations

import ast
import importlib
import re
import stat
import subprocess
from pathlib import Path

import pytest
import typer.main

import planner
from planner.cli import main
from planner.cli.app import app
from planner.kernels import COMPILED

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PAGE = ROOT / "docs" / "cli.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SKIPPED = {".git", ".venv", "build", "dist", "__pycache__"}
SUFFIXES = {".py", ".md", ".yaml", ".csv", ".toml", ".lock", ".hpp", ".cpp", ".lp", ""}

INTRO = """\
# Command line

Results go to standard output, as a table or with `--json` as a document; everything else goes to standard error. Progress is shown on terminals only. `NO_COLOR` is honoured. Files are written whole or not at all.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | internal error: a bug; `PLANNER_DEBUG=1` shows the trace |
| 2 | the input or the usage is wrong |
| 3 | no fleet keeps every promise |
| 4 | a limit or an interrupt ended the work; the best plan so far is written, if there is one |
| 5 | a promise or an expectation is broken |

This page is written by `pytest tests/e2e/test_repository.py --accept`.
"""  # noqa: E501


def commands(command=None, name="planner"):
    """Every command that does something, with its full name."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for verb, inner in below.items():
        yield from commands(inner, f"{name} {verb}")


def section(name, command):
    """The section of one command: what it does, then its arguments and options."""
    lines = [f"## {name}", "", " ".join(command.help.split()), "", "| | |", "|---|---|"]
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or param.name.upper()
        else:
            name = ", ".join([*param.opts, *param.secondary_opts])
            name += f" {param.metavar}" if param.metavar else ""
        lines.append(f"| `{name}` | {' '.join((param.help or '').split())} |")
    return "\n".join(lines) + "\n"


def committed():
    """Files under version control, or all files where there is none, such as in an archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = listed.stdout.split("\0")[:-1] if listed.returncode == 0 else None
    files = [ROOT / n for n in names] if names else [p for p in ROOT.rglob("*") if p.is_file()]
    for path in files:
        parts = set(path.relative_to(ROOT).parts)
        if path.suffix in SUFFIXES and not parts & SKIPPED and path.is_file():
            yield path


def test_the_page_of_commands_is_what_the_commands_say(request):
    page = "\n".join([INTRO, *(section(name, command) for name, command in commands())])
    if request.config.getoption("--accept"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page


COMMANDS = dict(commands())


@pytest.mark.parametrize(("name", "command"), COMMANDS.items(), ids=COMMANDS)
def test_every_argument_and_option_has_a_sentence(name, command):
    assert command.help
    for param in command.params:
        assert param.help, f"{name}: {param.name}"


def test_every_make_target_of_the_readme_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.MULTILINE))
    named = set(re.findall(r"^make ([a-z]+)", README, flags=re.MULTILINE))
    assert {"plan", "test"} <= named <= targets
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == targets


def test_every_command_of_the_pages_exists():
    known = {name.split()[1] for name, _ in commands()}
    for page in PAGES:
        used = set(re.findall(r"bin/planner ([a-z]+)", page.read_text(encoding="utf-8")))
        assert used <= known, page


def test_the_readme_shows_what_planning_the_quickstart_prints(request, capsys):
    """Line by line; figures may differ by as much as another machine's arithmetic may move them."""
    before, begin, rest = README.partition("<!-- plan:begin -->\n```\n")
    block, end, after = rest.partition("```\n<!-- plan:end -->")
    assert begin, "the marks are gone"
    assert end, "the marks are gone"
    assert main(["plan", str(ROOT / "scenarios" / "quickstart.yaml")]) == 0
    shown = block.splitlines()
    printed = capsys.readouterr().out.splitlines()[: len(shown)]
    if request.config.getoption("--accept"):
        text = before + begin + "\n".join(printed) + "\n" + end + after
        (ROOT / "README.md").write_text(text, encoding="utf-8")
        return
    if not COMPILED:  # fewer requests are simulated, so only the fleet is the same
        shown, printed = shown[:1], printed[:1]
    number = re.compile(r"[\d,]*\d(?:\.\d+)?")
    assert [number.sub("#", line) for line in printed] == [number.sub("#", line) for line in shown]
    for one, other in zip(printed, shown, strict=True):
        figures = [[float(n.replace(",", "")) for n in number.findall(x)] for x in (one, other)]
        assert figures[0] == pytest.approx(figures[1], rel=0.02, abs=0.05), one
    assert max(map(len, shown)) <= 100


def test_the_python_of_the_readme_runs(monkeypatch, capsys):
    code = README.partition("```python\n")[2].partition("```")[0]
    used = set(re.findall(r"planner\.([a-z]+)\(", code))
    assert used <= set(planner.__all__)
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {})
    price, pools, verdict, reason = capsys.readouterr().out.splitlines()
    assert float(price) > 0
    assert pools.startswith("[('")
    assert verdict.split()[0] in ("one", "two", "neither")
    assert reason


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_nothing_mentions_the_machine_it_was_made_on():
    traces = re.compile("/(?:" + "|".join(("work", "home", "Users", "root")) + ")/[a-z.]")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in committed()
        for match in traces.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_the_lock_names_versions_and_no_places():
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=str.lower)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)


def test_the_checks_before_a_merge_can_be_run():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


@pytest.mark.parametrize(
    "script",
    sorted([*(ROOT / "tests" / "benchmark").glob("*.py"), *(ROOT / "tools").glob("*.py")]),
    ids=lambda path: path.name,
)
def test_what_is_not_run_here_imports_names_that_exist(script):
    """Benchmarks and tools are run by hand, so that a name that has moved shows only there."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("planner", "tests"):
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
