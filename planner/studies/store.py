"""Where the runs of studies are kept: one small database in the folder of the results.

A run is kept under a hash of all that it depends on, in a transaction of its own, so that a kill at
any moment loses the runs that were under way and nothing else, and a study asked again plans only
what is not there.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

from planner.data import version
from planner.errors import InputError
from planner.simulation.point_key import meaning_of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.scenario.load import LoadedScenario, LoadedTables

FILE: Final = "runs.sqlite"
FORMAT: Final = 1
WAIT_S: Final = 60.0
"""For another process that is writing."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, check_sum TEXT NOT NULL, plan BLOB NOT"
    " NULL) WITHOUT ROWID"
)


class RunStore:
    """Plans by the hash of their question; usable by several processes at once."""

    def __init__(self, folder: Path) -> None:
        """Open the database in a folder, or make it.

        Raises:
            InputError: It cannot be opened, or is something else.
        """
        self.path = folder / FILE
        try:
            self._connection = sqlite3.connect(self.path, timeout=WAIT_S)
            (found,) = self._connection.execute("PRAGMA user_version").fetchone()
            if found not in (0, FORMAT):
                raise InputError(f"{self.path}: was written by another version; name another -o")
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._connection:
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: {error}; name another folder with -o") from error

    def close(self) -> None:
        """Close the database."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def get(self, key: str) -> str | None:
        """Return the plan of a question as JSON; None where it is missing or damaged."""
        try:
            with closing(
                self._connection.execute("SELECT check_sum, plan FROM runs WHERE key = ?", (key,))
            ) as rows:
                found = rows.fetchone()
            if found is None or hashlib.sha256(found[1]).hexdigest() != found[0]:
                return None
            return zlib.decompress(found[1]).decode("utf-8")
        except (sqlite3.Error, zlib.error, TypeError, UnicodeDecodeError):
            return None

    def put(self, key: str, plan: str) -> None:
        """Keep a plan, for good once this returns.

        Raises:
            InputError: The disk is full, or the folder read-only by now.
        """
        packed = zlib.compress(plan.encode("utf-8"), 6)
        row = (key, hashlib.sha256(packed).hexdigest(), packed)
        try:
            with self._connection:
                self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be written: {error}") from error


def key_of(loaded: LoadedScenario | LoadedTables) -> str:
    """Return the hash of all that a plan depends on: question, files that it names, and program."""
    found = hashlib.sha256()
    document = loaded.scenario.model_dump(mode="json")
    for part in (version(), meaning_of_numbers().hex(), json.dumps(document, sort_keys=True)):
        found.update(part.encode("utf-8") + b"\0")
    for text in sorted(set(_texts(document))):
        with suppress(OSError, ValueError):
            file = loaded.folder / text
            if file.is_file():
                with file.open("rb") as stream:
                    found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a document that could name a file."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str) and 0 < len(value) < 1000:
        yield value
