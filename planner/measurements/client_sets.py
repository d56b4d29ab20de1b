"""ServeGen client sets: who sends how many requests when, how burstily, and of which lengths.

A set is a folder, or the ``.tar.gz`` of one, with two files a client: ``chunk-N-trace.csv`` holds
rate and spread of the gaps by window of time, ``chunk-N-dataset.json`` the distributions of
lengths by longer windows, as text that looks like a Python dictionary.
"""

from __future__ import annotations

import ast
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError, nearest
from planner.measurements.request_times import LONGEST_SPAN_S
from planner.measurements.request_trace import RequestTrace
from planner.measurements.set_files import files_of
from planner.measurements.text_lines import csv_rows, parse_json
from planner.measurements.traces import LONGEST_TOKENS
from planner.source import is_folder
from planner.units import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ARCHIVE: Final = re.compile(r"^(?P<name>.*?\.(?:tar\.gz|tgz|tar))(?:#(?P<folder>.*))?$", re.DOTALL)
_MEMBER: Final = re.compile(
    r"^(?:(?P<folder>.*)/)?chunk-(?P<n>\d{1,6})-(?P<kind>trace\.csv|dataset\.json)$"
)

MOST_TEXT: Final = 2**24
"""Longest text of one distribution."""
MOST_SAMPLED: Final = 20_000_000
LEAST_SHAPE: Final = 0.02
LEAST_CV: Final = 1e-3


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """A distribution of lengths: tokens and their weights, shape ``(m,)`` each."""

    tokens: NDArray[np.int64]
    weight: Floats


@dataclass(frozen=True, slots=True)
class LengthWindow:
    """Lengths from a time on; prompt and output are known by their marginals only."""

    start_s: float
    prompt: TokenWeights
    output: TokenWeights


@dataclass(frozen=True, slots=True)
class ClientOfSet:
    """One client; arrays by window, shape ``(k,)``."""

    name: str
    start_s: Floats
    rate_rps: Floats
    cv: Floats
    weibull_shape: Floats
    """Shape of the gaps' Weibull distribution; 0 where they are gamma, with the CV above."""
    lengths: tuple[LengthWindow, ...]
    """None where the set has rates only."""


@dataclass(frozen=True, slots=True)
class ClientSet:
    """All clients of one workload."""

    name: str
    clients: tuple[ClientOfSet, ...]
    window_s: float

    def total_rate(self) -> tuple[Floats, Floats]:
        """Return the starts of all windows, in seconds, and the total rate in each."""
        starts = np.unique(np.concatenate([c.start_s for c in self.clients]))
        rate = np.zeros(starts.size)
        for client in self.clients:
            rate[np.searchsorted(starts, client.start_s)] += client.rate_rps
        return starts, rate

    def weighted_cv(self) -> float:
        """Return the clients' CV of gaps, weighted by the requests of each window."""
        rate = np.concatenate([c.rate_rps for c in self.clients])
        cv = np.concatenate([c.cv for c in self.clients])
        return float((rate * cv).sum() / rate.sum())


def client_set_of(path: Path) -> tuple[Path, str | None] | None:
    """Split ``NAME.tar.gz#FOLDER`` into the archive and the folder in it, which may be a path.

    Returns:
        None where the name is that of neither an archive nor a folder on the disk.
    """
    if is_folder(path):
        return path, None
    found = _ARCHIVE.match(str(path))
    return None if found is None else (Path(found["name"]), found["folder"] or None)


def read_client_set(path: Path, folder: str | None = None) -> ClientSet:
    """Read one client set.

    Args:
        path: A ``.tar.gz``, or a folder.
        folder: Which set, where the archive holds several.

    Raises:
        InputError: It cannot be read, holds no such set, or a file of it makes no sense.
    """
    by_folder: dict[str, dict[int, dict[str, bytes]]] = {}
    for name, data in files_of(path, _MEMBER):
        found = _MEMBER.match(name)
        if found is not None:
            files = by_folder.setdefault(found["folder"] or "", {})
            files.setdefault(int(found["n"]), {})[found["kind"]] = data
    if not by_folder:
        what = "a folder" if is_folder(path) else "an archive"
        raise InputError(
            f"{path}: is {what} without chunk-N-trace.csv, so no client set; name a file"
        )
    if folder is None and len(by_folder) > 1:
        raise InputError(
            f"{path}: holds several sets; name one as {path.name}#FOLDER: {', '.join(by_folder)}"
        )
    chosen = next(iter(by_folder)) if folder is None else folder.strip("/")
    if chosen not in by_folder:
        raise InputError(f"{path}: there is no set {chosen!r}; {nearest(chosen, by_folder)}")
    inside = f"{path}/" if is_folder(path) else f"{path}#{chosen}/".replace("#/", "#")
    clients = [
        _client(inside, number, files)
        for number, files in sorted(by_folder[chosen].items())
        if "trace.csv" in files
    ]
    if not clients or not sum(float(c.rate_rps.sum()) for c in clients) > 0:
        raise InputError(f"{path}: no client of {chosen or path.name} sends anything")
    starts = np.unique(np.concatenate([c.start_s for c in clients]))
    window = float(np.diff(starts).min()) if starts.size > 1 else 600.0
    return ClientSet(chosen, tuple(clients), window)


