"""Binds operations that only move elements: transpositions, slices, concatenations and others.

Most of them copy between views of their operands, which NumPy finds in arrays that nobody reads.
For others it is found out by the operation's reference, on the numbers of the elements in the place
of their values, which element goes where.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.nest import (
    Loop,
    merged_loops,
    nest,
    repeated_strides,
    strides_of,
)
from neurald.drivers.cpu.first_tier.binding.scope import BYTES, BindingScope, count_of, output_shape
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK, LINE_BYTES, TRANSPOSED
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.records import replace

#: Maximum number of elements of the inputs, whose numbers must be exact in 32 bits.
_MAX_ELEMENTS: Final = 1 << 24
#: Added to all numbers, to see whether the operation computes with them.
_DISTANCE: Final = 1 << 25
_MAX_INT32: Final = (1 << 31) - 1
#: How many words of 32 bits an index of a part has.
_INDEX_WORDS: Final = {OperandType.TENSOR_INT32: 1, OperandType.TENSOR_INT64: 2}
_SLICES: Final = frozenset((OperationType.SLICE, OperationType.TFLITE_SLICE))
#: Estimated time of a run, and elements that it moves per nanosecond.
_RUN_NS: Final = 2.0
_ELEMENTS_PER_NS: Final = 4
#: Estimated bytes that a copy moves per nanosecond.
_BYTES_PER_NS: Final = 32


def copying_call(output: int | BoundTemporary, given: int | BoundConstant, size_bytes: int) -> BoundCall:
    """Returns the call that copies bytes."""
    return BoundCall(
        function="first_copy",
        arguments=(output, given),
        words=(size_bytes,),
        work_items=-(-size_bytes // BLOCK),
        cost_ns=size_bytes / _BYTES_PER_NS,
    )


def moving_call(
    output: int | BoundTemporary,
    given: int | BoundConstant | BoundTemporary,
    itemsize: int,
    shape: Shape,
    output_strides: Sequence[int],
    strides: Sequence[int],
    output_start: int = 0,
    start: int = 0,
    count: int | None = None,
) -> BoundCall:
    """Returns the call that copies elements between an output and an input with strides.

    Args:
        output, given: where to, and from where.
        itemsize: size of an element in bytes.
        shape: number of elements along each dimension, none of which is 0.
        output_strides, strides: elements from one to the next.
        output_start, start: of the first elements.
        count: see `nest`.

    Raises:
        NotBound: there is no kernel.
    """
    if itemsize not in (1, 2, 4, 8):
        raise NotBound("the type has no kernel")
    if count is None:
        loops = merged_loops(shape, (output_strides, strides))
        transposed = _transposing_call(output, given, itemsize, loops, output_start, start)
        if transposed is not None:
            return transposed
    words, work_items = nest(shape, (output_strides, strides), count, any_order=count is None)
    return BoundCall(
        function=f"first_move_{itemsize}",
        arguments=(output, given),
        words=(*words, output_start, start),
        work_items=work_items,
        cost_ns=math.prod(shape) / _ELEMENTS_PER_NS,
    )


def _transposing_call(
    output: int | BoundTemporary,
    given: int | BoundConstant | BoundTemporary,
    itemsize: int,
    loops: Sequence[Loop],
    output_start: int,
    start: int,
) -> BoundCall | None:
    """Returns the call that transposes matrices; None if loops do something else, or they are small.

    Args:
        output, given, itemsize, output_start, start: see `moving_call`.
        loops: over the elements.
    """
    size = TRANSPOSED.get(itemsize)
    rows = [loop for loop in loops if loop[1][0] == 1]
    columns = [loop for loop in loops if loop[1][1] == 1]
    if size is None or len(rows) != 1 or len(columns) != 1 or rows == columns or len(loops) > 3:
        return None
    ((count, (_, step)),), ((length, (output_step, _)),) = rows, columns
    if min(count, length) < size or not (step and output_step):
        return None
    batches, strides = next((loop for loop in loops if loop not in (rows[0], columns[0])), (1, (0, 0)))
    blocks = -(-count * itemsize // LINE_BYTES)
    return BoundCall(
        function=f"first_transpose_{itemsize}",
        arguments=(output, given),
        words=(count, length, output_step, step, output_start, start, *strides, blocks),
        work_items=batches * blocks,
        cost_ns=batches * count * length / _ELEMENTS_PER_NS,
    )


def part_moving_call(
    output: int,
    given: int,
    operand: Operand,
    whole: Shape,
    part: Shape,
    start: int,
    start_type: OperandType,
    *,
    is_written: bool,
    message: str,
) -> BoundCall:
    """Returns the call that copies a part, whose place is only known when it runs.

    Args:
        output, given: where to, and from where.
        operand: of the elements.
        whole, part: the shapes of the operand that the part belongs to, and of the part.
        start: the operand with the index of the part along each axis.
        start_type: of the indexes.
        is_written: True if the part belongs to the output, False if it belongs to the input.
        message: the error if the part exceeds the operand; "" moves it inside instead.

    Raises:
        NotBound: there is no kernel.
    """
    if not part or not math.prod(part):
        raise NotBound("the part has no elements")
    if start_type not in _INDEX_WORDS:
        raise NotBound("the indexes have a type without a kernel")
    strides, own = strides_of(whole), strides_of(part)
    to, source = (strides, own) if is_written else (own, strides)
    moved = moving_call(output, given, operand.type.dtype.itemsize, part, to, source)
    axes = [
        (length - taken, stride if is_written else 0, 0 if is_written else stride)
        for length, taken, stride in zip(whole, part, strides, strict=True)
    ]
    return replace(
        moved,
        function=moved.function.replace("first_move", "first_move_part"),
        arguments=(*moved.arguments, start, BoundConstant.of(np.array(axes, np.int64))),
        words=(*moved.words, len(axes), int(bool(message)), _INDEX_WORDS[start_type]),
        messages=(message,) if message else (),
    )


def expect_equal_types(operands: Sequence[Operand]) -> None:
    """Raises NotBound if operands differ in more than their shapes, or have strings."""
    first = operands[0]
    if first.type is OperandType.TENSOR_STRING or any(
        (each.type, each.scale, each.zero_point) != (first.type, first.scale, first.zero_point)
        for each in operands
    ):
        raise NotBound("the types differ")


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
                output, index, kind.dtype.itemsize, result.shape, strides_of(result.shape), strides, 0, start
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
    return part_moving_call(
        call.index("output"),
        call.index("input"),
        call.operand("input"),
        shape,
        taken,
        call.index("begin"),
        begin.type,
        is_written=False,
        message=f"{call.name('begin')}: indexes from 0 to {last} are expected",
    )


def _place_in(whole: Array, view: Array) -> tuple[int, tuple[int, ...]]:
    """Returns the first element of a view of a dense array, and its strides, in elements.

    Raises:
        NotBound: it is no view.
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
        calls.append(moving_call(output, argument, itemsize, own, strides, strides_of(own), start))
    return calls


