"""``planner simulate … --trace-out FILE`` and ``--otlp-out FILE``: requests as spans."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.cli.output import note, require_writable, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from planner.attribution.traced import TracedRun


@dataclass(frozen=True, slots=True)
class TraceWish:
    """Which requests to write as spans, and where to."""

    trace: Path | None
    otlp: Path | None
    only_missed: bool
    most: int

    @property
    def wanted(self) -> bool:
        """Whether there is anything to write."""
        return self.trace is not None or self.otlp is not None

    def check(self, *read: Path | None) -> None:
        """Refuse what could not be written, before long work is done for it.

        Args:
            read: Files that the command reads.

        Raises:
            InputError: A file cannot be written, or an option has no file that it is for.
        """
        if not self.wanted:
            if self.only_missed:
                raise InputError("--only-missed belongs to --trace-out or --otlp-out")
            return
        for path in (self.trace, self.otlp):
            if path is None:
                continue
            if path.suffix != ".json":
                raise InputError(f"{path}: spans are written as JSON; let the name end in .json")
            require_writable(path, *read, self.otlp if path is self.trace else None)

    def write(self, runs: Iterable[TracedRun]) -> None:
        """Write the files that are wanted."""
        from planner.reporting.otlp import otlp_document
        from planner.reporting.trace_events import trace_document

        told = [(run, run.pick(self.most, only_missed=self.only_missed)) for run in runs]
        if self.trace is not None:
            _write(self.trace, trace_document(told))
        if self.otlp is not None:
            _write(self.otlp, otlp_document(told))
        for run, chosen in told:
            missed = int((~run.met[run.counted]).sum())
            note(
                f"{run.name}: {len(chosen):,} of {run.counted.size:,} simulated requests told,"
                f" {missed:,} of which missed a deadline"
                if not self.only_missed
                else f"{run.name}: {len(chosen):,} of {missed:,} misses told, of"
                f" {run.counted.size:,} simulated requests"
            )


def _write(path: Path, document: dict[str, Any]) -> None:
    write_whole(path, json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n")
