"""The capabilities of a device: verdicts on operations, its performance, and its link."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from neurald.hal.model.types import OperandType


class Verdict(Struct, frozen=True, kw_only=True):
    """A device's answer whether it supports an operation; `reason` explains to people why not."""

    ok: bool
    reason: str = ""


class Performance(Struct, frozen=True, kw_only=True):
    """Execution time and power of a device relative to the CPU device (1.0); smaller is better."""

    exec_time: float
    power_usage: float


class Capabilities(Struct, frozen=True, kw_only=True):
    """Performance figures of a device (`Capabilities.aidl`).

    Attributes:
        operand_performance: by operand type; a missing type counts as infinitely slow.
        relaxed_float32_scalar: the relaxed float32 scalar for scalars of models that allow float16
            precision.
        relaxed_float32_tensor: the relaxed float32 tensor for tensors of models that allow float16
            precision.
        if_performance: the performance of the IF operation itself.
        while_performance: the performance of the WHILE operation itself.
    """

    operand_performance: Mapping[OperandType, Performance] = field(
        default_factory=lambda: MappingProxyType({})
    )
    relaxed_float32_scalar: Performance
    relaxed_float32_tensor: Performance
    if_performance: Performance
    while_performance: Performance


class Link(Struct, frozen=True, kw_only=True):
    """The link to the daemon of a device on another host, as measured.

    Attributes:
        latency_s: the time of a call without data.
        bytes_per_s: how fast data moves.
    """

    latency_s: float
    bytes_per_s: float
