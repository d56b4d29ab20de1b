"""A value in somebody else's document, which knows its place and refuses what makes no sense."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

GREATEST: Final = 1e15
"""No time, rate or count of a benchmark is above this, in any tool's unit but nanoseconds."""
LONGEST_TEXT: Final = 2000
MS: Final = 1e-3
_GROUPED: Final = re.compile(r"^-?\d{1,3}(,\d{3})+(\.\d*)?$")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place.

    Attributes:
        value: Plain data.
        where: ``file``, or ``file:line`` of a row.
        path: Keys from there down, such as ``metrics.ttft[3]``.
        cells: The values are cells of a table: text, numbers among it, empty if unknown.
    """

    value: Any
    where: str
    path: str = ""
    cells: bool = False

    def refuse(self, what: str, name: str = "") -> InputError:
        """Make the error that blames this value, or the one under a key of it."""
        path = _joined(self.path, name)
        return InputError(f"{self.where}: {path}: {what}" if path else f"{self.where}: {what}")

    def table(self) -> dict[str, Any]:
        """Return the keys and values.

        Raises:
            InputError: It is no object.
        """
        if not isinstance(self.value, dict):
            raise self.refuse(f"expected an object; got {shown(self.value)}")
        return self.value

    def has(self, name: str) -> bool:
        """Tell whether a key holds anything."""
        return self.table().get(name) not in (None, "")

    def at(self, *names: str) -> Node | None:
        """Return what lies under keys, one below the other; ``None`` where one holds nothing."""
        here = self
        for name in names:
            if not here.has(name):
                return None
            path = _joined(here.path, name)
            here = Node(here.value[name], here.where, path, here.cells)
        return here

    def elements(self) -> Iterator[Node]:
        """Yield the elements of a list.

        Raises:
            InputError: It is no list.
        """
        if not isinstance(self.value, list):
            raise self.refuse(f"expected a list; got {shown(self.value)}")
        for i, value in enumerate(self.value):
            yield Node(value, self.where, f"{self.path}[{i}]", self.cells)

    def number(
        self, name: str, *, scale: float = 1.0, low: float = 0.0, high: float = GREATEST
    ) -> float | None:
        """Return a finite number times ``scale``; ``None`` where the key holds nothing.

        Args:
            name: The key.
            scale: What one of the file's unit is in ours.
            low: Least value in the file's unit.
            high: Greatest value in the file's unit.

        Raises:
            InputError: It is no number, not finite, or out of bounds.
        """
        value = self._float(name)
        if value is None:
            return None
        if not low <= value <= high:
            raise self.refuse(f"expected a number from {low:g} to {high:g}; got {value:g}", name)
        return value * scale

    def unbounded(self, name: str) -> float | None:
        """Return a number above 0 that may be infinite, as the rate of an unlimited client is.

        Raises:
            InputError: It is no number, or not above 0.
        """
        value = self._float(name)
        if value is None or value == float("inf") or 0 < value <= GREATEST:
            return value
        raise self.refuse(f"expected a number above 0; got {value:g}", name)

    def _float(self, name: str) -> float | None:
        if not self.has(name):
            return None
        value = self.value[name]
        if isinstance(value, str) and self.cells:
            value = _parsed(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(f"expected a number; got {shown(self.value[name])}", name)
        try:
            number = float(value)
        except OverflowError as error:
            raise self.refuse("a number beyond all measure", name) from error
        if math.isnan(number):
            raise self.refuse("expected a number; got NaN", name)
        return number

    def whole(self, name: str, *, low: int = 0) -> int | None:
        """Return a whole number; ``None`` where the key holds nothing.

        Raises:
            InputError: It is no whole number, or out of bounds.
        """
        value = self.number(name, low=low)
        if value is None:
            return None
        if value != int(value):
            raise self.refuse(f"expected a whole number; got {value:g}", name)
        return int(value)

    def text(self, name: str) -> str | None:
        """Return a text; ``None`` where the key holds nothing.

        Raises:
            InputError: It is neither text nor a number, or is too long to be a name.
        """
        if not self.has(name):
            return None
        value = self.value[name]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.refuse(f"expected text; got {shown(value)}", name)
        text = str(value)
        if len(text) > LONGEST_TEXT:
            raise self.refuse(f"a text of more than {LONGEST_TEXT} characters", name)
        return text

    def first_text(self, *names: str) -> str | None:
        """Return the text under the first of several keys that holds one."""
        return next((self.text(name) for name in names if self.has(name)), None)

    def numbers(self, name: str, *, scale: float = 1.0) -> NDArray[np.float64] | None:
        """Return a list of finite numbers ≥ 0, times ``scale``; shape ``(length,)``.

        Raises:
            InputError: It is no list of such numbers.
        """
        found = self.at(name)
        if found is None:
            return None
        values = found.value
        if not isinstance(values, list):
            raise found.refuse(f"expected a list; got {shown(values)}")
        return found.vector(values) * scale

    def vector(self, values: list[Any]) -> NDArray[np.float64]:
        """Make an array of plain numbers that lie here.

        Raises:
            InputError: One is no number, not finite, or out of bounds.
        """
        if not all(type(value) in (int, float) for value in values):
            i = next(i for i, value in enumerate(values) if type(value) not in (int, float))
            raise self.refuse(f"[{i}]: expected a number; got {shown(values[i])}")
        array = np.array([float(value) for value in values], np.float64)
        bad = ~((array >= 0) & (array <= GREATEST))
        if bad.any():
            i = int(np.argmax(bad))
            raise self.refuse(f"[{i}]: expected a number from 0 to {GREATEST:g}; got {array[i]:g}")
        return array


def _joined(path: str, name: str) -> str:
    if not name:
        return path
    return f"{path}.{name[:80]}" if path else name[:80]


def _parsed(text: str) -> float | str:
    """Read a cell as a number, thousands separators included; leave it if it is none."""
    try:
        return float(text.replace(",", "") if _GROUPED.match(text) else text)
    except ValueError:
        return text
