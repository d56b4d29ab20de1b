"""Results on standard output, everything else on standard error, files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planner.errors import InputError, PlannerError

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH: Final = 100
"""Columns of a table that is not written to a terminal."""


def emit(text: str) -> None:
    """Write a result to standard output; a reader that has gone away ends it quietly.

    Raises:
        PlannerError: Standard output cannot take the text, such as on a full disk.
    """
    with _writing():
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Say why standard output cannot be written; a reader that has gone away is no mistake."""
    if sys.stdout is None:
        raise PlannerError("cannot write to standard output: it is closed")
    try:
        yield
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise PlannerError(f"cannot write to standard output: {error.strerror}") from error


def emit_json(value: Any) -> None:
    """Write plain data as indented JSON."""
    emit(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def emit_tables(*renderables: RenderableType, width: int = WIDTH) -> None:
    """Write tables for people: the terminal's width, or ``width`` columns into a pipe."""
    from rich.console import Console

    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    columns = None if on_terminal else width
    console = Console(file=sys.stdout, width=columns, highlight=False, soft_wrap=False)
    with _writing(), console.capture() as captured:
        console.print(*renderables, sep="\n")
    emit("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def note(text: str) -> None:
    """Write a remark to standard error; nowhere where that is closed or full."""
    if sys.stderr is not None:  # print would take standard output instead
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)


def finish(code: int) -> int:
    """Flush standard output, so that a closed pipe cannot fail at exit; return the code."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        note(f"cannot write to standard output: {error.strerror}")
        return code or 1
    return code


def _discard_stdout() -> None:
    """Send what is left in the buffer nowhere, so that the exit of Python does not fail on it."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that readers see the old one or the new one, never a part.

    The text goes to a temporary file in the same folder, which then takes the name. A symbolic
    link is followed; a device such as ``/dev/stdout`` is written directly.

    Raises:
        InputError: The folder is missing or read-only, or the disk is full.
    """
    with _told(path):
        target = path.resolve() if path.is_symlink() else path
        if target.is_dir():
            raise InputError(f"{path}: is a folder; name a file")
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)


def require_writable(path: Path, *others: Path | None) -> None:
    """Refuse a file that could not be written, before long work is done for it.

    Args:
        path: What is to be written.
        others: Files that the command reads, or writes as well; None is none.

    Raises:
        InputError: The path is a folder or one of the others, or its folder is missing or
            read-only.
    """
    with _told(path):
        if any(other is not None and other.resolve() == path.resolve() for other in others):
            raise InputError(f"{path}: is used for something else here; name another file")
        target = path.resolve() if path.is_symlink() else path
        if target.is_dir():
            raise InputError(f"{path}: is a folder; name a file")
        if target.is_file() or not target.exists():
            descriptor, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
            os.close(descriptor)
            Path(temporary).unlink()


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say why a file cannot be written, in place of the system's error."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(path, error)}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: cannot be written: {error}") from error
    except RuntimeError as error:  # as Python says it before 3.13
        raise InputError(f"{path}: is a link that leads back to itself; remove it") from error


def _replace(target: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp"
    )
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(path: Path, error: OSError) -> str:
    folder = path.parent
    if error.errno == errno.ENOENT:
        return f"there is no folder {folder}; make it first"
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return f"{folder} is read-only for you; name another folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; the file is left as it was"
    return error.strerror or str(error)


@contextlib.contextmanager
def progress(show: bool = True) -> Iterator[Callable[[str, float], None] | None]:
    """Offer a progress line on standard error, where that is a terminal; else ``None``.

    The callable takes what is being done and how much of the whole is done, 0 to 1.
    """
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(what: str, share: float) -> None:
            bar.update(task, description=what, completed=min(max(share, 0.0), 1.0))

        yield report
