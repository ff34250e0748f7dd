"""Binds operations of which the reference says where each element goes.

It runs on the numbers of the elements in the place of their values.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import (
    copying_call,
    expect_equal_types,
    run_table_call,
    running_call,
)
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import Bind, BindingScope, bound_by, output_shape
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.records import replace

#: Maximum number of elements of the inputs, whose numbers must be exact in 32 bits.
_MAX_ELEMENTS: Final = 1 << 24
#: Added to all numbers, to see whether the operation computes with them.
_DISTANCE: Final = 1 << 25
_MAX_INT32: Final = (1 << 31) - 1


def bind_mirror(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds MIRROR_PAD."""
    from neurald.hal.operations.movement.padding import mirror_mode, paddings

    given, mode = call.shape("input"), mirror_mode(call)
    pairs = paddings(call, len(given))
    return _by_axes(
        call,
        [
            np.pad(np.arange(length, dtype=np.int32), pair, mode=mode)
            for length, pair in zip(given, pairs, strict=True)
        ],
    )


def bind_nearest(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RESIZE_NEAREST_NEIGHBOR."""
    from neurald.hal.operations.movement.resizing import nearest_indexes

    if is_nchw(call):
        raise NotBound("the layout is NCHW")
    given, shape = call.shape("input"), output_shape(call)
    indexes: list[Array] = [np.arange(length, dtype=np.int32) for length in shape]
    for axis in (1, 2):
        indexes[axis] = nearest_indexes(call, given[axis], shape[axis]).astype(np.int32)
    return _by_axes(call, indexes)


def _by_axes(call: Call, indexes: Sequence[Array]) -> list[BoundCall]:
    """Binds a movement that takes elements by their indexes along each axis."""
    expect_equal_types([call.operand("output"), call.operand("input")])
    given, itemsize = call.shape("input"), call.operand("output").type.dtype.itemsize
    strides, run, outer = strides_of(given), 1, len(given)
    if math.prod(given) > _MAX_INT32 or math.prod(map(len, indexes)) > _MAX_INT32:
        raise NotBound("there are too many elements")
    while outer and np.array_equal(indexes[outer - 1], np.arange(given[outer - 1])):
        outer -= 1
        run *= given[outer]
    rows = math.prod(len(each) for each in indexes[:outer])

    def fill(target: Array) -> None:
        sources: Array = np.zeros(1, np.int32)
        for each, stride in zip(indexes[:outer], strides, strict=False):
            sources = (sources[:, None] + each * np.int32(stride)).reshape(-1)
        target[:, 0] = np.arange(rows, dtype=np.int32) * np.int32(run)
        target[:, 1] = sources

    table = BoundConstant(dtype=np.dtype(np.int32), shape=(rows, 2), fill=fill)
    return [run_table_call(call.index("output"), call.index("input"), itemsize, table, run)]


# Movements that are found out by numbers.


def bind_numbered(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds other operations that only move elements; equal ones are examined once."""
    given = tuple(index for indexes in call.binding.inputs.values() for index in indexes)
    made = tuple(index for indexes in call.binding.outputs.values() for index in indexes)
    key: Hashable = (
        call.binding.type,
        tuple(call.binding.inputs),
        tuple(_described(scope, index, given.index(index)) for index in given),
        tuple(_described(scope, index, 0) for index in made),
    )
    known = scope.bound.get(key)
    if known is None:
        known = scope.bound[key] = ((*given, *made), _numbered_calls(scope, call))
    earlier, calls = known
    now = dict(zip(earlier, (*given, *made), strict=True))
    return [
        replace(
            each,
            arguments=tuple(
                now[argument] if isinstance(argument, int) else argument for argument in each.arguments
            ),
        )
        for each in calls
    ]


def _described(scope: BindingScope, index: int, first: int) -> Hashable:
    """Returns what matters of an operand, and the first input that is the same one."""
    operand, value = scope.operands[index], scope.value(index)
    content = None if value is None else value.tobytes()
    return operand.type, operand.dimensions, operand.scale, operand.zero_point, first, content


def _numbered_calls(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Returns the calls that move the elements of an operation's inputs to its outputs.

    Elements of outputs that come from no input, such as those of a pad, are copied from constants.

    Raises:
        NotBound: it does more than moving, or has too many elements.
    """
    operands = scope.operands
    outputs = [index for indexes in call.binding.outputs.values() for index in indexes]
    kind = operands[outputs[0]]
    inputs = [
        index
        for indexes in call.binding.inputs.values()
        for index in indexes
        if operands[index].type.is_tensor and scope.value(index) is None
    ]
    expect_equal_types([kind, *(operands[index] for index in (*inputs, *outputs))])
    shapes = {index: operands[index].dimensions or () for index in inputs}
    counts = {index: math.prod(shape) for index, shape in shapes.items()}
    if sum(counts.values()) > _MAX_ELEMENTS:
        raise NotBound("there are too many elements")
    starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))

    def results(given: Callable[[int], Array]) -> Sequence[Array]:
        known = Call(
            call.binding,
            operands,
            lambda index: operands[index].dimensions,
            lambda index: given(index) if index in counts else scope.value(index),
        )
        return DEFINITIONS[call.binding.type].reference(known)

    def numbers(index: int, distance: int) -> Array:
        first = starts[index] + distance
        return np.arange(first, first + counts[index], dtype=np.int32).reshape(shapes[index])

    found = results(lambda index: numbers(index, 0))
    again = results(lambda index: numbers(index, _DISTANCE))
    filled: Sequence[Array] | None = None
    calls: list[BoundCall] = []
    size = kind.type.dtype.itemsize
    for place, (output, one, other) in enumerate(zip(outputs, found, again, strict=True)):
        flat, distance = one.reshape(-1), other.reshape(-1) - one.reshape(-1)
        is_moved = distance == _DISTANCE
        if flat.dtype != np.int32 or not (is_moved | (distance == 0)).all():
            raise NotBound("it does more than moving elements")
        if not is_moved.all():
            if filled is None:
                filled = results(lambda index: np.zeros(shapes[index], operands[index].type.dtype))
            contents = np.ascontiguousarray(filled[place], kind.type.dtype)
            calls.append(copying_call(output, BoundConstant.of(contents), contents.nbytes))
        for index, start in starts.items():
            places = np.flatnonzero(is_moved & (flat >= start) & (flat < start + counts[index]))
            if places.size:
                calls.append(running_call(output, index, size, flat[places] - start, places))
    return calls


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(bind_mirror, "MIRROR_PAD", "TFLITE_MIRROR_PAD"),
    **bound_by(bind_nearest, "RESIZE_NEAREST_NEIGHBOR", "TFLITE_RESIZE_NEAREST_NEIGHBOR"),
    **bound_by(
        bind_numbered,
        "BATCH_TO_SPACE_ND",
        "SPACE_TO_BATCH_ND",
        "TFLITE_BATCH_TO_SPACE_ND",
        "TFLITE_SPACE_TO_BATCH_ND",
        "TFLITE_REVERSE_SEQUENCE",
    ),
}
