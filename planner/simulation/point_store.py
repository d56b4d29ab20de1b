"""Measured operating points on disk, by name, in one small database; trusted only if unharmed.

Nothing here may change a plan. An entry is read back exactly as it was written or not at all; and
whatever is wrong with the folder, the disk or the file, work goes on without it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

FORMAT: Final = 1
"""Of the file; it stands in its name, so that releases with different formats share a folder."""
APPLICATION: Final = 0x676F6F64
"""Marks the file as ours."""
MOST_BYTES: Final = 128 * 2**20
"""Beyond it the entries that were used longest ago go, down to ``KEPT`` of it."""
KEPT: Final = 0.8
WRITTEN_AT_ONCE: Final = 256
"""Entries of one transaction."""
WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Before a file that others are just making is opened again."""
PATIENCE_S: Final = 5.0
"""How long another run may keep the file locked."""
MAKING: Final = (
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA journal_mode = WAL",
    f"PRAGMA application_id = {APPLICATION}",
    "CREATE TABLE IF NOT EXISTS points"
    " (key BLOB PRIMARY KEY, value BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID",
)
"""Makes the file. ``used`` is the number of the run that last had a use for the entry."""
CHECK_BYTES: Final = 16


class PointStore:
    """A folder of measured points; several runs, and threads of a run, may use it at once.

    Args:
        folder: Made when something is first written or looked for.
        tell: Told once, in one line, why the folder cannot be used.
        most_bytes: Size that the file keeps to.
    """

    def __init__(
        self,
        folder: Path,
        tell: Callable[[str], None] = lambda _: None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.path = folder / f"points-{FORMAT}.sqlite3"
        self.asked = 0
        self.found = 0
        self._tell = tell
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._broken = False
        self._fresh: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        self._run = 1

    def __enter__(self) -> PointStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def find(self, key: bytes) -> bytes | None:
        """Return what was kept under a name; None if nothing was, or what is there is harmed."""
        with self._lock:
            self.asked += 1
            value = self._fresh.get(key)
            if value is None and (connection := self._open()) is not None:
                try:
                    row = connection.execute(
                        "SELECT value, used FROM points WHERE key = ?", (key,)
                    ).fetchone()
                except sqlite3.Error as error:
                    self._give_up(error)
                    return None
                value = _unsealed(key, row[0]) if row is not None else None
                if value is not None and row[1] != self._run:
                    self._used.add(key)
            self.found += value is not None
            return value

    def keep(self, key: bytes, value: bytes) -> None:
        """Keep a value under a name, in place of what was there."""
        with self._lock:
            if self._broken:
                return
            self._fresh[key] = value
            if len(self._fresh) >= WRITTEN_AT_ONCE:
                self._write()

    def close(self) -> None:
        """Write what is new, and drop what was used longest ago where the file is too large."""
        with self._lock:
            if self._fresh or self._used:
                self._write()
            if self._connection is not None and not self._broken:
                try:
                    self._evict(self._connection)
                except sqlite3.Error as error:
                    self._give_up(error)
            self._disconnect()

    # -- under the lock ---------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection | None:
        if self._connection is None and not self._broken:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._connected_somehow()
            except (sqlite3.Error, OSError, ValueError) as error:
                self._give_up(error)
        return self._connection

    def _connected_somehow(self) -> sqlite3.Connection:
        """Open the file, again while others make it, anew where it is harmed."""
        for wait_s in WAITS_S:
            try:
                return self._connected()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                time.sleep(wait_s)
            except sqlite3.DatabaseError:
                self._discard()
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        """Open the file.

        Raises:
            sqlite3.DatabaseError: It is none, is not ours, or cannot be used.
        """
        connection = sqlite3.connect(
            self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes  # harmed values may claim to be text
        try:
            (count,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            if not count:
                for words in MAKING:
                    connection.execute(words)
            if _pragma(connection, "application_id") != APPLICATION:
                _refuse()
            connection.execute("PRAGMA synchronous = NORMAL")
            _require_table(connection)
            self._run = _pragma(connection, "user_version") + 1
        except BaseException:
            connection.close()
            raise
        return connection

    def _write(self) -> None:
        connection = self._open()
        if connection is None:
            return
        run = self._run
        rows = [(key, _sealed(key, value), run) for key, value in self._fresh.items()]
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?)", rows)
            connection.executemany(
                "UPDATE points SET used = ? WHERE key = ?", [(run, key) for key in self._used]
            )
            connection.execute(f"PRAGMA user_version = {run}")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(error)
        self._fresh.clear()
        self._used.clear()

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Drop entries until the rest fits; pages left half empty may take several goes."""
        while (size := _used_bytes(connection)) > self._most_bytes:
            (count,) = connection.execute("SELECT COUNT(*) FROM points").fetchone()
            if count == 0:
                break
            surplus = max(count - int(count * KEPT * self._most_bytes / size), 1)
            connection.execute(
                "DELETE FROM points WHERE key IN (SELECT key FROM points ORDER BY used LIMIT ?)",
                (surplus,),
            )

    def _give_up(self, error: Exception) -> None:
        """Go on without the store; a file that is harmed is thrown away."""
        self._disconnect()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        ):
            self._discard()
        if not self._broken:
            self._broken = True
            self._fresh.clear()
            self._tell(f"measured points are not kept: {self.path.parent}: {_reason(error)}")

    def _discard(self) -> None:
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _refuse() -> NoReturn:
    raise sqlite3.OperationalError("the file belongs to something else")


def _require_table(connection: sqlite3.Connection) -> None:
    """Refuse a file of ours that has lost its table.

    Raises:
        sqlite3.DatabaseError: It is harmed.
    """
    try:
        connection.execute("SELECT key, value, used FROM points LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if str(error).startswith("no such"):
            raise sqlite3.DatabaseError("the table of points is harmed") from error
        raise


def _sealed(key: bytes, value: bytes) -> bytes:
    return _check(key, value) + value


def _unsealed(key: bytes, sealed: object) -> bytes | None:
    """Return the value if it is whole and stands under its own name."""
    if not isinstance(sealed, bytes):
        return None
    value = sealed[CHECK_BYTES:]
    return value if sealed[:CHECK_BYTES] == _check(key, value) else None


def _check(key: bytes, value: bytes) -> bytes:
    return blake2b(key + value, digest_size=CHECK_BYTES).digest()


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (number,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(number)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
