"""Binds interpolation between pixels."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    SHORT,
    SIGNED,
    UNSIGNED,
    Bind,
    BindingScope,
    output_shape,
    sign_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Maximum number of positions, which have four offsets and two weights.
_MAX_POSITIONS: Final = 1 << 20
_MAX_INT32: Final = (1 << 31) - 1
_PIXELS: Final = 4
#: Vectors of channels below which lines are interpolated as a whole, unless all are full.
_FEW_VECTORS: Final = 3
#: Maximum number of work items, each of which has memory for a line.
_MAX_ITEMS: Final = 32


def bind_bilinear(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RESIZE_BILINEAR of floats, and of bytes as in TFLite."""
    kind = call.operand("input").type
    is_tflite = call.binding.type is OperationType.TFLITE_RESIZE_BILINEAR
    if (
        is_nchw(call)
        or call.operand("output").type is not kind
        or not (kind is FLOAT or (is_tflite and kind in (*BYTES, SHORT)))
    ):
        raise NotBound("the layout is NCHW, or the types have no kernel")
    if kind in (SIGNED, SHORT):
        from neurald.hal.operations.tflite.movement.resizing import fixed_point_neighbours as neighbours
    else:
        from neurald.hal.operations.movement.resizing import neighbours

    (images, height, width, channels), shape = call.shape("input"), output_shape(call)
    positions = math.prod(shape[:3])
    if positions > _MAX_POSITIONS or math.prod(call.shape("input")) > _MAX_INT32:
        raise NotBound("there are too many positions")
    upper, lower, below = neighbours(call, height, shape[1])
    left, right, beside = neighbours(call, width, shape[2])
    is_short = channels < _FEW_VECTORS * scope.tiles.lanes and channels % scope.tiles.lanes
    if is_short or kind is SHORT:
        lines = _Axis(lower=upper, upper=lower, after=below), _Axis(lower=left, upper=right, after=beside)
        return [_call_by_lines(call, *lines)]
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


class _Axis(Struct, frozen=True, kw_only=True):
    """The neighbours of each position along an axis.

    Attributes:
        lower, upper: their places in the input.
        after: the weight of the upper one.
    """

    lower: Array
    upper: Array
    after: Array


def _call_by_lines(call: Call, lines: _Axis, columns: _Axis) -> BoundCall:
    """Returns the call that interpolates between lines, then along them.

    Args:
        call: the operation.
        lines, columns: the neighbours of lines, and of pixels on a line.
    """
    operand, (images, height, width, channels) = call.operand("input"), call.shape("input")
    kind, given, length = operand.type, width * channels, len(columns.lower) * channels
    count = images * len(lines.lower)
    per_item = -(-count // _MAX_ITEMS)
    dtype = np.int32 if kind in (SIGNED, SHORT) else np.float32
    begins = np.arange(images)[:, None] * height
    rows = np.stack([(begins + each).reshape(-1) * given for each in (lines.lower, lines.upper)], axis=1)
    places = [
        (each[:, None] * channels + np.arange(channels)).reshape(-1)
        for each in (columns.lower, columns.upper)
    ]
    items = -(-count // per_item)
    floats = 2 if kind is UNSIGNED else 1
    name = {FLOAT: "float", SHORT: "short"}.get(kind) or sign_of(operand)
    return BoundCall(
        function=f"first_bilinear_lines_{name}",
        arguments=(
            call.index("output"),
            call.index("input"),
            BoundTemporary(size_bytes=4 * floats * items * given),
            BoundConstant.of(rows.astype(np.int32)),
            BoundConstant.of(np.tile(lines.after.astype(dtype), images)),
            BoundConstant.of(np.stack(places).astype(np.int32)),
            BoundConstant.of(np.repeat(columns.after.astype(dtype), channels)),
        ),
        words=(length, given, count, per_item),
        work_items=items,
        cost_ns=count * (length + given) / ELEMENTS_PER_NS / 2,
    )


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.RESIZE_BILINEAR: bind_bilinear,
    OperationType.TFLITE_RESIZE_BILINEAR: bind_bilinear,
}
