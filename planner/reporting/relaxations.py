"""What would make a fleet possible, as it is typed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.fleet import Relaxation

HEADING = "What would mend it, as planned and simulated"


def relaxation(x: Relaxation) -> str:
    """Write a change as it is given to ``--set``, and what is not enough."""
    typed = " ".join(f"--set {_typed(setting)}" for setting in x.settings)
    short = " or ".join(setting.partition("=")[2] for setting, *_ in x.not_enough)
    less = f"; {short} {'is' if len(x.not_enough) == 1 else 'are'} not enough" if short else ""
    return f"{typed} (now {x.has}{less})"


def _typed(setting: str) -> str:
    path, _, value = setting.partition("=")
    return f"{path}={shlex.quote(value)}"
