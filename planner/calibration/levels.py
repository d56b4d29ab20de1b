"""Pooled residuals in a form that can be kept: what pooling says at reference loads.

A level is not a measurement: it is the smoothed effect of everything akin to a configuration,
read at the corner of a coarse lattice of loads that is nearest to what was measured. Put back
into pooling as if it were that many runs, it tells of new points what the measurements told.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.cells import rows_of
from planner.calibration.points import Load, Point, Stage, System
from planner.calibration.pooling import Pool, kin_of
from planner.curves.roofline import Degrees
from planner.data import shipped
from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.calibration.points import Lengths, Mode
    from planner.calibration.pooling import Kin, Pooling
    from planner.calibration.predict import Physical, Predictor
    from planner.catalogue import Catalogue
    from planner.measurements.text_lines import CsvRow

    Floats = NDArray[np.float64]

USERS: Final = (1, 4, 16, 64, 256, 1024, 4096)
TOKENS: Final = (128, 512, 2048, 8192)
"""The lattice of reference loads."""


@dataclass(frozen=True, slots=True)
class Level:
    """The pooled residual of one configuration at one reference load."""

    model: str
    precision: str
    accelerator: str
    engine: str
    engine_version: str
    mode: str
    lengths: str
    replicas: int
    accelerators: int
    dp_degree: int
    ep_degree: int
    prefill_replicas: int
    prefill_accelerators: int
    prefill_dp_degree: int
    prefill_ep_degree: int
    law: str
    """``library`` or ``transfer``."""
    users: int
    prompt_tokens: int
    output_tokens: int
    runs: int
    """Measured runs nearest to this load."""
    ttft_log: float
    """ln(measured / physics), pooled."""
    tpot_log: float


LEVEL_COLUMNS: Final = tuple(f.name for f in fields(Level))


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels as pooling sees them."""

    rows: tuple[Level, ...]
    kin: Kin

    def logs(self, metric: str) -> Floats:
        """Return the levels of a metric, ``ttft_s`` or ``tpot_s``; shape ``(n,)``, in ln."""
        name = metric.replace("_s", "_log")
        return np.array([getattr(row, name) for row in self.rows])

    def runs(self) -> Floats:
        """Return how many runs each level stands for; shape ``(n,)``."""
        return np.array([float(row.runs) for row in self.rows])

    def pool(self, pooling: Pooling, metric: str) -> Pool:
        """Return the effects that the levels tell of a metric, ``ttft_s`` or ``tpot_s``."""
        return Pool(pooling, self.kin, self.logs(metric), self.runs())


def condense(predictor: Predictor, measured: Physical) -> tuple[Level, ...]:
    """Return the levels that measured points amount to, in a stable order."""
    cells: dict[tuple[str, str, Lengths, int, int, int], list[int]] = {}
    for i, p in enumerate(measured.points):
        if p.ttft_s and p.tpot_s:
            key = (p.system.group, p.system.engine_version, p.load.lengths, *_corner(p.load))
            cells.setdefault(key, []).append(i)
    order = sorted(cells, key=str)
    points, matched = [], []
    for key in order:
        first = cells[key][0]
        p = measured.points[first]
        users, prompt, output = key[3:]
        load = replace(p.load, users=users, prompt_tokens=prompt, output_tokens=output)
        points.append(replace(p, load=load, curve=""))
        matched.append(measured.matched[first])
    kin = kin_of(points, matched)
    logs = {}
    for metric in ("ttft_s", "tpot_s"):
        pooled = predictor.pool(metric, measured)
        assert pooled is not None
        logs[metric] = pooled[0].at(kin).mean
    return tuple(
        _level(p, m, len(cells[key]), float(t), float(o))
        for key, p, m, t, o in zip(
            order, points, matched, logs["ttft_s"], logs["tpot_s"], strict=True
        )
    )


