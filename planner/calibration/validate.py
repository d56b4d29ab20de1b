"""Predictions of a table of measurements, and how far off they are."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from planner.calibration.ladders import predict_ladder
from planner.calibration.levels import read_levels
from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.metrics import Scored, breakdown
from planner.calibration.parameters import read_parameters
from planner.calibration.predict import METRICS, Prediction, Predictor
from planner.calibration.request_rows import is_requests, predict_requests
from planner.calibration.silicon import read_closed_loop_means
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from planner.calibration.ladders import RunPrediction
    from planner.calibration.parameters import Parameters
    from planner.calibration.points import Point, System, Unusable
    from planner.calibration.predict import Estimate
    from planner.calibration.request_rows import RequestPrediction
    from planner.catalogue import Catalogue

Unit = Literal["group", "system"]
LADDER_METRICS = ("ttft_s", "tpot_s", "goodput_rps", "attainment")


@dataclass(frozen=True, slots=True)
class RowResult:
    """What was predicted of one row of a file, and what was measured."""

    row: int
    id: str
    system: System | None
    predicted: Mapping[str, Estimate | None]
    measured: Mapping[str, float | None]
    source: str | None
    reason: str | None
    quantity: Mapping[str, str]
    """Which statistic a metric is, such as ``ttft_p99_s``."""

    def document(self) -> dict[str, Any]:
        """Return the row as plain data."""

        def of(name: str, part: str) -> float | None:
            found = self.predicted.get(name)
            value = None if found is None else float(getattr(found, part))
            return None if value is None or math.isnan(value) else value

        return {
            "row": self.row,
            "id": self.id,
            **{name: of(name, "value") for name in LADDER_METRICS},
            "low": {name: of(name, "low") for name in LADDER_METRICS},
            "high": {name: of(name, "high") for name in LADDER_METRICS},
            "source": self.source,
            "reason": self.reason,
            "quantity": dict(self.quantity),
        }


@dataclass(frozen=True, slots=True)
class Validation:
    """One result per row of the file, in its order."""

    rows: tuple[RowResult, ...]

    def metrics(self) -> dict[str, Any]:
        """Return metrics by quantity, overall and by mode, accelerator, engine and model."""
        found = {}
        for name in LADDER_METRICS:
            scored = [s for row in self.rows if (s := _scored(row, name)) is not None]
            if scored:
                found[name] = {
                    by: {level: asdict(m) for level, m in levels.items()}
                    for by, levels in breakdown(scored).items()
                }
        return found

    def document(self) -> dict[str, Any]:
        """Return rows, metrics and counts as plain data."""
        reasons: dict[str, int] = {}
        for row in self.rows:
            if row.reason is not None:
                reasons[row.reason] = reasons.get(row.reason, 0) + 1
        predicted = sum(any(row.predicted.values()) for row in self.rows)
        return {
            "rows": [row.document() for row in self.rows],
            "metrics": self.metrics(),
            "counts": {
                "rows": len(self.rows),
                "predicted": predicted,
                "not_predicted": reasons,
            },
        }


def _scored(row: RowResult, name: str) -> Scored | None:
    guess, truth = row.predicted.get(name), row.measured.get(name)
    if guess is None or not truth or row.system is None:
        return None
    s = row.system
    return Scored(truth, guess, s.mode, s.accelerator.id, s.engine, s.llm.id)


def validate(
    rows: Path,
    catalogue: Catalogue,
    calibrate_on: Path | None = None,
    leave_out: Unit | None = None,
    parameters: Parameters | None = None,
) -> Validation:
    """Predict every row of a table and compare.

    Args:
        rows: A table of closed-loop means, of ladders, or of single requests.
        catalogue: Models, accelerators, step laws.
        calibrate_on: Measurements that the predictions may use, of the same kind.
        leave_out: Instead: each row of a table of means is predicted from those of all other
            groups (or systems) of its own table.
        parameters: Default: those shipped, with the levels that belong to them.

    Raises:
        InputError: A table cannot be read, or is of a kind that cannot be left out or learn.
    """
    levels = read_levels(catalogue) if parameters is None else None
    predictor = Predictor(catalogue, parameters or read_parameters(), levels=levels)
    single, ladder = is_requests(rows), is_ladder(rows)
    if leave_out is not None and (single or ladder):
        raise InputError(f"{rows}: --leave-out: only closed-loop means have groups to leave out")
    if calibrate_on is not None and not single and is_ladder(calibrate_on) != ladder:
        kinds = ("closed-loop means", "runs at loads or rates")
        raise InputError(
            f"{calibrate_on}: --calibrate-on: holds no {kinds[ladder]}, as {rows} does; a table"
            " learns from one of its own kind"
        )
    if single:
        if calibrate_on is not None:
            raise InputError(f"{rows}: single requests are predicted a priori; no --calibrate-on")
        found_requests = predict_requests(predictor.simulated, rows, catalogue)
        return Validation(tuple(map(_of_request, found_requests)))
    if ladder:
        return _ladder(predictor, rows, catalogue, calibrate_on)
    table = read_closed_loop_means(rows, catalogue)
    wanted = predictor.physics(table.points)
    if leave_out is not None:
        found = predictor.leave_out(wanted, leave_out)
    elif calibrate_on is not None:
        known = predictor.physics(read_closed_loop_means(calibrate_on, catalogue).points)
        found = predictor.predict(wanted, known)
    else:
        found = predictor.predict(wanted)
    results = [_of_point(p.point, p) for p in found]
    results += [
        _of_point(p, Prediction(p, None, None, "", wanted.refused[p.row]))
        for p in table.points
        if p.row in wanted.refused
    ]
    return _in_order(results, table.unusable)


def _ladder(
    predictor: Predictor, rows: Path, catalogue: Catalogue, calibrate_on: Path | None
) -> Validation:
    ladder = read_ladder(rows, catalogue)
    known = read_ladder(calibrate_on, catalogue).runs if calibrate_on is not None else ()
    found = predict_ladder(predictor.simulated, ladder.runs, known)
    return _in_order([_of_run(p) for p in found], ladder.unusable)


def _in_order(results: Sequence[RowResult], unusable: Sequence[Unusable]) -> Validation:
    rest = [RowResult(u.row, u.id, None, {}, {}, None, u.reason, {}) for u in unusable]
    return Validation(tuple(sorted((*results, *rest), key=lambda r: r.row)))


def _of_point(point: Point, p: Prediction) -> RowResult:
    return RowResult(
        row=point.row,
        id=point.id,
        system=point.system,
        predicted={"ttft_s": p.ttft_s, "tpot_s": p.tpot_s},
        measured={"ttft_s": point.ttft_s, "tpot_s": point.tpot_s},
        source=p.source or None,
        reason=p.reason or None,
        quantity={"ttft_s": "ttft_mean_s", "tpot_s": "tpot_mean_s"},
    )


def _of_request(p: RequestPrediction) -> RowResult:
    return RowResult(
        row=p.row,
        id=p.id,
        system=p.system,
        predicted={"ttft_s": p.ttft_s, "tpot_s": p.tpot_s},
        measured=dict(zip(METRICS, p.measured, strict=True)),
        source=p.source or None,
        reason=p.reason or None,
        quantity={name: name for name in METRICS},
    )


def _of_run(p: RunPrediction) -> RowResult:
    quantity = {"ttft_s": p.headline("ttft"), "tpot_s": p.headline("tpot")}
    names = {**quantity, "goodput_rps": "goodput_rps", "attainment": "attainment"}
    return RowResult(
        row=p.run.row,
        id=p.run.id,
        system=p.run.system,
        predicted={metric: p.estimate(name) for metric, name in names.items()},
        measured={metric: p.run.measured.get(name) for metric, name in names.items()},
        source=p.source or None,
        reason=p.reason or (f"{', '.join(p.run.blind)}: {p.run.note}" if p.run.blind else None),
        quantity=quantity,
    )
