"""Calls of the kernels that copy elements between places in memory."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.nest import (
    Loop,
    merged_loops,
    nest,
    strides_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK, LINE_BYTES, TRANSPOSED
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.records import replace

#: How many words of 32 bits an index of a part has.
_INDEX_WORDS: Final = {OperandType.TENSOR_INT32: 1, OperandType.TENSOR_INT64: 2}
#: Estimated time of a run, and elements that it moves per nanosecond.
_RUN_NS: Final = 2.0
ELEMENTS_PER_NS: Final = 4
#: Sizes of the elements that kernels move.
_ITEMSIZES: Final = (1, 2, 4, 8)
#: Size of the largest element, and of the longest lines whose elements are joined to larger ones.
MAX_ELEMENT_BYTES: Final = 8
_MAX_JOINED_BYTES: Final = 32
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
        output_start, start: where the first elements are in the output and in the input.
        count: see `nest`.

    Raises:
        NotBound: there is no kernel.
    """
    if count is None and itemsize in _ITEMSIZES:
        loops = merged_loops(shape, (output_strides, strides))
        factor = _joined(loops, itemsize, output_start, start)
        if factor > 1:
            return moving_call(
                output,
                given,
                itemsize * factor,
                *_of_joined(loops, factor),
                output_start // factor,
                start // factor,
            )
        transposed = _transposing_call(output, given, itemsize, loops, output_start, start)
        if transposed is not None:
            return transposed
    return _strided_call(output, given, itemsize, shape, output_strides, strides, output_start, start, count)


def _strided_call(
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
    """Implements `moving_call` by the kernel for all strides, with elements as they are."""
    if itemsize not in _ITEMSIZES:
        raise NotBound("the type has no kernel")
    words, work_items = nest(shape, (output_strides, strides), count, any_order=count is None)
    return BoundCall(
        function=f"first_move_{itemsize}",
        arguments=(output, given),
        words=(*words, output_start, start),
        work_items=work_items,
        cost_ns=math.prod(shape) / ELEMENTS_PER_NS,
    )


def _joined(loops: Sequence[Loop], itemsize: int, output_start: int, start: int) -> int:
    """Returns how many neighbours of short lines can be moved as one element.

    Args:
        loops: over the elements; the inner one is a line.
        itemsize, output_start, start: see `moving_call`.
    """
    if not loops or loops[-1][1] != (1, 1) or loops[-1][0] * itemsize > _MAX_JOINED_BYTES:
        return 1
    steps = [step for _, steps in loops[:-1] for step in steps]
    common = math.gcd(loops[-1][0], output_start, start, *steps)
    # The largest power of two among its divisors.
    return min(common & -common, MAX_ELEMENT_BYTES // itemsize)


def _of_joined(loops: Sequence[Loop], factor: int) -> tuple[Shape, list[int], list[int]]:
    """Returns the shape and the strides of the output and the input for joined elements."""
    length = loops[-1][0] // factor
    shape = (*(each for each, _ in loops[:-1]), length)
    outer = [[steps[number] // factor for _, steps in loops[:-1]] for number in range(2)]
    return shape, [*outer[0], 1], [*outer[1], 1]


def _transposing_call(
    output: int | BoundTemporary,
    given: int | BoundConstant | BoundTemporary,
    itemsize: int,
    loops: Sequence[Loop],
    output_start: int,
    start: int,
) -> BoundCall | None:
    """Returns the call that transposes matrices; None for other or small loops.

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
        cost_ns=batches * count * length / ELEMENTS_PER_NS,
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
        operand: the operand of the elements.
        whole, part: the shapes of the operand that the part belongs to, and of the part.
        start: the operand with the index of the part along each axis.
        start_type: the type of the indexes.
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
    # The kernel counts the index in elements, so that these cannot be joined.
    moved = _strided_call(output, given, operand.type.dtype.itemsize, part, to, source)
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
    return run_table_call(output, given, itemsize, BoundConstant.of(table), length)


def run_table_call(output: int, given: int, itemsize: int, table: BoundConstant, length: int) -> BoundCall:
    """Returns the call that moves runs of elements by a table of their places."""
    runs = table.shape[0]
    return BoundCall(
        function="first_runs",
        arguments=(output, given, table),
        words=(length * itemsize, itemsize),
        work_items=runs,
        cost_ns=runs * _RUN_NS + runs * length / ELEMENTS_PER_NS,
    )


def expect_equal_types(operands: Sequence[Operand]) -> None:
    """Raises NotBound if operands differ in more than their shapes, or have strings."""
    first = operands[0]
    if first.type is OperandType.TENSOR_STRING or any(
        (each.type, each.scale, each.zero_point) != (first.type, first.scale, first.zero_point)
        for each in operands
    ):
        raise NotBound("the types differ")
