"""ServeGen client sets: read without running anything, bounded, and drawn as they say."""

import gzip
import io
import json
import os
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.measurements.client_sets import client_set_of, read_client_set, sample_requests

TRACE = "0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,4.0,3.0,Gamma,0.1,2.0\n"
LENGTHS = {
    "0": {"input_tokens": "{10: 0.5, 30: 0.5}", "output_tokens": "{2: 1.0}", "reason_ratio": "{}"},
    "21600": {"input_tokens": "{77: 1.0}", "output_tokens": "{3: 1.0}", "reason_ratio": "{}"},
}


def archive(tmp_path, files, name="set.tar.gz"):
    path = tmp_path / name
    with tarfile.open(path, "w:gz") as tar:
        for member, text in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def one_client(trace=TRACE, lengths=LENGTHS):
    return {"a/chunk-0-trace.csv": trace, "a/chunk-0-dataset.json": json.dumps(lengths)}


def test_rates_add_up_over_clients(tmp_path):
    files = one_client() | {"a/chunk-1-trace.csv": "600,1.0,1.0,Weibull,1.0,1.0\n"}
    found = read_client_set(archive(tmp_path, files))
    starts, rate = found.total_rate()
    assert starts.tolist() == [0.0, 600.0, 1200.0]
    assert rate.tolist() == [2.0, 1.0, 4.0]
    assert found.window_s == 600.0
    assert found.weighted_cv() == pytest.approx((2 * 1 + 1 * 1 + 4 * 3) / 7)


def test_windows_have_their_rates_and_lengths(tmp_path):
    found = read_client_set(archive(tmp_path, one_client()))
    trace = sample_requests(found, 1)
    first = trace.time_s < 600
    assert first.sum() == pytest.approx(1_200, abs=4 * np.sqrt(1_200))
    assert (~first).sum() == pytest.approx(2_400, abs=4 * 3 * np.sqrt(2_400))
    assert trace.prompt.mean() == pytest.approx(20, abs=4 * 10 / np.sqrt(trace.prompt.size))
    assert set(trace.output) == {2}


def test_a_bursty_client_brings_no_more_than_its_rate(tmp_path):
    """Begun in the middle of a gap: an ordinary start would bring (CV^2 - 1) / 2 too many."""
    row = "600,0.05,6.0,Gamma,0.03,1.0\n"
    files = {}
    for i in range(400):
        files |= {f"a/chunk-{i}-trace.csv": row, f"a/chunk-{i}-dataset.json": json.dumps(LENGTHS)}
    counts = sample_requests(read_client_set(archive(tmp_path, files)), 3).prompt.size
    assert counts == pytest.approx(400 * 30, rel=4 * 6 / np.sqrt(400 * 30))


