"""Predictions of a table of measurements, and how far off they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from planner.calibration.levels import read_levels
from planner.calibration.metrics import breakdown, scored
from planner.calibration.parameters import read_parameters
from planner.calibration.predict import METRICS, Predictor
from planner.calibration.silicon import read_closed_loop_means

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from planner.calibration.parameters import Parameters
    from planner.calibration.points import Unusable
    from planner.calibration.predict import Estimate, Prediction
    from planner.catalogue import Catalogue

Unit = Literal["group", "system"]


@dataclass(frozen=True, slots=True)
class Validation:
    """What was predicted of each row, and what could not be."""

    predictions: tuple[Prediction, ...]
    unusable: tuple[Unusable, ...]
    rows: int

    @property
    def coverage(self) -> float:
        """Share of the usable rows that have a prediction."""
        usable = len(self.predictions)
        return sum(p.ttft_s is not None for p in self.predictions) / usable if usable else 0.0

    def metrics(self) -> dict[str, Any]:
        """Return metrics by quantity, overall and by group."""
        return {
            name: {
                by: {level: asdict(m) for level, m in levels.items()}
                for by, levels in breakdown(
                    scored(self.predictions, _measured(name), _predicted(name))
                ).items()
            }
            for name in METRICS
        }

    def document(self) -> dict[str, Any]:
        """Return the rows in the order of the file, the metrics, and the counts, as plain data."""
        rows: dict[int, dict[str, Any]] = {
            u.row: _row(u.row, u.id, None, None, None, u.reason) for u in self.unusable
        }
        for p in self.predictions:
            rows[p.point.row] = _row(
                p.point.row, p.point.id, p.ttft_s, p.tpot_s, p.source or None, p.reason or None
            )
        reasons: dict[str, int] = {}
        for row in rows.values():
            if row["reason"] is not None and row["ttft_s"] is None:
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
        return {
            "rows": [rows[i] for i in sorted(rows)],
            "metrics": self.metrics(),
            "counts": {
                "rows": self.rows,
                "predicted": sum(row["ttft_s"] is not None for row in rows.values()),
                "not_predicted": reasons,
            },
        }


def _row(
    row: int,
    name: str,
    ttft: Estimate | None,
    tpot: Estimate | None,
    source: str | None,
    reason: str | None,
) -> dict[str, Any]:
    return {
        "row": row,
        "id": name,
        "ttft_s": ttft.value if ttft else None,
        "tpot_s": tpot.value if tpot else None,
        "goodput_rps": None,
        "attainment": None,
        "low": {"ttft_s": ttft.low if ttft else None, "tpot_s": tpot.low if tpot else None},
        "high": {"ttft_s": ttft.high if ttft else None, "tpot_s": tpot.high if tpot else None},
        "source": source,
        "reason": reason,
    }


def _measured(name: str) -> Callable[[Prediction], float | None]:
    def value(p: Prediction) -> float | None:
        found: float | None = getattr(p.point, name)
        return found

    return value


def _predicted(name: str) -> Callable[[Prediction], Estimate | None]:
    def value(p: Prediction) -> Estimate | None:
        found: Estimate | None = getattr(p, name)
        return found

    return value


def validate(
    rows: Path,
    catalogue: Catalogue,
    calibrate_on: Path | None = None,
    leave_out: Unit | None = None,
    parameters: Parameters | None = None,
) -> Validation:
    """Predict every row of a table and compare.

    Args:
        rows: A table of closed-loop means.
        catalogue: Models, accelerators, step laws.
        calibrate_on: Measurements that the predictions may use.
        leave_out: Instead: each row is predicted from those of all other groups (or systems)
            of its own table.
        parameters: Default: those shipped, with the levels that belong to them.

    Raises:
        InputError: A table cannot be read.
    """
    levels = read_levels(catalogue) if parameters is None else None
    predictor = Predictor(catalogue, parameters or read_parameters(), levels=levels)
    table = read_closed_loop_means(rows, catalogue)
    wanted = predictor.physics(table.points)
    if leave_out is not None:
        found = predictor.leave_out(wanted, leave_out)
    elif calibrate_on is not None:
        known = predictor.physics(read_closed_loop_means(calibrate_on, catalogue).points)
        found = predictor.predict(wanted, known)
    else:
        found = predictor.predict(wanted)
    refused = _refused(table.points, wanted.refused)
    return Validation((*found, *refused), table.unusable, table.rows)


def _refused(points: Sequence[Any], reasons: Any) -> list[Prediction]:
    from planner.calibration.predict import Prediction

    return [Prediction(p, None, None, "", reasons[p.row]) for p in points if p.row in reasons]