def has_lengths(path: Path, folder: str | None = None) -> bool:
    """Tell whether a set, or any where none is named, has lengths beside its rates.

    Raises:
        InputError: It cannot be read.
    """
    wanted = None if folder is None else folder.strip("/")
    found = (_MEMBER.match(name) for name, _ in files_of(path, _MEMBER))
    return any(
        one is not None and one["kind"] == "dataset.json" and wanted in (None, one["folder"] or "")
        for one in found
    )


def _client(place: str, number: int, files: dict[str, bytes]) -> ClientOfSet:
    """Read one client; mistakes are told with the member of the set, and its line."""
    name = f"chunk-{number}"
    rows = _windows(f"{place}{name}-trace.csv", files["trace.csv"])
    starts, rates, cvs, shapes = (np.array(x) for x in zip(*rows, strict=True))
    lengths: tuple[LengthWindow, ...] = ()
    if "dataset.json" in files:
        lengths = _length_windows(f"{place}{name}-dataset.json", files["dataset.json"])
    return ClientOfSet(name, starts, rates, cvs, shapes, lengths)


def _text(where: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text; save it as UTF-8") from error


def _windows(where: str, data: bytes) -> list[tuple[float, float, float, float]]:
    """Read the windows of a client, by ascending start."""
    rows = []
    for line, cells in csv_rows(where, io.StringIO(_text(where, data), newline="")):
        if cells:
            try:
                rows.append(_window(cells))
            except ValueError as error:
                raise InputError(f"{where}:{line}:1: makes no sense: {error}") from error
            if len(rows) > 1 and rows[-1][0] <= rows[-2][0]:
                raise InputError(f"{where}:{line}:1: makes no sense: starts must ascend")
    if not rows:
        raise InputError(f"{where}: makes no sense: it is empty; it needs one window a row")
    return rows


def _window(row: list[str]) -> tuple[float, float, float, float]:
    """Read start, rate, CV of the gaps, and their Weibull shape (0 if they are gamma)."""
    if len(row) < 4 or (row[3] == "Weibull" and len(row) < 5):
        raise ValueError(
            f"{len(row)} cells; expected start, rate, CV, pattern and its two parameters"
        )
    start, rate, cv = (_number(cell) for cell in row[:3])
    shape = _number(row[4]) if row[3] == "Weibull" else 0.0
    if not (0 <= start <= LONGEST_SPAN_S and 0 <= rate < 1e9 and 0 <= cv < 1e6):
        raise ValueError(
            f"{shown(','.join(row[:3]))}; expected a start in seconds (ten years at most), a rate"
            " and a CV"
        )
    if not (shape == 0 or LEAST_SHAPE <= shape < 1e6):
        raise ValueError(f"a Weibull shape of {shown(row[4])}; expected {LEAST_SHAPE:g} or more")
    return start, rate, cv, shape


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError as error:
        raise ValueError(f"{shown(cell)}, no number") from error


def _length_windows(where: str, data: bytes) -> tuple[LengthWindow, ...]:
    windows = []
    document = parse_json(where, _text(where, data))
    if not isinstance(document, dict):
        raise InputError(f"{where}: makes no sense: expected an object of windows")
    for start, window in document.items():
        if not isinstance(window, dict):
            raise InputError(f"{where}: {start[:40]}: makes no sense: expected an object")
        found = []
        for name in ("input_tokens", "output_tokens"):
            try:
                begin = _number(start)
                found.append(_weights(window.get(name)))
            except (ValueError, TypeError) as error:
                what = f"{where}: {start[:40]}.{name}: makes no sense: {error}"
                raise InputError(what) from error
        prompt, output = found
        if prompt is not None and output is not None:
            windows.append(LengthWindow(begin, prompt, output))
    return tuple(sorted(windows, key=lambda w: w.start_s))


def _weights(text: Any) -> TokenWeights | None:
    """Read a distribution that is written as a Python dictionary; never run it.

    Returns:
        None where it is empty.
    """
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise ValueError("a distribution is no text, or too long a one")
    try:
        table = ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"a distribution is no dictionary: {text[:40]}") from error
    if not isinstance(table, dict):
        raise TypeError(f"a distribution is no dictionary: {text[:40]}")
    try:
        tokens = np.array(list(table), np.float64)
        weight = np.array(list(table.values()), np.float64)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a distribution holds no numbers: {text[:40]}") from error
    good = (weight > 0) & (tokens <= LONGEST_TOKENS)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("a weight is negative or no number")
    if not good.any():
        return None
    whole = np.maximum(np.rint(tokens[good]), 1).astype(np.int64)
    return TokenWeights(whole, weight[good] / weight[good].sum())


