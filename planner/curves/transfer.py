"""A step law where none was measured: the nearest laws, moved by roofline ratios.

Each library law is moved from its own configuration to the wanted one by the ratio of the two
rooflines, knot by knot; the geometric mean of the nearest few, weighted by nearness, is the
answer. Where nothing is near, the roofline itself has as much to say as the laws, and the two
are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.catalogue.tables import KNOTS
from planner.curves.roofline import Degrees, Formats, Roofline, formats_of, geometry_of, roofline
from planner.curves.step_law import StepLaw
from planner.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.catalogue import Accelerator, Catalogue, Llm, StepLawRow
    from planner.curves.roofline import Geometry


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a step law is wanted for."""

    llm: Llm
    precision: str
    """Number format of the weights, such as ``fp8`` or ``nvfp4``."""
    accelerator: Accelerator
    engine: str
    degrees: Degrees

    @property
    def geometry(self) -> Geometry:
        """The model as the roofline sees it."""
        return geometry_of(self.llm)

    @property
    def formats(self) -> Formats:
        """How weights and cache are stored."""
        return formats_of(self.precision, self.geometry.family)

    def roofline(self) -> Roofline:
        """Return the configuration's roofline."""
        return roofline(self.geometry, self.formats, self.accelerator, self.degrees)


@dataclass(frozen=True, slots=True)
class APrioriLaw:
    """A step law that no measurement of this configuration stands behind."""

    law: StepLaw
    kv_tokens: int
    """KV cache of one rank, in tokens."""
    distance: float
    """How far the nearest library law is (0: it is that very configuration)."""
    source: str
    """``library step law``, ``transfer`` or ``roofline``, and from where."""
    near: bool = True
    """Whether the library has any law of this generation of accelerators."""

    @property
    def matched(self) -> bool:
        """Whether a library law of this very configuration exists."""
        return self.distance < MATCHED


@dataclass(frozen=True, slots=True)
class Nearness:
    """What a difference between two configurations costs, in one currency.

    Chosen so that the order of what may be exchanged is: engine, degree, layout of experts,
    generation-mate, precision, generation, model of the same kind, kind of model.
    """

    model: float = 1.2
    family: float = 3.0
    precision: float = 0.6
    accelerator: float = 0.35
    generation: float = 1.2
    engine: float = 0.1
    doubling: float = 0.5
    """Per doubling of the devices of a replica."""
    attention_dp: float = 0.4
    attention_layout: float = 1.0
    """Attention data parallel on one side only."""
    expert_degree: float = 0.05
    expert_layout: float = 0.3
    scale: float = 0.35
    """A law that is this much farther counts by a factor e less."""
    neighbours: int = 5


MATCHED: Final = 0.3
NEARNESS: Final = Nearness()

_GENERATION: Final = {
    "l40s": "ada", "a100-80g-sxm": "ampere", "h100-sxm": "hopper", "h200-sxm": "hopper",
    "b200-sxm": "blackwell", "b300-sxm": "blackwell", "gb200-nvl72": "blackwell",
    "gb300-nvl72": "blackwell",
}  # fmt: skip

_DISTRUSTED: Final = frozenset(
    ("gpt-oss-120b", "trtllm", accelerator) for accelerator in ("b200-sxm", "gb200-nvl72")
)
"""Laws whose source table holds a fallback kernel, two to three times too slow."""

_MAX_UTILISATION: Final = 0.9
_OTHER_BYTES: Final = 6e9
"""Activations, communication buffers and graphs of a device, where no account exists."""
_UNKNOWN_KV_TOKENS: Final = 400_000
_LEAST: Final = 1e-14


