"""What was learned from measurements, as it is committed: constants, effects, bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from planner.calibration.constants import EngineConstants
from planner.calibration.disaggregated import HandOff
from planner.calibration.pooling import Pooling, Term
from planner.curves.roofline import Efficiency
from planner.data import shipped
from planner.spec import Spec, read_spec

if TYPE_CHECKING:
    from pathlib import Path


class RooflineParameters(Spec):
    """Efficiencies of the roofline (see ``planner.curves.roofline.Efficiency``)."""

    bandwidth: float = Field(gt=0)
    arithmetic: float = Field(gt=0)
    experts: float = Field(gt=0)
    attention: float = Field(gt=0)
    overlap: float = Field(ge=0)
    launch_s: float = Field(ge=0)
    expert_launch_s: float = Field(ge=0)
    routing: float = Field(gt=0)
    narrow: float = Field(gt=0)
    collective_s: float = Field(ge=0)
    link: float = Field(gt=0)

    def efficiency(self) -> Efficiency:
        """Return them as the roofline takes them."""
        return Efficiency(**self.model_dump())


class EngineParameters(Spec):
    """Constants of one engine (see ``planner.calibration.constants``)."""

    host_step_s: float = Field(ge=0)
    host_sequence_s: float = Field(ge=0)
    host_prefill_s: float = Field(ge=0)
    front_token_s: float = Field(ge=0)
    path_s: float = Field(ge=0)
    decode_log: float
    prefill_log: float
    context_log: float

    def constants(self) -> EngineConstants:
        """Return them as physics takes them."""
        return EngineConstants(**self.model_dump())


class HandOffParameters(Spec):
    """Constants of disaggregated serving (see ``planner.calibration.disaggregated``)."""

    alone_factor: float = Field(gt=0)
    crowded_factor: float = Field(gt=0)
    path_s: float = Field(ge=0)
    burst_factor: float = Field(ge=0)
    softness: float = Field(gt=0)

    def hand_off(self) -> HandOff:
        """Return them as the loop takes them."""
        return HandOff(**self.model_dump())


class TermParameters(Spec):
    """One kind of effect (see ``planner.calibration.pooling``)."""

    keys: tuple[str, ...]
    shape: Literal["flat", "load", "users"]
    sd: float = Field(gt=0)


class PoolingParameters(Spec):
    """Effects of one metric."""

    noise_sd: float = Field(gt=0)
    apart_noise_sd: float = Field(gt=0)
    clip: float = Field(gt=0)
    terms: tuple[TermParameters, ...]

    def pooling(self) -> Pooling:
        """Return them as pooling takes them."""
        terms = tuple(Term(t.keys, t.shape, t.sd) for t in self.terms)
        return Pooling(terms, self.noise_sd, self.apart_noise_sd, self.clip)


class BandParameters(Spec):
    """Half-widths of 90 % bands, in standard deviations that pooling states."""

    ttft: float = Field(gt=0)
    """Where no run of the configuration itself is known."""
    tpot: float = Field(gt=0)
    ttft_own: float = Field(gt=0)
    """Where some are, at other loads."""
    tpot_own: float = Field(gt=0)
    ttft_factors: dict[str, float] = Field(default_factory=dict)
    """By ``key level``, such as ``accelerator b200-sxm``; on bands without own runs."""
    tpot_factors: dict[str, float] = Field(default_factory=dict)


class Parameters(Spec):
    """Everything that was learned, and from what."""

    format_version: Literal["1.0"] = "1.0"
    what: str
    learned_from: str
    source: str
    licence: str
    attribution: str
    roofline_share: float = Field(ge=0, le=1)
    """Weight of the roofline against moved laws where no library law exists."""
    roofline: RooflineParameters
    engines: dict[str, EngineParameters]
    hand_off: HandOffParameters
    ttft: PoolingParameters
    tpot: PoolingParameters
    bands: BandParameters


def read_parameters(folder: Path | None = None) -> Parameters:
    """Read the committed parameters.

    Args:
        folder: Default: ``models/calibration`` as shipped.

    Raises:
        InputError: The file is missing or wrong.
    """
    folder = folder or shipped("models") / "calibration"
    return read_spec(folder / "calibration.yaml", Parameters)
