"""Binds interpolation between pixels."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    SIGNED,
    Bind,
    BindingScope,
    output_shape,
    sign_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Maximum number of positions, which have four offsets and two weights.
_MAX_POSITIONS: Final = 1 << 20
_MAX_INT32: Final = (1 << 31) - 1
_PIXELS: Final = 4


def bind_bilinear(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RESIZE_BILINEAR of floats, and of bytes as in TFLite."""
    kind = call.operand("input").type
    is_tflite = call.binding.type is OperationType.TFLITE_RESIZE_BILINEAR
    if (
        is_nchw(call)
        or call.operand("output").type is not kind
        or not (kind is FLOAT or (is_tflite and kind in BYTES))
    ):
        raise NotBound("the layout is NCHW, or the types have no kernel")
    if kind is SIGNED:
        from neurald.hal.operations.tflite.movement.resizing import fixed_point_neighbours as neighbours
    else:
        from neurald.hal.operations.movement.resizing import neighbours

    (images, height, width, channels), shape = call.shape("input"), output_shape(call)
    positions = math.prod(shape[:3])
    if positions > _MAX_POSITIONS or math.prod(call.shape("input")) > _MAX_INT32:
        raise NotBound("there are too many positions")
    upper, lower, below = neighbours(call, height, shape[1])
    left, right, beside = neighbours(call, width, shape[2])
    first = np.arange(images)[:, None, None] * (height * width)

    def fill(target: Array) -> None:
        pairs = ((upper, left), (lower, left), (upper, right), (lower, right))
        for number, (row, column) in enumerate(pairs):
            pixels = first + (row * width)[:, None] + column
            target[..., number] = pixels * channels

    weights = np.empty((images, *shape[1:3], 2), np.int32 if kind is SIGNED else np.float32)
    weights[..., 0], weights[..., 1] = below[:, None], beside
    table = BoundConstant(dtype=np.dtype(np.int32), shape=(images, *shape[1:3], _PIXELS), fill=fill)
    return [
        BoundCall(
            function=f"first_bilinear_{'float' if kind is FLOAT else sign_of(call.operand('input'))}",
            arguments=(call.index("output"), call.index("input"), table, BoundConstant.of(weights)),
            words=(channels,),
            work_items=positions,
            cost_ns=positions * channels / ELEMENTS_PER_NS,
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.RESIZE_BILINEAR: bind_bilinear,
    OperationType.TFLITE_RESIZE_BILINEAR: bind_bilinear,
}
