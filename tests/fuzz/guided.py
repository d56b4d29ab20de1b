"""Damage that coverage of the code guides, where ``pip install atheris`` has been."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from tests.fuzz.run import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.readers import Reader


def guided(reader: Reader, folder: Path, seconds: float) -> None:
    """Let libFuzzer change files of one reader; it ends the process, and shows what broke."""
    import atheris  # type: ignore[import-not-found]

    tool: Any = atheris
    prepare(folder)
    corpus = folder / "corpus"
    corpus.mkdir()
    for i, seed in enumerate(reader.seeds()):
        (corpus / str(i)).write_bytes(seed)
    path = folder / f"{reader.name}{reader.endings[0]}"

    def one(raw: bytes) -> None:
        path.write_bytes(raw)
        try:
            reader.read(path)
        except PlannerError as error:
            assert error.exit_code == 2, error

    tool.instrument_all()
    limits = [f"-max_total_time={seconds:.0f}", "-timeout=5", "-rss_limit_mb=2048"]
    tool.Setup([sys.argv[0], *limits, "-max_len=200000", str(corpus)], one)
    tool.Fuzz()