def _rescaling(
    scope: BindingScope, result: BoundTemporary, index: int, output: Operand, count: int
) -> BoundCall:
    """Returns the call that converts bytes to an output's scale."""
    from neurald.hal.operations.movement.concatenation import rescale

    part = scope.operands[index]

    def make() -> BoundConstant:
        every = np.arange(256, dtype=np.uint8).view(part.type.dtype)
        return BoundConstant.of(rescale(every, part, output).view(np.uint8))

    key = "rescale", part.type, part.scale, part.zero_point, output.scale, output.zero_point
    return BoundCall(
        function="first_lookup",
        arguments=(result, index, scope.shared(key, make)),
        words=(count,),
        work_items=-(-count // BLOCK),
        cost_ns=count / _ELEMENTS_PER_NS,
    )


def bind_update(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DYNAMIC_UPDATE_SLICE: copies the input, and replaces a part of it."""
    operand, part, start = (call.operand(name) for name in ("input", "update", "start"))
    expect_equal_types([operand, part, call.operand("output")])
    output, shape = call.index("output"), call.shape("input")
    return [
        copying_call(output, call.index("input"), math.prod(shape) * operand.type.dtype.itemsize),
        part_moving_call(
            output,
            call.index("update"),
            operand,
            shape,
            call.shape("update"),
            call.index("start"),
            start.type,
            is_written=True,
            message="",
        ),
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
        raise NotBound("the output is no multiple of the input")
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
    return [moving_call(call.index("output"), call.index("input"), itemsize, lengths, targets, steps)]


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
            call.index("output"),
            call.index("input"),
            array.itemsize,
            view.shape,
            strides_of(view.shape),
            strides,
            0,
            start,
        )
    ]


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
    return [_run_call(call.index("output"), call.index("input"), itemsize, table, run)]


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


def running_call(output: int, given: int, itemsize: int, sources: Array, places: Array) -> BoundCall:
    """Returns the call that moves runs of elements.

    Args:
        output, given: where to, and from where.
        itemsize: size of an element in bytes.
        sources, places: numbers of elements of the input and the output.
    """
    is_start = np.ones(len(sources), bool)
    is_start[1:] = (np.diff(sources) != 1) | (np.diff(places) != 1)
    starts = np.flatnonzero(is_start)
    # All runs have the same length.
    length = int(np.gcd.reduce(np.diff(starts, append=len(sources))))
    table = np.stack((places[::length], sources[::length]), axis=1).astype(np.int32)
    return _run_call(output, given, itemsize, BoundConstant.of(table), length)


def _run_call(output: int, given: int, itemsize: int, table: BoundConstant, length: int) -> BoundCall:
    """Returns the call that moves runs of elements, whose places in output and input are in a table."""
    if itemsize not in (1, 2, 4, 8):
        raise NotBound("the type has no kernel")
    runs = table.shape[0]
    return BoundCall(
        function=f"first_runs_{itemsize}",
        arguments=(output, given, table),
        words=(length,),
        work_items=runs,
        cost_ns=runs * _RUN_NS + runs * length / _ELEMENTS_PER_NS,
    )


_Bind = Callable[[BindingScope, Call], list[BoundCall]]


def _named(bind: _Bind, *names: str) -> dict[OperationType, _Bind]:
    return {OperationType[name]: bind for name in names}


BINDINGS: Final[Mapping[OperationType, _Bind]] = {
    **_named(
        bind_copy,
        "RESHAPE",
        "SQUEEZE",
        "EXPAND_DIMS",
        "TFLITE_RESHAPE",
        "TFLITE_EXPAND_DIMS",
        "TFLITE_SQUEEZE",
    ),
    **_named(
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
    **_named(bind_concatenation, "CONCATENATION", "TFLITE_CONCATENATION", "PACK", "TFLITE_PACK"),
    **_named(bind_bits, "TFLITE_BITCAST"),
    **_named(bind_update, "TFLITE_DYNAMIC_UPDATE_SLICE"),
    **_named(bind_tile, "TILE", "TFLITE_TILE", "TFLITE_BROADCAST_TO"),
    **_named(
        bind_blocks,
        "SPACE_TO_DEPTH",
        "DEPTH_TO_SPACE",
        "TFLITE_SPACE_TO_DEPTH",
        "TFLITE_DEPTH_TO_SPACE",
        "CHANNEL_SHUFFLE",
    ),
    **_named(bind_mirror, "MIRROR_PAD", "TFLITE_MIRROR_PAD"),
    **_named(bind_nearest, "RESIZE_NEAREST_NEIGHBOR", "TFLITE_RESIZE_NEAREST_NEIGHBOR"),
    **_named(
        bind_numbered,
        "BATCH_TO_SPACE_ND",
        "SPACE_TO_BATCH_ND",
        "TFLITE_BATCH_TO_SPACE_ND",
        "TFLITE_SPACE_TO_BATCH_ND",
        "TFLITE_REVERSE_SEQUENCE",
    ),
}
