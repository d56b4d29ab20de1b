"""One accelerator: memory in bytes, peak rates, links, power."""

from __future__ import annotations

from typing import Literal

from planner.ids import Slug
from planner.spec import Spec
from planner.units import Bytes, BytesPerSecond, FlopPerSecond, Watts


class Accelerator(Spec):
    """What is known of a device; what is not known is absent, never guessed.

    Rates are dense (no sparsity); bandwidths are per device in one direction.
    """

    format_version: Literal["1.0"] = "1.0"

    id: Slug
    """Lower-case name, such as ``h100-sxm``."""

    name: str
    """The name as the source writes it."""

    vendor: str
    """Who makes it."""

    aliases: tuple[Slug, ...] = ()
    """Other spellings; one that several accelerators bear is refused."""

    memory: Bytes
    """Memory of one device, in bytes as the device reports them where that is known."""

    memory_basis: Literal["reported", "nominal"]
    """Whether ``memory`` is the device's own report or the size on the datasheet."""

    memory_source: str
    """Where the byte figure is from."""

    memory_nominal: Bytes
    """Size on the datasheet, decimal."""

    memory_note: str | None = None
    """Said where the nominal size is more than 3 % off the reported one."""

    memory_bandwidth: BytesPerSecond
    """Peak rate of the memory."""

    bf16: FlopPerSecond | None = None
    """Peak rate of 16-bit matrix products."""

    fp8: FlopPerSecond | None = None
    """Peak rate of 8-bit floating-point matrix products; absent where there are no such units."""

    fp4: FlopPerSecond | None = None
    """Peak rate of 4-bit floating-point matrix products."""

    int8: FlopPerSecond | None = None
    """Peak rate of 8-bit integer matrix products."""

    board_power: Watts | None = None
    """Power limit of the device (TDP)."""

    all_in_power: Watts | None = None
    """Power with the device's share of host, network and cooling."""

    accelerators_per_node: int | None = None
    """Devices in a usual node; a GB200 NVL72 tray holds 4."""

    scaleup_domain: int | None = None
    """Devices that reach each other over the scale-up link; 1 means over PCIe only."""

    scaleup_technology: str | None = None
    """Name of the scale-up link."""

    scaleup_bandwidth: BytesPerSecond | None = None
    """Scale-up link per device, one direction; vendors usually print both directions added."""

    pcie_bandwidth: BytesPerSecond | None = None
    """Link to the host per device, one direction."""

    scaleout_bandwidth: BytesPerSecond | None = None
    """Network per device, one direction, in a usual node; the provider decides."""

    note: str | None = None
    """Where sources disagree, and what is missing."""

    source: str
    """Where the facts are from."""

    licence: str
    """Terms of the source."""

    def peak(self, precision: str) -> FlopPerSecond | None:
        """Return the peak rate at a precision of weights, or None where it has no such units.

        4-bit weights without 4-bit units, and 8-bit weights without 8-bit units, are widened to
        16 bits: then the 16-bit rate is what counts.
        """
        if precision in ("nvfp4", "mxfp4") and self.fp4 is not None:
            return self.fp4
        if precision == "fp8" and self.fp8 is not None:
            return self.fp8
        return self.int8 if precision == "int8" and self.int8 is not None else self.bf16
