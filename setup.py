"""What ``pyproject.toml`` cannot say: an optional C++ module, and data that ships in the wheel.

Without a compiler the installation succeeds and the simulator runs in plain Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = Path("planner/kernels/native")
ENGINE = NATIVE / "engine"
CLIENT = Path("planner/kernels/closed_loop/native")
SHIPPED = ("models", "scenarios")


def sources_digest(folder: Path) -> str:
    """Name the C++ sources as ``planner.kernels.compiled`` does, which must not be imported yet."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.hpp"), *folder.glob("*.cpp")]):
        digest.update(
            path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0"
        )
    return digest.hexdigest()[:16]


class BuildExtension(build_ext):
    """Always compiles anew, so that a failure leaves no module of an earlier build behind."""

    def run(self) -> None:
        """Remove what earlier builds left, then build."""
        self.force = True
        for extension in self.extensions:
            for stale in {self.get_ext_fullpath(extension.name), self._built(extension)}:
                Path(stale).unlink(missing_ok=True)
        super().run()

    def _built(self, extension: Extension) -> str:
        return str(Path(self.build_lib) / self.get_ext_filename(extension.name))

    def build_extension(self, ext: Extension) -> None:
        """Speak the compiler's dialect."""
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args = ["/O2", "/std:c++17", "/EHsc"]
        else:
            chosen = any("-O" in os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS"))
            ext.extra_compile_args = [
                *([] if chosen else ["-O3"]),
                "-std=c++17",
                "-fvisibility=hidden",
                "-g0",
                "-ffp-contract=off",
                # One module holds a simulator for each block size, with and without gaps between
                # tokens. GCC inlines up to a share of the whole: each further one made all slower.
                "--param=inline-unit-growth=400",
            ]
        super().build_extension(ext)


class BuildPackage(build_py):
    """Starts from an empty folder, and carries ``models`` and ``scenarios`` into the wheel."""

    def run(self) -> None:
        """Copy the package, and the data beside it unless the install is editable."""
        if self.editable_mode:
            super().run()
            return
        package = Path(self.build_lib) / "planner"
        if package.resolve() != Path("planner").resolve():
            shutil.rmtree(package, ignore_errors=True)
        super().run()
        for folder in SHIPPED:
            if Path(folder).is_dir():
                shutil.copytree(folder, package / "_data" / folder)


def extension(name: str, source: Path, *folders: Path) -> Extension:
    """Describe an optional module that carries the name of the sources it was built from."""
    sources = "-".join(sources_digest(folder) for folder in folders)
    return Extension(
        name,
        [str(source)],
        depends=[str(path) for folder in folders for path in sorted(folder.glob("*.hpp"))],
        language="c++",
        optional=True,
        py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x030B0000"), ("PLANNER_SOURCES", f'"{sources}"')],
        extra_link_args=[] if sys.platform in ("win32", "darwin") else ["-Wl,--strip-all"],
    )


setup(
    packages=find_packages(include=["planner", "planner.*"]),
    include_package_data=True,
    cmdclass={"build_ext": BuildExtension, "build_py": BuildPackage},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    ext_modules=[
        extension("planner.kernels._replica", NATIVE / "module.cpp", NATIVE),
        extension("planner.kernels._engine", ENGINE / "engine_module.cpp", NATIVE, ENGINE),
        extension(
            "planner.kernels.closed_loop._closed_loop", CLIENT / "module.cpp", NATIVE, CLIENT
        ),
    ],
)
