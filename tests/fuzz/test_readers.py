"""Whatever a file holds, it is read or refused in words: never a trace, a hang, or all the memory.

A few hundred damaged files of each reader here; ``python -m tests.fuzz`` for as long as you like.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import threading
import time
from typing import TYPE_CHECKING

import pytest

from planner.cli import main
from planner.errors import InputError
from tests.fuzz.readers import READERS, SEEDS
from tests.fuzz.run import MOST_S, Count, execute, prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.readers import Reader

SECONDS = 0.3
"""For each reader."""
PARTLY = ("shipped", "plan", "results")
"""Some name files beside them, were made by hand, or are no results."""


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_damaged_file_is_read_or_refused(reader, tmp_path):
    prepare(tmp_path)
    count, end = Count(), time.monotonic() + SECONDS
    while time.monotonic() < end:
        execute(reader, count.executions, tmp_path, count)
    assert not count.broken
    assert count.executions == count.read + count.refused > 0


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_what_fuzzing_begins_from_can_be_read(reader, tmp_path):
    """Else every damaged file would be refused at the door."""
    prepare(tmp_path)
    assert any(_is_read(reader, seed, tmp_path) for seed in reader.seeds())
    if reader.name not in PARTLY:
        assert all(_is_read(reader, seed, tmp_path) for seed in reader.seeds())


def _is_read(reader: Reader, seed: bytes, folder: Path) -> bool:
    """Tell whether it is one of the kinds of files that the reader takes."""
    for ending in reader.endings:
        path = folder / f"seed{ending}"
        path.write_bytes(gzip.compress(seed) if ending.endswith(".gz") else seed)
        try:
            reader.read(path)
        except InputError:
            continue
        return True
    return False


COMMANDS = [
    ("check {}", "yaml"),
    ("plan {}", "yaml"),
    ("plan --capacity-table {}", "json"),
    ("explain {}", "json"),
    ("diff {} {}", "json"),
    ("simulate {}", "json"),
    ("simulate --engine-case {}", "json"),
    ("confirm {} {}", "json"),
    ("diagnose {}", "json"),
    ("workload {}", "csv"),
    ("workload {}", "parquet"),
    ("workload {}", "tar.gz"),
    ("inspect {}", "json"),
    ("calibrate {}", "csv"),
    ("validate {}", "csv"),
    ("whatif own {}", "yaml"),
    ("whatif study {}", "yaml"),
    ("whatif apart {}", "yaml"),
    ("catalogue curves --model llama-3.1-8b --own {}", "yaml"),
]


@pytest.mark.parametrize(("words", "ending"), COMMANDS, ids=[w for w, _ in COMMANDS])
def test_pipes_and_devices_are_refused_by_every_command(words, ending, tmp_path, capsys):
    pipe, zero = tmp_path / f"pipe.{ending}", tmp_path / f"zero.{ending}"
    os.mkfifo(pipe)
    zero.symlink_to("/dev/zero")
    for path in (pipe, zero):
        ended = threading.Event()
        rescue = threading.Thread(target=_feed, args=(path, ended), daemon=True)
        rescue.start()
        code = main(words.replace("{}", str(path)).split())
        in_time = not ended.is_set()
        ended.set()
        assert (code, in_time) == (2, True), path
        assert "no regular file" in capsys.readouterr().err


def _feed(path: Path, ended: threading.Event) -> None:
    """Let a test that waits at a pipe fail, where else it would never end."""
    if not ended.wait(MOST_S):
        ended.set()
        if path.is_fifo():
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


SCENARIO = """\
format_version: "1.0"
name: x
workloads:
  - id: a
    model: llama-3.1-8b
    arrivals: {{poisson: 1 req/s}}
    lengths: {{{form}: {file}}}
    slo: {{ttft: 1 s, tpot: 50 ms, attainment: 0.9}}
