"""Binds pooling over windows."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.windows import axes_of, window_table
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    FLOAT,
    MAX_INT32,
    PRODUCTS_PER_NS,
    SHORT,
    Bind,
    BindingScope,
    integer_of,
    limits,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution import pooling
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

_MAXIMA = (OperationType.MAX_POOL_2D, OperationType.TFLITE_MAX_POOL_2D)


def bind_pooling(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds MAX_POOL_2D, AVERAGE_POOL_2D and L2_POOL_2D."""
    output, kind = call.operand("output"), call.operand("input").type
    if is_nchw(call) or output.type is not kind or kind not in (FLOAT, SHORT, *BYTES):
        raise NotBound("the layout is NCHW, or the types have no kernel")
    window, (batches, height, width, channels) = pooling.geometry(call)
    axes = axes_of(window, (height, width))
    positions, taps = batches * math.prod(window.output), math.prod(window.kernel)
    suffix = "float" if kind is FLOAT else integer_of(output)
    if kind is SHORT and taps << 15 > MAX_INT32:
        raise NotBound("sums may exceed 32 bits")
    ends = limits(call) if kind is FLOAT else quantized_limits(output, call.activation)
    is_maximum = call.binding.type in _MAXIMA
    name = "max" if is_maximum else "norm" if call.binding.type is OperationType.L2_POOL_2D else "average"
    lowest: float = 0
    if is_maximum:
        lowest = {"float": -np.inf, "signed": -128, "unsigned": 0, "short": -(1 << 15)}[suffix]
    outside = scope.shared(
        ("outside", kind, channels, lowest),
        lambda: BoundConstant.of(np.full(channels, lowest, kind.dtype)),
    )
    constants = [window_table(scope, batches, axes, channels), outside]
    if not is_maximum:
        counts = [axis.is_inside().sum(axis=1, dtype=np.int32) for axis in axes]
        each = np.tile(np.outer(*counts).reshape(-1), batches)
        constants.append(BoundConstant.of(each))
    return [
        BoundCall(
            function=f"first_{name}_{suffix}",
            arguments=(call.index("output"), call.index("input"), *constants),
            words=(channels, taps, *ends),
            work_items=positions,
            cost_ns=positions * channels * taps / PRODUCTS_PER_NS * 4,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.MAX_POOL_2D: bind_pooling,
    OperationType.TFLITE_MAX_POOL_2D: bind_pooling,
    OperationType.AVERAGE_POOL_2D: bind_pooling,
    OperationType.TFLITE_AVERAGE_POOL_2D: bind_pooling,
    OperationType.L2_POOL_2D: bind_pooling,
}
