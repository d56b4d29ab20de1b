"""Says what is being done, and about how much of the whole is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Teller:
    """Passes words and a share that never falls; silent without a listener."""

    listener: Callable[[str, float], None] | None = None
    share: float = 0.0

    def __call__(self, what: str, share: float | None = None) -> None:
        """Tell what is being done; without a share, a little of what is left is done."""
        self.share = max(self.share, share or self.share + 0.05 * (0.95 - self.share))
        if self.listener is not None:
            self.listener(what, self.share)
