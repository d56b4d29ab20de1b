"""Whatever is in a file, only InputError comes out of a reader: random bytes, broken real files."""

import gzip
import io
import json
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.measurements.checks import findings, findings_together
from planner.measurements.read import read_measurements, sniff

DATA = Path(__file__).parents[1] / "data" / "measurements"
FILES = sorted(
    path
    for path in DATA.rglob("*")
    if path.is_file() and path.suffix in (".json", ".jsonl", ".csv", ".txt", ".prom", ".yaml")
)
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ODD = [
    None, True, False, 0, -1, 1.5, -0.0, 1e308, float("nan"), float("inf"), 10**400, "", "x", "1",
    "NaN", "1,000", "\ud800", [], {}, [[]], [None], [{}], {"": None}, [1, "2"], {"mean": "x"},
    {"mean": None}, "9" * 5000, [float("inf")], [[1, 2], [3]],
]  # fmt: skip


def survives(path):
    """Read, check and describe; an InputError is the only way out."""
    try:
        measurements = read_measurements(path)
    except InputError as error:
        assert str(error)
        return
    for m in measurements:
        findings(m)
        assert isinstance(m.missing, tuple)
        for latency in m.latencies:
            s = latency.statistics
            known = [v for v in (s.mean, s.std, s.p50, s.p99, s.max) if v is not None]
            assert all(np.isfinite(v) and v >= 0 for v in known)
    findings_together(measurements)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@QUICK
@given(st.binary(max_size=400), st.sampled_from([".json", ".csv", ".npz", ".txt", ".yaml", ".gz"]))
def test_random_bytes(folder, raw, suffix):
    path = folder / f"random{suffix}"
    path.write_bytes(raw)
    survives(path)


