"""Lowers comparisons of all types and ranks, SELECT, SELECT_V2, MAXIMUM and MINIMUM."""

import math

import numpy as np

from neurald.drivers.compiler.ir.algorithm import StringEquality
from neurald.drivers.compiler.ir.builder import Builder, broadcast
from neurald.drivers.compiler.ir.expression import Expression, constant, load, select
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale
from neurald.drivers.compiler.lowering.elementwise.comparison import COMPARISONS, ordered
from neurald.drivers.compiler.lowering.elementwise.pointwise import BINARY_INPUTS, Function, pointwise, widen
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.fixed_point import multiply, quantize_multiplier
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.elementwise.comparison import PRECISION_BITS, is_compared_by_scale

_ANDROID = {
    OperationType.TFLITE_EQUAL: OperationType.EQUAL,
    OperationType.TFLITE_NOT_EQUAL: OperationType.NOT_EQUAL,
    OperationType.TFLITE_LESS: OperationType.LESS,
    OperationType.TFLITE_LESS_EQUAL: OperationType.LESS_EQUAL,
    OperationType.TFLITE_GREATER: OperationType.GREATER,
    OperationType.TFLITE_GREATER_EQUAL: OperationType.GREATER_EQUAL,
}


def _comparable(value: Expression, operand: Operand) -> Expression:
    difference = value.to(Scalar.INT64) - operand.zero_point
    return rescale(difference << PRECISION_BITS, operand.scale)


def _are_compared_as_stored(first: Operand, second: Operand) -> bool:
    """Returns True if two quantised numbers compare as their real values do.

    They have the same scale and zero point, and no two numbers become the same when rescaled.
    """
    if (first.scale, first.zero_point) != (second.scale, second.zero_point):
        return False
    limits = np.iinfo(first.type.dtype.name)
    values = np.arange(limits.min, limits.max + 1) - first.zero_point
    rescaled = multiply(values << PRECISION_BITS, *quantize_multiplier(first.scale))
    return bool((np.diff(rescaled) > 0).all())


def _compare(function: Function) -> Lowering:
    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        operands = [call.operand(name) for name in BINARY_INPUTS]
        if is_string(operands[0].type):
            return (_compare_strings(call, builder, function),)
        if is_compared_by_scale(call) and not _are_compared_as_stored(*operands):
            return pointwise(
                call,
                builder,
                BINARY_INPUTS,
                lambda *elements: function(*map(_comparable, elements, operands)),
            )
        return pointwise(call, builder, BINARY_INPUTS, lambda *elements: function(*map(ordered, elements)))

    return lowered


def _compare_strings(call: Call, builder: Builder, function: Function) -> Value:
    """Compares strings for equality, of which the function is one or its opposite."""
    sources = [builder.value(call, name) for name in BINARY_INPUTS]
    shape = broadcast_shapes(*(source.shape for source in sources))
    count = math.prod(shape)

    def row(source: Value) -> Value:
        expanded = source
        if source.shape != shape:
            expanded = builder.compute(shape, lambda *at: broadcast(source, at))
        return builder.reshape(expanded, (count,))

    equal = builder.procedure(StringEquality(), *map(row, sources), output=(count,), type=Scalar.BOOL)
    # True if strings are equal: the function compares that with true.
    result = builder.reshape(equal, shape)
    return builder.compute(shape, lambda *at: function(load(result, at), constant(1, Scalar.BOOL)))


def _extreme(is_first: Function) -> Lowering:
    """Returns the lowering of MAXIMUM or MINIMUM.

    If either operand is NaN, the second one is taken.
    """

    def function(first: Expression, second: Expression) -> Expression:
        return select(is_first(widen(first), widen(second)), first, second)

    return lambda call, builder: pointwise(call, builder, BINARY_INPUTS, function)


def _select(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers SELECT. A condition of rank 1 selects along the first axis."""
    condition, first, second = (builder.value(call, name) for name in ("condition", *BINARY_INPUTS))

    def body(*at: Expression) -> Expression:
        return select(broadcast(condition, at[: len(condition.shape)]), load(first, at), load(second, at))

    return (builder.compute(first.shape, body),)


def _select_broadcast(call: Call, builder: Builder) -> tuple[Value, ...]:
    return pointwise(call, builder, ("condition", *BINARY_INPUTS), select)


LOWERINGS = {
    **{operation: _compare(COMPARISONS[narrow]) for operation, narrow in _ANDROID.items()},
    OperationType.TFLITE_MAXIMUM: _extreme(lambda first, second: first > second),
    OperationType.TFLITE_MINIMUM: _extreme(lambda first, second: first < second),
    OperationType.TFLITE_SELECT: _select,
    OperationType.TFLITE_SELECT_V2: _select_broadcast,
}
