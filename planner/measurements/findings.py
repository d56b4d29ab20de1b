"""A finding: something that may be wrong with a measurement, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "warning", "error"]
"""``note``: to know. ``warning``: may mislead. ``error``: what it touches must not be used."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that may be wrong with a measurement. Nothing is dropped for it.

    Attributes:
        name: Which check, in words joined by underscores.
        severity: How bad it is.
        what: What was seen, and what it means.
        numbers: The numbers behind it, as (name with unit, value).
    """

    name: str
    severity: Severity
    what: str
    numbers: tuple[tuple[str, float], ...] = ()
