"""Binds operations that copy between views: transpositions, slices, concatenations and others.

NumPy finds the views, in arrays that nobody reads.
"""

import math
from collections.abc import Mapping
from itertools import chain
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import (
    PlacedPart,
    StridedMove,
    copying_call,
    expect_equal_types,
    moving_call,
    part_moving_call,
)
from neurald.drivers.cpu.first_tier.binding.nest import (
    repeated_strides,
    strides_of,
)
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    Bind,
    BindingScope,
    bound_by,
    count_of,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call

_SLICES: Final = frozenset((OperationType.SLICE, OperationType.TFLITE_SLICE))


def bind_copy(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds operations whose elements keep their order."""
    operand = call.operand("output")
    if operand.type is OperandType.TENSOR_STRING or call.operand("input").type is not operand.type:
        raise NotBound("the types have no kernel")
    count = math.prod(output_shape(call))
    if count != count_of(call, "input"):
        # The model declares another shape than the input has that only executions know.
        raise NotBound("the output has another number of elements")
    size = count * operand.type.dtype.itemsize
    return [copying_call(call.index("output"), call.index("input"), size)]


def bind_bits(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BITCAST, which copies bytes, unless it makes truth values of others."""
    given, output = call.operand("input"), call.operand("output")
    if given.type is not output.type is OperandType.TENSOR_BOOL8:
        raise NotBound("the types have no kernel")
    size = math.prod(output_shape(call)) * output.type.dtype.itemsize
    if size != count_of(call, "input") * given.type.dtype.itemsize:
        raise NotBound("the output has another size")
    return [copying_call(call.index("output"), call.index("input"), size)]


def bind_view(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds operations whose references return views of their input."""
    index = call.index("input")
    outputs = [number for numbers in call.binding.outputs.values() for number in numbers]
    kind = call.operand("input").type
    expect_equal_types([call.operand("input"), *(scope.operands[number] for number in outputs)])
    if call.binding.type in _SLICES and scope.value(call.index("begin")) is None:
        return [_slice_from(scope, call)]
    # Its elements are never read.
    given = np.empty(call.shape("input"), kind.dtype)
    known = Call(
        call.binding,
        scope.operands,
        lambda number: scope.operands[number].dimensions,
        lambda number: given if number == index else scope.value(number),
    )
    results = DEFINITIONS[call.binding.type].reference(known)
    calls = []
    for output, result in zip(outputs, results, strict=True):
        if not result.size:
            continue
        start, strides = _place_in(given, result)
        calls.append(
            moving_call(
                StridedMove(
                    output=output,
                    given=index,
                    itemsize=kind.dtype.itemsize,
                    shape=result.shape,
                    output_strides=strides_of(result.shape),
                    strides=strides,
                    start=start,
                )
            )
        )
    return calls


def _slice_from(scope: BindingScope, call: Call) -> BoundCall:
    """Returns the call for a slice that begins at unknown indexes."""
    begin, shape, taken = call.operand("begin"), call.shape("input"), output_shape(call)
    sizes = scope.constant(call, "size").tolist()
    if sizes != list(taken):
        raise NotBound("the types have no kernel")
    last = [length - size for length, size in zip(shape, taken, strict=True)]
    part = PlacedPart(
        itemsize=call.operand("input").type.dtype.itemsize,
        whole=shape,
        shape=taken,
        start=call.index("begin"),
        start_type=begin.type,
        is_written=False,
    )
    message = f"{call.name('begin')}: indexes from 0 to {last} are expected"
    return part_moving_call(call.index("output"), call.index("input"), part, message)


def _place_in(whole: Array, view: Array) -> tuple[int, tuple[int, ...]]:
    """Returns the first element of a view of a dense array, and its strides, in elements.

    Raises:
        NotBound: it is not a view.
    """
    size = whole.itemsize
    start = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    if not 0 <= start < whole.nbytes or not np.may_share_memory(whole, view):
        raise NotBound("the reference has copied elements")
    return start // size, tuple(step // size for step in view.strides)


def bind_concatenation(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONCATENATION, also of bytes with other scales, and PACK, which ignores scales."""
    output, shape, operand = call.index("output"), output_shape(call), call.operand("output")
    is_packed = call.binding.type in (OperationType.PACK, OperationType.TFLITE_PACK)
    if is_packed:
        from neurald.hal.operations.movement.tiling import pack_axis

        axis = pack_axis(call)
    else:
        from neurald.hal.operations.movement.concatenation import concatenation_axis

        axis = concatenation_axis(call)
    strides, itemsize, first, calls = strides_of(shape), operand.type.dtype.itemsize, 0, []
    for index, given in zip(call.indexes("inputs"), call.shapes("inputs"), strict=True):
        own = (*given[:axis], 1, *given[axis:]) if is_packed else given
        start, first = first * strides[axis], first + own[axis]
        if not math.prod(own):
            continue
        argument: int | BoundTemporary = index
        part = scope.operands[index]
        is_rescaled = (part.scale, part.zero_point) != (operand.scale, operand.zero_point) and not is_packed
        if is_rescaled and part.type in BYTES:
            argument = BoundTemporary(size_bytes=math.prod(own))
            calls.append(_rescaling(scope, argument, index, operand, math.prod(own)))
        elif not is_packed:
            expect_equal_types([operand, part])
        calls.append(
            moving_call(
                StridedMove(
                    output=output,
                    given=argument,
                    itemsize=itemsize,
                    shape=own,
                    output_strides=strides,
                    strides=strides_of(own),
                    output_start=start,
                )
            )
        )
    return calls


def _rescaling(
    scope: BindingScope, result: BoundTemporary, index: int, output: Operand, count: int
) -> BoundCall:
    """Returns the call that converts bytes to an output's scale."""
    from neurald.drivers.cpu.first_tier.binding.elementwise.tables import lookup_call  # few models
    from neurald.hal.operations.movement.concatenation import rescale

    part = scope.operands[index]

    def make() -> BoundConstant:
        every = np.arange(256, dtype=np.uint8).view(part.type.dtype)
        return BoundConstant.of(rescale(every, part, output).view(np.uint8))

    key = "rescale", part.type, part.scale, part.zero_point, output.scale, output.zero_point
    return lookup_call(result, index, "lookup_1_1", scope.shared(key, make), count)


def bind_update(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DYNAMIC_UPDATE_SLICE: copies the input, and replaces a part of it."""
    operand, update = call.operand("input"), call.operand("update")
    expect_equal_types([operand, update, call.operand("output")])
    output, shape, itemsize = call.index("output"), call.shape("input"), operand.type.dtype.itemsize
    part = PlacedPart(
        itemsize=itemsize,
        whole=shape,
        shape=call.shape("update"),
        start=call.index("start"),
        start_type=call.operand("start").type,
        is_written=True,
    )
    return [
        copying_call(output, call.index("input"), math.prod(shape) * itemsize),
        part_moving_call(output, call.index("update"), part, message=""),
    ]


def bind_tile(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds TILE and BROADCAST_TO."""
    given, shape = call.shape("input"), output_shape(call)
    expect_equal_types([call.operand("output"), call.operand("input")])
    is_broadcast = call.binding.type is OperationType.TFLITE_BROADCAST_TO
    # The model may declare another shape than that which only executions know.
    if len(given) > len(shape) or any(
        length not in (1, whole) if is_broadcast else whole % length
        for length, whole in zip(reversed(given), reversed(shape), strict=not is_broadcast)
    ):
        raise NotBound("the output is not a multiple of the input")
    if is_broadcast:
        lengths, steps, targets = shape, repeated_strides(given, shape), strides_of(shape)
    else:
        pairs = zip(given, shape, strict=True)
        lengths = tuple(chain.from_iterable((whole // max(1, length), length) for length, whole in pairs))
        steps = list(chain.from_iterable((0, step) for step in strides_of(given)))
        targets = list(
            chain.from_iterable(
                (step * length, step) for step, length in zip(strides_of(shape), given, strict=True)
            )
        )
    itemsize = call.operand("output").type.dtype.itemsize
    return [
        moving_call(
            StridedMove(
                output=call.index("output"),
                given=call.index("input"),
                itemsize=itemsize,
                shape=lengths,
                output_strides=targets,
                strides=steps,
            )
        )
    ]


def bind_blocks(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SPACE_TO_DEPTH, DEPTH_TO_SPACE and CHANNEL_SHUFFLE: transpositions of blocks."""
    expect_equal_types([call.operand("output"), call.operand("input")])
    given, shape = call.shape("input"), output_shape(call)
    array = np.empty(given, call.operand("input").type.dtype)
    if call.binding.type is OperationType.CHANNEL_SHUFFLE:
        from neurald.hal.operations.movement.transpose import shuffled_groups

        axis, groups = shuffled_groups(call)
        blocks = array.reshape(*given[:axis], groups, given[axis] // groups, *given[axis + 1 :])
        view = blocks.swapaxes(axis, axis + 1)
    else:
        from neurald.hal.operations.machinery.layout import is_nchw  # Few models have such operations.

        if is_nchw(call):
            raise NotBound("the layout is NCHW")
        size = int(call.scalar("block_size"))
        is_to_depth = shape[1] < given[1] or shape[2] < given[2]
        height, width = (shape if is_to_depth else given)[1:3]
        lengths = (
            (given[0], height, size, width, size, given[3])
            if is_to_depth
            else (given[0], height, width, size, size, shape[3])
        )
        view = array.reshape(lengths).transpose(0, 1, 3, 2, 4, 5)
    start, strides = _place_in(array, view)
    return [
        moving_call(
            StridedMove(
                output=call.index("output"),
                given=call.index("input"),
                itemsize=array.itemsize,
                shape=view.shape,
                output_strides=strides_of(view.shape),
                strides=strides,
                output_start=0,
                start=start,
            )
        )
    ]


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    **bound_by(
        bind_copy,
        "RESHAPE",
        "SQUEEZE",
        "EXPAND_DIMS",
        "TFLITE_RESHAPE",
        "TFLITE_EXPAND_DIMS",
        "TFLITE_SQUEEZE",
    ),
    **bound_by(
        bind_view,
        "TRANSPOSE",
        "TFLITE_TRANSPOSE",
        "SLICE",
        "TFLITE_SLICE",
        "STRIDED_SLICE",
        "TFLITE_STRIDED_SLICE",
        "SPLIT",
        "TFLITE_SPLIT",
        "TFLITE_SPLIT_V",
        "TFLITE_UNPACK",
        "REVERSE",
        "TFLITE_REVERSE_V2",
    ),
    **bound_by(bind_concatenation, "CONCATENATION", "TFLITE_CONCATENATION", "PACK", "TFLITE_PACK"),
    **bound_by(bind_bits, "TFLITE_BITCAST"),
    **bound_by(bind_update, "TFLITE_DYNAMIC_UPDATE_SLICE"),
    **bound_by(bind_tile, "TILE", "TFLITE_TILE", "TFLITE_BROADCAST_TO"),
    **bound_by(
        bind_blocks,
        "SPACE_TO_DEPTH",
        "DEPTH_TO_SPACE",
        "TFLITE_SPACE_TO_DEPTH",
        "TFLITE_DEPTH_TO_SPACE",
        "CHANNEL_SHUFFLE",
    ),
}
