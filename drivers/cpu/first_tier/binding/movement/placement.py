"""Binds operations that fill their output and copy elements into it, such as padding."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import (
    StridedMove,
    copying_call,
    expect_equal_types,
    moving_call,
    running_call,
)
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import Bind, BindingScope, output_shape
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call


def _filling(scope: BindingScope, call: Call, value: Any) -> BoundCall:
    """Returns the call that fills the output with an element, given by its raw value."""
    kind, count = call.operand("output").type.dtype, math.prod(output_shape(call))
    single, length = np.array(value, kind), min(count, BLOCK)
    filled = scope.shared(
        ("filled", kind, single.tobytes(), length), lambda: BoundConstant.of(np.full(length, single, kind))
    )
    shape = -(-count // length), length
    return moving_call(
        StridedMove(
            output=call.index("output"),
            given=filled,
            itemsize=kind.itemsize,
            shape=shape,
            output_strides=(length, 1),
            strides=(0, 1),
        ),
        count=count,
    )


def bind_fill(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds FILL, whose value is computed; the shape is constant."""
    operand, shape = call.operand("output"), output_shape(call)
    if operand.type is OperandType.TENSOR_STRING or tuple(scope.constant(call, "dimensions")) != shape:
        raise NotBound("the types have no kernel")
    count, itemsize = math.prod(shape), operand.type.dtype.itemsize
    return [
        moving_call(
            StridedMove(
                output=call.index("output"),
                given=call.index("value"),
                itemsize=itemsize,
                shape=(count,),
                output_strides=(1,),
                strides=(0,),
            )
        )
    ]


def bind_zeros(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds ZEROS_LIKE."""
    if call.shape("input") != output_shape(call):
        # The model declares another shape than the input has that only executions know.
        raise NotBound("the output has another shape")
    return [_filling(scope, call, 0)]


def bind_pad(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds PAD and PAD_V2: fills the output and copies the input to a part of it."""
    from neurald.hal.operations.movement.padding import paddings

    operand, given, shape = call.operand("output"), call.shape("input"), output_shape(call)
    expect_equal_types([operand, call.operand("input")])
    pairs = paddings(call, len(given))
    output, itemsize = call.index("output"), operand.type.dtype.itemsize
    calls: list[BoundCall] = []
    if any(map(any, pairs)):
        calls.append(_filling(scope, call, _padding(scope, call)))
    if math.prod(given):
        strides = strides_of(shape)
        start = sum(pair[0] * stride for pair, stride in zip(pairs, strides, strict=True))
        calls.append(
            moving_call(
                StridedMove(
                    output=output,
                    given=call.index("input"),
                    itemsize=itemsize,
                    shape=given,
                    output_strides=strides,
                    strides=strides_of(given),
                    output_start=start,
                )
            )
        )
    return calls


def _padding(scope: BindingScope, call: Call) -> Any:
    """Returns the raw value of padding."""
    if call.binding.type is OperationType.PAD_V2:
        from neurald.hal.operations.movement.padding import padding_value

        return padding_value(call)
    if call.binding.type is OperationType.TFLITE_PADV2:
        return scope.constant(call, "value").reshape(-1)[0].item()
    return call.operand("output").zero_point


def bind_diagonal(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds MATRIX_DIAG and MATRIX_SET_DIAG: copies elements into zeros, or the input."""
    operand, given, shape = call.operand("output"), call.shape("diagonal"), output_shape(call)
    expect_equal_types([operand, *(call.operand(name) for name in call.binding.inputs)])
    output, itemsize = call.index("output"), operand.type.dtype.itemsize
    if "input" in call.binding.inputs:
        around = copying_call(output, call.index("input"), math.prod(shape) * itemsize)
    else:
        around = _filling(scope, call, 0)
    *batches, row, column = strides_of(shape)
    diagonal = moving_call(
        StridedMove(
            output=output,
            given=call.index("diagonal"),
            itemsize=itemsize,
            shape=given,
            output_strides=(*batches, row + column),
            strides=strides_of(given),
        )
    )
    return [around, diagonal]


def bind_dilation(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DILATE by constant distances."""
    from neurald.hal.operations.tflite.movement.padding import checked_dilations

    operand, given = call.operand("output"), call.shape("input")
    expect_equal_types([operand, call.operand("input")])
    pairs = zip(strides_of(output_shape(call)), checked_dilations(call), strict=True)
    steps = [stride * distance for stride, distance in pairs]
    itemsize = operand.type.dtype.itemsize
    return [
        _filling(scope, call, scope.constant(call, "value").reshape(())),
        moving_call(
            StridedMove(
                output=call.index("output"),
                given=call.index("input"),
                itemsize=itemsize,
                shape=given,
                output_strides=steps,
                strides=strides_of(given),
            )
        ),
    ]


def bind_sparse(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SPARSE_TO_DENSE with constant indexes."""
    from neurald.hal.operations.tflite.movement.scatter import dense_positions

    operand = call.operand("output")
    expect_equal_types([operand, call.operand("values")])
    calls = [_filling(scope, call, scope.constant(call, "default").reshape(()))]
    positions = dense_positions(call)
    if positions.size:
        # The last one of several elements for a place counts.
        places, last = np.unique(positions[::-1], return_index=True)
        sources = len(positions) - 1 - last if call.shape("values") else np.zeros_like(last)
        itemsize = operand.type.dtype.itemsize
        calls.append(running_call(call.index("output"), call.index("values"), itemsize, sources, places))
    return calls


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TFLITE_FILL: bind_fill,
    OperationType.TFLITE_ZEROS_LIKE: bind_zeros,
    OperationType.PAD: bind_pad,
    OperationType.PAD_V2: bind_pad,
    OperationType.TFLITE_PAD: bind_pad,
    OperationType.TFLITE_PADV2: bind_pad,
    OperationType.TFLITE_MATRIX_DIAG: bind_diagonal,
    OperationType.TFLITE_MATRIX_SET_DIAG: bind_diagonal,
    OperationType.TFLITE_DILATE: bind_dilation,
    OperationType.TFLITE_SPARSE_TO_DENSE: bind_sparse,
}