def test_several_sets_want_a_name(tmp_path):
    files = one_client() | {"b/chunk-0-trace.csv": TRACE}
    path = archive(tmp_path, files)
    with pytest.raises(
        InputError, match=r"holds several sets; name one as set.tar.gz#FOLDER: a, b"
    ):
        read_client_set(path)
    assert read_client_set(path, "b").name == "b"
    with pytest.raises(InputError, match="no set 'c'"):
        read_client_set(path, "c")
    with pytest.raises(InputError, match="no client has both requests and lengths"):
        sample_requests(read_client_set(path, "b"), 0)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("x/set.tar.gz", ("x/set.tar.gz", None)),
        ("x/set.tgz#", ("x/set.tgz", None)),
        ("x/set.tar.gz#language/m-large", ("x/set.tar.gz", "language/m-large")),
        ("x#1/set.tar#b", ("x#1/set.tar", "b")),
        ("x/set.csv.gz", None),
    ],
)
def test_a_set_may_lie_deep_in_its_archive(name, parts):
    assert client_set_of(Path(name)) == (parts and (Path(parts[0]), parts[1]))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "{1: 2",
        "[1, 2]",
        "{1: -0.5}",
        "{1: 'x'}",
        "{'x': 1}",
        "((" * 100_000,
        "{1: float('nan')}",
    ],
)
def test_text_that_is_no_distribution_is_refused_and_never_run(tmp_path, text):
    bad = {"0": {"input_tokens": text, "output_tokens": "{1: 1.0}"}}
    place = r"set.tar.gz#a/chunk-0-dataset.json: 0.input_tokens: makes no sense"
    with pytest.raises(InputError, match=place):
        read_client_set(archive(tmp_path, one_client(lengths=bad)))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("x,1,1,Gamma,1,1", "'x', no number"),
        ("600,-1,1,Gamma,1,1", "'600,-1,1'; expected a start"),
        ("600,nan,1,,0,0", "'600,nan,1'; expected a start"),
        ("1e300,1,1,,0,0", "'1e300,1,1'; expected a start"),
        ("600,1,1,Weibull,1e-9,1", "a Weibull shape of '1e-9'"),
        ("600,1,1", "3 cells"),
        ("0,1,1,,0,0", "starts must ascend"),
        ("600,1,1,Gamma," + "1" * 140_000, "a cell of more than 131,072"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_by_file_and_line(tmp_path, row, why):
    files = one_client(trace=f"0,2,1,Gamma,1,1\n{row}\n")
    with pytest.raises(InputError) as told:
        read_client_set(archive(tmp_path, files))
    assert "set.tar.gz#a/chunk-0-trace.csv:2:1: " in str(told.value)
    assert why in str(told.value)


def test_a_set_may_be_a_folder_on_the_disk(tmp_path):
    for name, text in one_client().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert client_set_of(tmp_path / "a") == (tmp_path / "a", None)
    assert read_client_set(tmp_path / "a").total_rate()[1].tolist() == [2.0, 0.0, 4.0]
    (tmp_path / "a" / "chunk-0-trace.csv").write_text("0,x,1,,0,0\n")
    with pytest.raises(InputError, match=r"a/chunk-0-trace.csv:1:1: makes no sense"):
        read_client_set(tmp_path / "a")


def packed(path, *members):
    """Write an archive of headers with no data but zeros; sizes in bytes."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for name, kind, size in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, size
            file.write(info.tobuf(tarfile.USTAR_FORMAT))
            for _ in range(min(size, 2**28) >> 20):
                file.write(bytes(2**20))
    return path


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (("a/chunk-0-trace.csv", tarfile.REGTYPE, 2**31), "more than 1024 MiB unpacked"),
        (("a/chunk-0-trace.csv", tarfile.REGTYPE, 2**27), "a file of more than 64 MiB"),
        (("a/other.bin", tarfile.REGTYPE, 2**31), "more than 1024 MiB unpacked"),
        (("x", tarfile.XHDTYPE, 2**28), "a header of more than 64 MiB"),
        (("x", tarfile.GNUTYPE_LONGNAME, 2**28), "a header of more than 64 MiB"),
    ],
)
def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path, member, told):
    path = packed(tmp_path / "bomb.tar.gz", member)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=told):
            read_client_set(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["set.tar.gz", "set/chunk-0-trace.csv"])
def test_a_pipe_in_place_of_a_set_is_refused_and_not_waited_for(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(InputError, match=f"{name}: is no regular file but a pipe or a device"):
        read_client_set(path if name == "set.tar.gz" else path.parent)


def test_only_the_files_of_clients_are_looked_at_in_a_folder(tmp_path):
    for member, text in one_client().items():
        (tmp_path / Path(member).name).write_text(text)
    os.mkfifo(tmp_path / "chunk-notes")
    (tmp_path / "chunk-1-trace.csv").mkdir()
    assert len(read_client_set(tmp_path).clients) == 1


def test_what_is_no_client_set_is_told(tmp_path):
    with pytest.raises(InputError, match="so no client set"):
        read_client_set(archive(tmp_path, {"x.txt": "y"}))
    (tmp_path / "no.tar.gz").write_text("no archive")
    with pytest.raises(InputError, match=r"no.tar.gz: is no whole archive \([^\n]*\); write it"):
        read_client_set(tmp_path / "no.tar.gz")
    with pytest.raises(InputError, match="no client of a sends anything"):
        read_client_set(archive(tmp_path, one_client(trace="0,0,0,,0,0\n")))
