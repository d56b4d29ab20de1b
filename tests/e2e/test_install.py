"""What a wheel holds and how an installed package behaves, with and without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALONE = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in str(f).lower()]"
)
"""Without the finder of an editable install, which would lend its own modules."""
REPORT = f"{ALONE}; import planner.kernels as k; print(k.COMPILED, k.STATUS, sep='|')"
NATIVE = {path.name for path in (ROOT / "planner/kernels/native").iterdir()}
ENGINE_REPORT = REPORT.replace("kernels", "kernels.engine")
ENGINE = {path.name for path in (ROOT / "planner/kernels/native/engine").iterdir()}


def checkout(folder: Path) -> Path:
    """A fresh copy of what the build reads, with one file of data in each shipped folder."""
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "_data")
    shutil.copytree(ROOT / "planner", folder / "planner", ignore=ignore)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "README.md").write_text("read me")
    for name in ("models", "scenarios"):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / "file.yaml").write_text(name)
    return folder


def setup(folder: Path, *what: str, compiler: bool = True) -> None:
    """Run ``setup.py`` as pip does."""
    quick = {"CFLAGS": "-O0", "CXXFLAGS": "-O0"}  # what is in a wheel does not depend on it
    env = os.environ | (quick if compiler else {"CC": "/bin/false", "CXX": "/bin/false"})
    command = [sys.executable, "setup.py", "-q", *what]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


def build(folder: Path, *, compiler: bool = True) -> Path:
    """Lay out in a folder what a wheel would hold."""
    setup(folder, "build", "--build-lib", "lib", compiler=compiler)
    return folder / "lib"


def report(folder: Path, script: str = REPORT, **env: str) -> tuple[bool, str]:
    """Ask the package in ``folder`` whether it is compiled, and its status."""
    clean = {k: v for k, v in os.environ.items() if k != "PLANNER_PURE_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=folder,
        env=clean | {"PYTHONPATH": str(folder)} | env,
        check=True,
        capture_output=True,
        text=True,
    )
    compiled, status = done.stdout.strip().split("|")
    return compiled == "True", status


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as installed, built by whatever compiler there is."""
    folder = tmp_path_factory.mktemp("installed") / "site"
    shutil.copytree(build(checkout(tmp_path_factory.mktemp("checkout"))), folder)
    return folder


def test_a_wheel_holds_the_sources_that_its_module_is_checked_against(installed: Path) -> None:
    assert {p.name for p in (installed / "planner/kernels/native").iterdir()} == NATIVE
    assert {p.name for p in (installed / "planner/kernels/native/engine").iterdir()} == ENGINE
    for script, module in ((REPORT, "_replica.*"), (ENGINE_REPORT, "_engine.*")):
        compiled, status = report(installed, script)
        assert compiled == bool(list((installed / "planner/kernels").glob(module)))
        assert "other sources" not in status


def test_a_wheel_holds_the_data_and_no_second_top_level_package(installed: Path) -> None:
    for name in ("models", "scenarios"):
        assert (installed / "planner/_data" / name / "deep/file.yaml").read_text() == name
    assert [p.name for p in installed.iterdir()] == ["planner"]


def test_shipped_data_is_found_inside_an_installed_package(installed: Path) -> None:
    ask = "from planner.data import shipped; print(shipped('models'))"
    env = os.environ | {"PYTHONPATH": str(installed)}
    found = subprocess.check_output([sys.executable, "-c", ask], cwd=installed, env=env, text=True)
    assert Path(found.strip()) == installed / "planner/_data/models"


def test_without_a_compiler_the_build_succeeds_and_ships_nothing_stale(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    for stale in (
        folder / "planner/kernels/_replica.abi3.so",
        folder / "lib/planner/kernels/_replica.abi3.so",
        folder / "lib/planner/gone.py",
    ):
        stale.parent.mkdir(parents=True, exist_ok=True)
        stale.write_text("stale")
    lib = build(folder, compiler=False)
    assert not [p for p in lib.rglob("*") if p.suffix in (".so", ".pyd") or p.stem == "gone"]
    compiled, status = report(lib)
    assert not compiled
    assert status.startswith("plain Python simulator")
    assert "compiler" in status
    compiled, status = report(lib, ENGINE_REPORT)
    assert not compiled
    assert status.startswith("step-wise simulator in plain Python")
    assert "compiler" in status


def test_a_failed_build_in_place_leaves_no_module_of_an_earlier_one(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    stale = folder / "planner/kernels/_replica.abi3.so"
    stale.write_text("stale")
    setup(folder, "build_ext", "--inplace", compiler=False)
    assert not stale.exists()


def test_a_source_archive_can_build_the_wheel(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    setup(folder, "sdist")
    (archive,) = (folder / "dist").iterdir()
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    lib = build(unpacked, compiler=False)
    assert {p.name for p in (lib / "planner/kernels/native").iterdir()} == NATIVE
    assert (lib / "planner/_data/scenarios/deep/file.yaml").is_file()
    assert (lib / "planner/py.typed").is_file()


def test_a_foreign_or_stale_module_falls_back_to_plain_python(
    installed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(installed, folder)
    header = folder / "planner/kernels/native/law.hpp"
    header.write_text(header.read_text() + "// changed since\n")
    for script in (REPORT, ENGINE_REPORT):  # both are built from this header
        compiled, status = report(folder, script)
        assert not compiled
        assert "other sources" in status or not report(installed, script)[0]
    for module in (folder / "planner/kernels").glob("_replica.*"):
        module.unlink()
    (folder / "planner/kernels/_replica.abi3.so").write_bytes(b"of another machine")
    assert not report(folder)[0]


def test_an_environment_variable_forces_plain_python(installed: Path) -> None:
    for script in (REPORT, ENGINE_REPORT):
        compiled, status = report(installed, script, PLANNER_PURE_PYTHON="1")
        assert not compiled
        assert "PLANNER_PURE_PYTHON" in status
