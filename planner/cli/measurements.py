"""What benchmark files hold: what was read, what is missing, what may be wrong."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables, note
from planner.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from planner.measurements.findings import Finding
    from planner.measurements.measurement import Given, Measurement, Metric

SHOWN_LEVELS: Final = 50
"""Load levels of a file that the table shows; JSON has all."""
WHOLE: Final = ("accelerators", "tp_degree", "pp_degree", "ep_degree", "dp_degree", "replicas")
TEXTS: Final = ("engine", "engine_version", "model", "accelerator", "precision")


def inspect(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of any known benchmark.")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="NAME=VALUE",
            help="What the files do not say, such as accelerator=h100-sxm. Repeats.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what benchmark files hold, what is missing for a calibration, what may be wrong."""
    from planner.measurements.checks import findings, findings_together
    from planner.measurements.read import read_measurements

    known = given_of(given or ())
    read = [(path, read_measurements(path, known)) for path in files]
    everything = [m for _, measurements in read for m in measurements]
    together = findings_together(everything)
    if as_json:
        emit_json(
            {
                "measurements": [
                    {**plain(m), "missing": list(m.missing), "findings": plain(findings(m))}
                    for m in everything
                ],
                "findings": plain(together),
            }
        )
        return 0
    for path, measurements in read:
        emit_tables(_levels(path, measurements))
        if len(measurements) > SHOWN_LEVELS:
            note(f"{len(measurements) - SHOWN_LEVELS} more load levels; --json has all")
    found = [(m, finding) for m in everything for finding in findings(m)]
    emit_tables(_found(found, together))
    return 0


def given_of(words: list[str] | tuple[str, ...]) -> Given | None:
    """Read ``accelerator=h100-sxm`` and its like.

    Raises:
        InputError: A name is unknown, or a value is no number where one is needed.
    """
    from planner.measurements.measurement import Given

    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise InputError(f"--given {word}: write NAME=VALUE, such as accelerator=h100-sxm")
        if name in TEXTS:
            values[name] = value
        elif name in WHOLE:
            if not value.isascii() or not value.isdigit() or not 0 < float(value) < 10**6:
                raise InputError(f"--given {word[:60]}: expected a whole number from 1 to 999,999")
            values[name] = int(value)
        elif name == "prefix_hit_rate":
            values[name] = _share(word, value)
        else:
            known = (*TEXTS, *WHOLE, "prefix_hit_rate")
            raise InputError(f"--given {word}: no such name; {nearest(name, known)}")
    return Given(**values) if values else None


def _share(word: str, value: str) -> float:
    from planner.units import read_share

    try:
        share = read_share(value)
    except ValueError as error:
        raise InputError(f"--given {word}: {error}") from error
    if not 0 <= share <= 1:
        raise InputError(f"--given {word}: is not between 0 and 1")
    return share


def plain(value: Any) -> Any:
    """Turn documents into plain data; records into their number; infinity into a word."""
    from planner.measurements.measurement import Records

    if isinstance(value, Records):
        return {"requests": len(value)}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(value) if isinstance(value, Path) else value


def _levels(path: Path, measurements: tuple[Measurement, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    first = measurements[0]
    served = " ".join(str(getattr(first, name)) for name in TEXTS if getattr(first, name))
    lines = (f"first level: {served}" if served else "", _missing(measurements))
    table = Table(
        title=f"{path}: {first.format}",
        caption="\n".join(line for line in lines if line),
        title_justify="left",
        caption_justify="left",
    )
    for name in ("load", "offered", "served", "prompt", "output"):
        table.add_column(name, justify="right")
    for name in ("TTFT ms", "TPOT ms"):
        table.add_column(f"{name}\nmean / p50 / p99", justify="right")
    for m in measurements[:SHOWN_LEVELS]:
        row = (
            _load(m),
            _rate(m.offered_rps),
            _rate(m.completed_rps),
            _tokens(m.prompt.mean if m.prompt else None),
            _tokens(m.output.mean if m.output else None),
            _times(m, "ttft"),
            _times(m, "tpot"),
        )
        table.add_row(*map(Text, row))
    return table


def _missing(measurements: tuple[Measurement, ...]) -> str:
    """Name what a calibration still needs, with the number of levels where not all need it."""
    counts = Counter(name for m in measurements for name in m.missing)
    total = len(measurements)
    words = [name if n == total else f"{name} ({n} of {total})" for name, n in counts.items()]
    return "missing: " + (", ".join(words) or "nothing")


def _load(m: Measurement) -> str:
    if m.arrivals is None:
        return "?"
    words = m.arrivals.mode.replace("_", " ")
    return f"{words} {m.arrivals.concurrency:g}" if m.arrivals.concurrency else words


def _rate(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _tokens(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _times(m: Measurement, metric: Metric) -> str:
    """Write milliseconds; a sign says where the tool's quantity is only close to ours."""
    latency = m.best(metric)
    if latency is None:
        return "?"
    s = latency.statistics
    words = ["?" if v is None else _ms(v * 1e3) for v in (s.mean, s.p50, s.p99)]
    return ("≈ " if latency.fit == "close" else "") + " / ".join(words)


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _found(found: list[tuple[Measurement, Finding]], together: tuple[Finding, ...]) -> Table:
    """List each finding once, with the number of load levels that have it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Findings", title_justify="left")
    for name in ("severity", "finding", "levels", "such as"):
        table.add_column(name, overflow="fold")
    groups: dict[tuple[str, str], list[str]] = {}
    for _, finding in found:
        groups.setdefault((finding.severity, finding.name), []).append(finding.what)
    for finding in together:
        groups.setdefault((finding.severity, finding.name), []).append(finding.what)
    order = {"error": 0, "warning": 1, "note": 2}
    for (severity, name), what in sorted(groups.items(), key=lambda item: order[item[0][0]]):
        table.add_row(*map(Text, (severity, name, str(len(what)), what[0])))
    return table