def _corner(load: Load) -> tuple[int, int, int]:
    def nearest(value: int, corners: tuple[int, ...]) -> int:
        return min(corners, key=lambda c: abs(np.log(c / value)))

    prompt, output = load.prompt_tokens, load.output_tokens
    return nearest(load.users, USERS), nearest(prompt, TOKENS), nearest(output, TOKENS)


def _level(p: Point, matched: bool, runs: int, ttft: float, tpot: float) -> Level:
    s, ahead = p.system, p.system.prefill
    d = s.main.degrees
    a = ahead.degrees if ahead else Degrees(0, 0, 0)
    return Level(
        model=s.llm.id,
        precision=s.precision,
        accelerator=s.accelerator.id,
        engine=s.engine,
        engine_version=s.engine_version,
        mode=s.mode,
        lengths=p.load.lengths,
        replicas=s.main.replicas,
        accelerators=d.accelerators,
        dp_degree=d.dp_degree,
        ep_degree=d.ep_degree,
        prefill_replicas=ahead.replicas if ahead else 0,
        prefill_accelerators=a.accelerators,
        prefill_dp_degree=a.dp_degree,
        prefill_ep_degree=a.ep_degree,
        law="library" if matched else "transfer",
        users=p.load.users,
        prompt_tokens=p.load.prompt_tokens,
        output_tokens=p.load.output_tokens,
        runs=runs,
        ttft_log=round(ttft, 4),
        tpot_log=round(tpot, 4),
    )


def write_levels(path: Path, levels: tuple[Level, ...]) -> None:
    """Write levels as a table."""
    names = [f.name for f in fields(Level)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(level, n) for n in names] for level in levels)


def read_levels(catalogue: Catalogue, path: Path | None = None) -> Levels:
    """Read the committed levels.

    Args:
        catalogue: Models and accelerators that the levels name.
        path: Default: ``models/calibration/levels.csv`` as shipped.

    Raises:
        InputError: The table cannot be read, or names what the catalogue does not know.
    """
    path = path or shipped("models") / "calibration" / "levels.csv"
    rows, points = [], []
    for i, row in enumerate(rows_of(path, LEVEL_COLUMNS)):
        try:
            rows.append(_row(row))
            points.append(_point(i, rows[-1], catalogue))
        except (InputError, ValueError) as error:
            raise InputError(f"{path}:{row.line}: {error}") from error
    return Levels(tuple(rows), kin_of(points, [row.law == "library" for row in rows]))


_NUMBERS: Final = {"int": int, "float": float, "str": str}


def _row(row: CsvRow) -> Level:
    cells = row.whole()
    level = Level(**{f.name: _NUMBERS[str(f.type)](cells[f.name]) for f in fields(Level)})
    sizes = (level.users, level.prompt_tokens, level.output_tokens, level.runs, level.replicas)
    if not (np.isfinite((level.ttft_log, level.tpot_log)).all() and min(sizes) > 0):
        raise InputError("a level needs finite logs, and sizes above 0")
    return level


def _point(i: int, row: Level, catalogue: Catalogue) -> Point:
    prefill = None
    if row.prefill_replicas:
        ahead = (row.prefill_accelerators, row.prefill_dp_degree, row.prefill_ep_degree)
        prefill = Stage(Degrees(*ahead), row.prefill_replicas)
    mode: Mode = "disaggregated" if row.mode == "disaggregated" else "colocated"
    lengths: Lengths = "uniform" if row.lengths == "uniform" else "fixed"
    return Point(
        row=i,
        id=f"level {i}",
        system=System(
            llm=catalogue.llm(row.model),
            precision=row.precision,
            accelerator=catalogue.accelerator(row.accelerator),
            engine=row.engine,
            engine_version=row.engine_version,
            mode=mode,
            main=Stage(Degrees(row.accelerators, row.dp_degree, row.ep_degree), row.replicas),
            prefill=prefill,
        ),
        load=Load(row.users, row.prompt_tokens, row.output_tokens, lengths),
        ttft_s=None,
        tpot_s=None,
        curve="",
    )
