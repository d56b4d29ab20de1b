"""Prefill and decode on replicas of their own, and the link that carries KV between them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import BytesPerSecond, Seconds, within

Transport = Literal["nvlink", "pcie", "rdma", "tcp"]
Meeting = Literal["scaleup", "rack", "zone", "region", "world"]
"""Nearest common place of the two sides of a group."""


class KvLink(Spec):
    """What carries KV from the prefill to the decode replicas of one group."""

    bandwidth: Annotated[BytesPerSecond, within(1e6, 1e14, "B/s")]
    """What transfers achieve, shared by all transfers of a group; `25 GB/s`, or `10 Gb/s`."""

    latency: Annotated[Seconds, within(1e-9, 60, "s")]
    """Added to every transfer: set-up, descriptors, the way."""

    transport: Transport = "rdma"
    """Named in the plan; speed is what `bandwidth` and `latency` say."""

    sharing: Literal["fifo", "fair"] = "fifo"
    """Transfers one after the other, or at equal shares of the bandwidth."""


class Disaggregation(Spec):
    """Groups of prefill and decode replicas beside replicas that do both."""

    link: KvLink | None = None
    """Between the two sides of a group, for itself. Left out, the topology says what carries KV;
    without either there are no groups."""

    meet: tuple[Meeting, ...] | None = Field(default=None, min_length=1)
    """Where the sides may meet in the topology: in a scale-up domain, or on nodes of one rack, zone
    or region, or of the world; wherever a link is, if left out."""

    sharing: Literal["fifo", "fair"] = "fifo"
    """Over links of the topology: transfers one after the other, or at equal shares."""

    choose: Literal["search", "always"] = "search"
    """Take groups where they are the better buy, or always."""

    hand_off: Annotated[Seconds, within(1e-9, 60, "s")] = 0.002
    """From the end of prefill to the queue of the decode side, which reads the KV once it has room,
    computes the last prompt token again and sends the first token."""

    max_replicas: Annotated[int, Field(ge=2, le=32)] = 8
    """Of a group, both sides together; larger pools are several groups."""

    @model_validator(mode="after")
    def _one_link(self) -> Disaggregation:
        if self.link is not None and self.meet is not None:
            raise mistake("the link says what carries KV; leave out one of the two", "meet")
        if self.link is not None and self.sharing != "fifo":
            raise mistake("the link says how it is shared; put it there", "sharing")
        return self