accelerators: [{{id: h100-sxm, price: 1 USD/h}}]
"""
NOWHERE = [
    "../../../../../../etc/passwd", "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/dev/zero",
    "/proc/self/mem", ".", "/", "~/.ssh/id_rsa", "loop.csv", "pipe.csv", "a" * 5000, "file:///etc/x",
    '"\\0.csv"', "http://x/y.csv", "x.tar.gz#../..", "loop.tar.gz#x", "pipe.parquet",
    "loop.parquet",
]  # fmt: skip


@pytest.mark.parametrize("form", ["trace", "histogram"])
@pytest.mark.parametrize("file", NOWHERE, ids=range(len(NOWHERE)))
def test_a_path_to_what_is_no_data_is_refused_and_tells_nothing_of_it(form, file, tmp_path, capsys):
    for ending in ("csv", "parquet", "tar.gz"):
        (tmp_path / f"loop.{ending}").symlink_to(f"loop.{ending}")
        os.mkfifo(tmp_path / f"pipe.{ending}")
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(form=form, file=file))
    assert main(["check", str(path)]) == 2
    told = capsys.readouterr().err
    assert "root:" not in told
    assert "PATH=" not in told
    assert "internal error" not in told


def test_an_archive_that_unpacks_to_gigabytes_is_refused_early(tmp_path, capsys):
    """10 GiB of one line, of empty lines and of one tar member, of which not 1 % is unpacked."""
    start = time.process_time()
    packed = _bomb(b"0")
    for name, raw in (("x.csv.gz", packed), ("x.jsonl.gz", _bomb(b"\n"))):
        (tmp_path / name).write_bytes(raw)
        assert main(["workload", str(tmp_path / name)]) == 2
    head = tarfile.TarInfo("chunk-0-trace.csv")
    head.size = 10 * 2**30
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb") as archive:
        archive.write(head.tobuf())
    (tmp_path / "x.tar.gz").write_bytes(file.getvalue() + packed)
    assert main(["workload", str(tmp_path / "x.tar.gz")]) == 2
    assert "internal error" not in capsys.readouterr().err
    assert time.process_time() - start < 30


def _bomb(filling: bytes) -> bytes:
    """10 GiB in as many gzip members as it takes, all the same."""
    return gzip.compress(filling * 2**24, 9) * 640


@pytest.mark.parametrize("name", ["a" * 300, "loop"])
@pytest.mark.parametrize(("words", "ending"), COMMANDS, ids=[f"{w} {e}" for w, e in COMMANDS])
def test_a_path_that_cannot_be_looked_at_is_refused(words, name, ending, tmp_path, capsys):
    path = tmp_path / f"{name}.{ending}"
    if name == "loop":
        path.symlink_to(path)
    assert main(words.replace("{}", str(path)).split()) == 2
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a" * 300, "loop"])
def test_a_path_that_cannot_be_written_is_refused(name, tmp_path, capsys):
    prepare(tmp_path)
    path = tmp_path / name
    if name == "loop":
        path.symlink_to(path)
    table, study = tmp_path / "table.json", SEEDS / "study.yaml"
    assert main(["plan", "--capacity-table", str(table), "-o", str(path)]) == 2
    assert main(["whatif", "study", str(study), "-o", str(path)]) == 2
    assert "internal error" not in capsys.readouterr().err


M = 2**20
FEW = {
    "objects": ("x.json.gz", b"[", b"{},", 48 * M, "inspect"),
    "lists": ("x.json.gz", b"[", b"[[]],", 48 * M, "diagnose"),
    "long lines": ("x.jsonl.gz", b"", b'{"a": "' + b"x" * 900_000 + b'"}\n', 2048 * M, "workload"),
    "one row": ("x.csv.gz", b'a,b\n"x', b'\n","' + b"x" * 1000, 2048 * M, "workload"),
    "many cells": ("x.csv.gz", b"a,b\n", b"," * 900_000 + b"\n", 2048 * M, "workload"),
}
"""Files whose text is within bounds, or is read in pieces, and whose content is not."""


@pytest.mark.parametrize("kind", FEW)
def test_values_that_would_fill_the_memory_are_refused(kind, tmp_path):
    """In a process of its own that may not have more than that."""
    name, head, unit, size, verb = FEW[kind]
    path = tmp_path / name
    piece = unit * (M // len(unit) + 1)
    path.write_bytes(gzip.compress(head) + gzip.compress(piece, 1) * (size // len(piece)))
    ended = subprocess.run(
        [sys.executable, "-c", WITHIN, verb, str(path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2, ended.stderr[-500:]
    assert "internal error" not in ended.stderr
    assert int(ended.stdout.split()[-1]) < M


WITHIN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from planner.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""
"""Tells the KiB that it took at most."""


def test_a_plan_of_too_many_values_is_refused(tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_bytes(b'{"pools": [' + b"{}," * 5 * M + b"{}]}")
    assert main(["explain", str(path)]) == 2
    assert "too many values" in capsys.readouterr().err