def sample_requests(
    clients: ClientSet, seed: int, from_s: float = 0.0, to_s: float = math.inf
) -> RequestTrace:
    """Draw a request trace from a client set: every client and window by its own law.

    Prompt and output of a client are drawn independently, as the set knows only marginals; they
    are correlated across clients.

    Args:
        clients: The set; clients without lengths are left out.
        seed: Same seed, same trace.
        from_s: Windows that begin before it are left out.
        to_s: Windows that begin at or after it are left out.

    Raises:
        InputError: No client of the set has lengths, or there would be too many requests.
    """
    times, who = [], []
    prompts: list[NDArray[np.int32]] = []
    outputs: list[NDArray[np.int32]] = []
    expected = 0.0
    last = 0.0
    for i, client in enumerate(clients.clients):
        if not client.lengths:
            continue
        rng = np.random.default_rng([seed, i])
        inside = np.flatnonzero((client.start_s >= from_s) & (client.start_s < to_s))
        last = max(last, float(client.start_s[inside].max(initial=0.0)))
        for k in inside[client.rate_rps[inside] > 0]:
            expected += client.rate_rps[k] * clients.window_s
            if expected > MOST_SAMPLED:
                raise InputError(f"{clients.name}: more than {MOST_SAMPLED:,} requests; take part")
            time_s = _window_times(client, int(k), clients.window_s, rng)
            window = _window_of(client.lengths, client.start_s[k])
            times.append(time_s)
            for kept, law in ((prompts, window.prompt), (outputs, window.output)):
                drawn = rng.choice(law.tokens, time_s.size, p=law.weight)
                kept.append(drawn.astype(np.int32))
            who.append(np.full(time_s.size, i, np.int32))
    if not times or sum(t.size for t in times) == 0:
        raise InputError(
            f"{clients.name}: no client has both requests and lengths in this span; rates alone"
            " can tell how a load changes: traffic.series"
        )
    time_s = np.concatenate(times)
    order = np.argsort(time_s, kind="stable")
    n = order.size
    return RequestTrace(
        time_s=time_s[order] - time_s[order[0]],
        prompt=np.concatenate(prompts)[order],
        output=np.concatenate(outputs)[order],
        failed=np.zeros(n, np.bool_),
        client=np.concatenate(who)[order],
        session=None,
        prefix=None,
        tick_s=0.0,
        start=f"{time_s[order[0]]:.0f} s after midnight",
        notes=(
            f"drawn from the client set {clients.name} (seed {seed}):"
            f" {len(clients.clients)} clients, each with its own rate, spread of gaps and lengths",
        ),
    )


def _window_of(windows: tuple[LengthWindow, ...], start_s: float) -> LengthWindow:
    earlier = [w for w in windows if w.start_s <= start_s % 86_400]
    return earlier[-1] if earlier else windows[0]


def _window_times(client: ClientOfSet, k: int, window_s: float, rng: np.random.Generator) -> Floats:
    """Draw the arrivals of one client in one window: a renewal process begun long before it.

    The gap that holds the beginning is longer than others (its density is weighted by its
    length); beginning with an ordinary gap would bring (CV^2 - 1) / 2 requests too many.
    """
    rate, shape = float(client.rate_rps[k]), float(client.weibull_shape[k])
    if shape > 0:
        unit = math.gamma(1 + 1 / shape)
        first = rng.gamma(1 + 1 / shape) ** (1 / shape) / unit
    else:
        shape = 1 / max(float(client.cv[k]), LEAST_CV) ** 2
        unit = 0.0
        first = rng.gamma(shape + 1) / shape
    time_s = [np.array([rng.random() * first / rate])]
    while time_s[-1][-1] < window_s:
        n = int(rate * (window_s - time_s[-1][-1])) + 16
        gaps = rng.weibull(shape, n) / unit if unit else rng.gamma(shape, 1 / shape, n)
        time_s.append(time_s[-1][-1] + np.cumsum(gaps) / rate)
    found = np.concatenate(time_s)
    return np.asarray(found[found < window_s] + client.start_s[k])