class StepLawLibrary:
    """The catalogue's step laws, ready to be moved elsewhere."""

    def __init__(self, catalogue: Catalogue, nearness: Nearness = NEARNESS) -> None:
        self._catalogue = catalogue
        self._nearness = nearness
        self._known: dict[tuple[object, ...], APrioriLaw] = {}

    @cached_property
    def _rows(self) -> tuple[StepLawRow, ...]:
        rows = self._catalogue.laws()
        return tuple(r for r in rows if (r.model, r.engine, r.accelerator) not in _DISTRUSTED)

    @cached_property
    def _configurations(self) -> tuple[Configuration, ...]:
        return tuple(
            Configuration(
                llm=self._catalogue.llm(row.model),
                precision=row.precision,
                accelerator=self._catalogue.accelerator(row.accelerator),
                engine=row.engine,
                degrees=Degrees(row.accelerators, row.dp_degree, row.ep_degree),
            )
            for row in self._rows
        )

    @cached_property
    def _levels(self) -> NDArray[np.float64]:
        """Logarithms of (L at the knots, slope, c_X, c_K) of every law; shape (laws, k + 3)."""
        return np.array([_vector(_law_of(row)) for row in self._rows])

    @cached_property
    def _rooflines(self) -> NDArray[np.float64]:
        return np.array([_vector(c.roofline().law) for c in self._configurations])

    @cached_property
    def _facts(self) -> dict[str, NDArray[Any]]:
        rows, found = self._rows, self._configurations
        return {
            "model": np.array([r.model for r in rows]),
            "family": np.array([c.geometry.family for c in found]),
            "precision": np.array([r.precision for r in rows]),
            "accelerator": np.array([r.accelerator for r in rows]),
            "generation": np.array([_generation(r.accelerator) for r in rows]),
            "engine": np.array([r.engine for r in rows]),
            "devices": np.array([r.accelerators for r in rows], dtype=np.float64),
            "dp": np.array([r.dp_degree for r in rows]),
            "ep": np.array([r.ep_degree for r in rows]),
        }

    def law(self, wanted: Configuration) -> APrioriLaw:
        """Return the best a-priori step law of a configuration.

        Raises:
            InputError: The catalogue knows too little of the model or the accelerator.
        """
        w, d = wanted, wanted.degrees
        key = (w.llm.id, w.precision, w.accelerator.id, _link(w.accelerator), w.engine, d)
        if key not in self._known:
            self._known[key] = self._moved(wanted)
        return self._known[key]

    def distances(self, wanted: Configuration) -> NDArray[np.float64]:
        """Return how far each library law is from a configuration; shape ``(laws,)``."""
        f, c, w = self._facts, self._nearness, wanted
        d = w.degrees
        same = f["accelerator"] == w.accelerator.id
        kin = f["generation"] == _generation(w.accelerator.id)
        layout = (f["dp"] > 1) == (d.dp_degree > 1)
        model = f["model"] == _base(w.llm)
        family = f["family"] == w.geometry.family
        return np.asarray(
            np.where(model, 0.0, np.where(family, c.model, c.family))
            + np.where(f["precision"] == w.precision, 0.0, c.precision)
            + np.where(same, 0.0, np.where(kin, c.accelerator, c.generation))
            + np.where(f["engine"] == w.engine, 0.0, c.engine)
            + c.doubling * np.abs(np.log2(f["devices"] / d.accelerators))
            + np.where(f["dp"] == d.dp_degree, 0.0, np.where(layout, c.attention_dp, 0.0))
            + np.where(layout, 0.0, c.attention_layout)
            + np.where((f["ep"] > 1) == (d.ep_degree > 1), 0.0, c.expert_layout)
            + np.where(f["ep"] == d.ep_degree, 0.0, c.expert_degree)
        )

    def _moved(self, wanted: Configuration) -> APrioriLaw:
        base = wanted.roofline()
        here = _vector(base.law)
        far = self.distances(wanted)
        order = np.argsort(far, kind="stable")
        nearest = int(order[0])
        distance = float(far[nearest])
        exact = distance < MATCHED and self._is_linked(nearest, wanted)
        chosen = order[: 1 if exact else self._nearness.neighbours]
        weights = np.exp(-(far[chosen] - distance) / self._nearness.scale)
        weights /= weights.sum()
        moved = np.zeros_like(here)
        for index, weight in zip(chosen, weights, strict=True):
            own = self._levels[index]
            if not self._is_same(int(index), wanted):
                own = own + here - self._rooflines[index]
            moved += weight * own
        row = self._rows[nearest]
        kv = row.kv_tokens if exact and row.kv_tokens else _room(wanted, base)
        source = f"library step law {row.id}" if exact else f"transfer from {row.id}"
        near = _generation(wanted.accelerator.id) in self._facts["generation"]
        return APrioriLaw(_law_from(moved), kv, distance, source, near)

    def _is_same(self, index: int, w: Configuration) -> bool:
        row, d = self._rows[index], w.degrees
        return (
            row.model == _base(w.llm)
            and row.precision == w.precision
            and row.accelerator == w.accelerator.id
            and row.accelerators == d.accelerators
            and row.dp_degree == d.dp_degree
            and (row.ep_degree > 1) == (d.ep_degree > 1)
            and self._is_linked(index, w)
        )

    def _is_linked(self, index: int, w: Configuration) -> bool:
        """Whether a law's devices reached each other as fast as those that are wanted."""
        usual = self._configurations[index].accelerator
        other = usual.id == w.accelerator.id and _link(usual) != _link(w.accelerator)
        return w.degrees.accelerators == 1 or not other


def mixed_law(one: StepLaw, other: StepLaw, share: float) -> StepLaw:
    """Return the geometric mean of two step laws, term by term; ``share`` is the other's."""
    return _law_from((1 - share) * _vector(one) + share * _vector(other))


def _base(llm: Llm) -> str:
    """The id under which the library knows a model; DeepSeek's V3 line has one geometry."""
    return "deepseek-r1" if llm.family_id in ("deepseek-v3", "deepseek-v3.1") else llm.family_id


def _link(accelerator: Accelerator) -> float | None:
    """Rate at which devices reach each other."""
    return accelerator.scaleup_bandwidth or accelerator.pcie_bandwidth


def _generation(accelerator: str) -> str:
    return _GENERATION.get(accelerator, accelerator)


def _room(wanted: Configuration, base: Roofline) -> int:
    left = float(wanted.accelerator.memory) * _MAX_UTILISATION - base.weights_bytes - _OTHER_BYTES
    return int(left / base.kv_bytes_per_token) if left > 0 else _UNKNOWN_KV_TOKENS


def _law_of(row: StepLawRow) -> StepLaw:
    return StepLaw(
        knots=row.knots,
        step_s=row.step_s,
        slope_beyond_s_per_token=row.slope_beyond_s_per_token,
        c_x_s_per_token2=row.c_x_s_per_token2,
        c_k_s_per_token=row.c_k_s_per_token,
    )


def _vector(law: StepLaw) -> NDArray[np.float64]:
    if law.knots != KNOTS:
        raise InputError("step laws are moved between the library's knots only")
    terms = (law.slope_beyond_s_per_token, law.c_x_s_per_token2, law.c_k_s_per_token)
    return np.asarray(np.log(np.maximum(np.array([*law.step_s, *terms]), _LEAST)))


def _law_from(vector: NDArray[np.float64]) -> StepLaw:
    v = np.exp(vector)
    k = len(KNOTS)
    return StepLaw(
        knots=KNOTS,
        step_s=tuple(np.maximum.accumulate(v[:k]).tolist()),
        slope_beyond_s_per_token=float(v[k]),
        c_x_s_per_token2=float(v[k + 1]),
        c_k_s_per_token=float(v[k + 2]),
    )
