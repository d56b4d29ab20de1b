"""Third-party raw files that some tests compare with; they are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2] / "shared"

SHARED = Path(os.environ.get("PLANNER_SHARED") or _BESIDE)
"""The folder that ``PLANNER_SHARED`` names, or ``shared`` beside the checkout."""

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir(), reason="no folder of third-party raw files is at hand"
)