JSON = st.recursive(
    st.sampled_from(ODD),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value, path=()):
    """Yield the place of every value within a document."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def changed(document, place, value):
    document = json.loads(json.dumps(document))
    if not place:
        return value
    here = document
    for step in place[:-1]:
        here = here[step]
    here[place[-1]] = value
    return document


@QUICK
@given(st.sampled_from([p for p in FILES if p.suffix == ".json"]), st.randoms(), JSON)
def test_any_value_of_a_json_file_may_be_anything(folder, source, rng, value):
    document = json.loads(source.read_text())
    place = rng.choice(list(places(document)))
    path = folder / "changed.json"
    text = json.dumps(changed(document, place, value))
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    survives(path)


@pytest.mark.parametrize("source", FILES, ids=lambda p: str(p.relative_to(DATA)))
def test_each_value_of_each_file_replaced_by_each_odd_one(folder, source):
    """A walk over a sample of all pairs of place and odd value."""
    rng = np.random.default_rng(list(source.name.encode()))
    path = folder / f"one{source.suffix}"
    if source.suffix == ".json":
        document = json.loads(source.read_text())
        pairs = [(p, v) for p in places(document) for v in ODD]
        for i in rng.choice(len(pairs), min(len(pairs), 150), replace=False):
            place, value = pairs[i]
            path.write_text(json.dumps(changed(document, place, value)))
            survives(path)
        return
    words = source.read_text().replace(",", "\0,\0").replace(":", "\0:\0").split("\0")
    odd = ["", "nan", "inf", "-1", "1e999", "x", '"', "9" * 400, "{", "\n", "é", "\x00", "1,5"]
    for _ in range(80):
        some = list(words)
        some[rng.integers(len(some))] = odd[rng.integers(len(odd))]
        path.write_text("".join(some))
        survives(path)


@QUICK
@given(st.sampled_from(FILES), st.data())
def test_cut_and_spliced_files(folder, source, data):
    raw = source.read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(start + 40, len(raw))))
    path = folder / f"cut{source.suffix}"
    path.write_bytes(raw[:start] + data.draw(st.binary(max_size=4)) + raw[end:])
    survives(path)


@QUICK
@given(st.sampled_from(FILES), st.floats(0, 1))
def test_truncated_gzip(folder, source, share):
    packed = gzip.compress(source.read_bytes())
    path = folder / f"cut{source.suffix}.gz"
    path.write_bytes(packed[: int(len(packed) * share)])
    survives(path)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


GOOD = npz(
    prefill_isl=np.array([1000.0, 2000.0]),
    prefill_ttft=np.array([50.0, 100.0]),
    prefill_thpt_per_gpu=np.array([1e4, 1e4]),
)


@QUICK
@given(st.data())
def test_broken_npz(folder, data):
    raw = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "broken.npz"
    path.write_bytes(bytes(raw[: data.draw(st.integers(4, len(raw)))]))
    survives(path)


def test_npz_with_a_pickle_is_refused_unopened(folder):
    class Trap:
        def __reduce__(self):
            return (open, (str(folder / "sprung"), "w"))

    path = folder / "pickle.npz"
    np.savez(path, prefill_isl=np.array([Trap()], dtype=object))
    with pytest.raises(InputError, match="plain numbers"):
        read_measurements(path)
    assert not (folder / "sprung").exists()


def test_npz_bomb_is_refused(folder):
    path = folder / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("prefill_isl.npy", bytes(70 * 2**20))
    with pytest.raises(InputError, match="more than 64 MiB"):
        read_measurements(path)


def test_npz_header_that_promises_too_much_is_refused(folder):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (2**60,)}
    )
    path = folder / "long.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("prefill_isl.npy", head.getvalue())
    with pytest.raises(InputError, match="cut off"):
        read_measurements(path)


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting(folder, open_, close):
    path = folder / "deep.json"
    path.write_text(open_ * 200_000 + close * 200_000)
    with pytest.raises(InputError):
        sniff(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_wrong_encodings_are_told(folder, encoding):
    path = folder / "wrong.csv"
    path.write_text("modèle,ttft_mean_ms\nx,1\n", encoding=encoding)
    with pytest.raises(InputError, match=r"save it as UTF-8|binary file"):
        read_measurements(path)


def test_devices_and_missing_files_are_refused(folder):
    with pytest.raises(InputError, match="no regular file"):
        read_measurements(Path("/dev/zero"))
    with pytest.raises(InputError, match="no such file"):
        read_measurements(folder / "nowhere.json")
    with pytest.raises(InputError, match="no such file"):
        read_measurements(Path("a\0b"))
    with pytest.raises(InputError):
        read_measurements(folder)


VLLM = '{"model_id": "m", "request_throughput": 1, "total_output_tokens": 1'


@pytest.mark.parametrize(
    ("rest", "where"),
    [
        (', "duration": NaN}', r"duration: .*NaN"),
        (', "duration": "2"}', r"duration: expected a number; got '2'"),
        (', "duration": 1e999}', r"duration: expected a number from"),
        (f', "duration": {"9" * 1000}}}', r"duration: expected a number from"),
        (', "request_rate": 0}', r"request_rate: expected a number above 0"),
        (', "completed": 1.5}', r"completed: expected a whole number"),
        (', "mean_ttft_ms": -1}', r"mean_ttft_ms: expected a number from 0"),
        (', "ttfts": [1, null], "output_lens": [1, 2]}', r"ttfts: \[1\]: expected a number"),
        (',\n "x": }', r":2:7: not JSON"),
    ],
)
def test_mistakes_are_told_with_their_place(folder, rest, where):
    path = folder / "mistake.json"
    path.write_text(VLLM + rest)
    with pytest.raises(InputError, match=where):
        read_measurements(path)


def test_mistakes_of_lines_are_told_with_their_line(folder):
    path = folder / "mistake.jsonl"
    good = json.dumps({"completed": 1, "duration": 1, "mean_e2e_latency_ms": 1})
    path.write_text(f'{good}\n{good}\n{good[:-1]}, "concurrency": "all"}}\n')
    with pytest.raises(InputError, match=r"mistake.jsonl:3: concurrency: expected a number"):
        read_measurements(path)
    path.write_text(f"{good}\n{good}\n{{\n")
    with pytest.raises(InputError, match=r"mistake.jsonl:3:\d+: not JSON"):
        read_measurements(path)


def test_mistakes_of_tables_are_told_with_their_line(folder):
    path = folder / "mistake.csv"
    path.write_text("model,ttft_mean_ms\nm,1\nm,fast\n")
    with pytest.raises(InputError, match=r"mistake.csv:3: ttft_mean_ms: expected a number"):
        read_measurements(path)


@pytest.mark.parametrize(
    "text",
    [
        'vllm:num_requests_running{a="b",' + "A" * 140_000 + "} 1\n",
        "vllm:x" + " " * 140_000 + "x\n",
        "Metric,avg\nA" + " " * 120_000 + "(,1\n",
        "Metric,avg\nA" + "(" * 120_000 + ",1\n",
        "MLPerf Results Summary\nA" + " " * 140_000 + ":\n",
        "model,ttft_mean_ms\nm," + "1," * 60_000 + "\n",
        "engine,ttft_mean_ms\nvllm" + " " * 120_000 + ",1\n",
    ],
    ids=range(7),
)
def test_long_cells_and_lines_take_no_time(folder, text):
    """Work in proportion to the length: by the square, each of these would take minutes."""
    path = folder / "long.txt"
    path.write_text(text)
    start = time.process_time()
    survives(path)
    assert time.process_time() - start < 5


def test_a_mistake_deep_in_a_report_names_its_file(folder):
    document = json.loads((DATA / "guidellm.json").read_text())
    document["config"] = {"spec": "x"}
    path = folder / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"report.json: config.spec: expected an object"):
        read_measurements(path)
