"""Prefill and decode on replicas of their own, and the link that carries KV between them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.spec import Spec
from planner.units import BytesPerSecond, Seconds, within

Transport = Literal["nvlink", "rdma", "tcp"]


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

    link: KvLink
    """Between the two sides of a group; without a link there are no groups."""

    choose: Literal["search", "always"] = "search"
    """Take groups where they are the better buy, or always."""

    hand_off: Annotated[Seconds, within(1e-9, 60, "s")] = 0.002
    """From the end of prefill to the queue of the decode side, which reads the KV once it has room,
    computes the last prompt token again and sends the first token."""

    max_replicas: Annotated[int, Field(ge=2, le=32)] = 8
    """Of a group, both sides together; larger pools are several groups."""
