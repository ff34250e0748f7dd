"""Calls of the kernels that copy elements between places in memory."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

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


class StridedMove(Struct, frozen=True, kw_only=True):
    """Elements that are copied between an output and an input with strides.

    Attributes:
        output, given: where to, and from where.
        itemsize: the size of an element in bytes.
        shape: the number of elements along each dimension, none of which is 0.
        output_strides, strides: elements from one to the next.
        output_start, start: where the first elements are in the output and in the input.
    """

    output: int | BoundTemporary
    given: int | BoundConstant | BoundTemporary
    itemsize: int
    shape: Shape
    output_strides: Sequence[int]
    strides: Sequence[int]
    output_start: int = 0
    start: int = 0


def copying_call(output: int | BoundTemporary, given: int | BoundConstant, size_bytes: int) -> BoundCall:
    """Returns the call that copies bytes."""
    return BoundCall(
        function="first_copy",
        arguments=(output, given),
        words=(size_bytes,),
        work_items=-(-size_bytes // BLOCK),
        cost_ns=size_bytes / _BYTES_PER_NS,
    )


def moving_call(move: StridedMove, *, count: int | None = None) -> BoundCall:
    """Returns the call that copies elements between an output and an input with strides.

    Args:
        move: the elements.
        count: see `nest`.

    Raises:
        NotBound: there is no kernel.
    """
    if count is not None or move.itemsize not in _ITEMSIZES:
        return _strided_call(move, count)
    loops = merged_loops(move.shape, (move.output_strides, move.strides))
    factor = _joined(move, loops)
    if factor > 1:
        move = _of_joined(move, loops, factor)
        loops = merged_loops(move.shape, (move.output_strides, move.strides))
    transposed = _transposing_call(move, loops)
    return _strided_call(move) if transposed is None else transposed


def _strided_call(move: StridedMove, count: int | None = None) -> BoundCall:
    """Returns the call of the kernel for all strides, which moves the elements as they are.

    Args:
        move: the elements.
        count: see `nest`.

    Raises:
        NotBound: the type of the elements has no kernel.
    """
    if move.itemsize not in _ITEMSIZES:
        raise NotBound("the type has no kernel")
    words, work_items = nest(move.shape, (move.output_strides, move.strides), count, any_order=count is None)
    return BoundCall(
        function=f"first_move_{move.itemsize}",
        arguments=(move.output, move.given),
        words=(*words, move.output_start, move.start),
        work_items=work_items,
        cost_ns=math.prod(move.shape) / ELEMENTS_PER_NS,
    )


def _joined(move: StridedMove, loops: Sequence[Loop]) -> int:
    """Returns how many neighbours of short lines can be moved as one element.

    Args:
        move: the elements.
        loops: over the elements; the inner one is a line.
    """
    if not loops or loops[-1][1] != (1, 1) or loops[-1][0] * move.itemsize > _MAX_JOINED_BYTES:
        return 1
    steps = [step for _, steps in loops[:-1] for step in steps]
    common = math.gcd(loops[-1][0], move.output_start, move.start, *steps)
    # The largest power of two among its divisors.
    return min(common & -common, MAX_ELEMENT_BYTES // move.itemsize)


def _of_joined(move: StridedMove, loops: Sequence[Loop], factor: int) -> StridedMove:
    """Returns the move whose elements are as many neighbours as the factor says."""
    length = loops[-1][0] // factor
    outer = [[steps[number] // factor for _, steps in loops[:-1]] for number in range(2)]
    return replace(
        move,
        itemsize=move.itemsize * factor,
        shape=(*(each for each, _ in loops[:-1]), length),
        output_strides=(*outer[0], 1),
        strides=(*outer[1], 1),
        output_start=move.output_start // factor,
        start=move.start // factor,
    )


def _transposing_call(move: StridedMove, loops: Sequence[Loop]) -> BoundCall | None:
    """Returns the call that transposes matrices; None for other or small loops.

    Args:
        move: the elements.
        loops: over the elements.
    """
    size = TRANSPOSED.get(move.itemsize)
    rows = [loop for loop in loops if loop[1][0] == 1]
    columns = [loop for loop in loops if loop[1][1] == 1]
    if size is None or len(rows) != 1 or len(columns) != 1 or rows == columns or len(loops) > 3:
        return None
    ((count, (_, step)),), ((length, (output_step, _)),) = rows, columns
    if min(count, length) < size or not (step and output_step):
        return None
    batches, strides = next((loop for loop in loops if loop not in (rows[0], columns[0])), (1, (0, 0)))
    blocks = -(-count * move.itemsize // LINE_BYTES)
    return BoundCall(
        function=f"first_transpose_{move.itemsize}",
        arguments=(move.output, move.given),
        words=(count, length, output_step, step, move.output_start, move.start, *strides, blocks),
        work_items=batches * blocks,
        cost_ns=batches * count * length / ELEMENTS_PER_NS,
    )


class PlacedPart(Struct, frozen=True, kw_only=True):
    """A part of an operand, whose place is only known when it is moved.

    Attributes:
        itemsize: the size of an element in bytes.
        whole, shape: the shapes of the operand and of the part.
        start: the operand with the index of the part along each axis.
        start_type: the type of the indexes.
        is_written: True if the part belongs to the output, False if it belongs to the input.
    """

    itemsize: int
    whole: Shape
    shape: Shape
    start: int
    start_type: OperandType
    is_written: bool


def part_moving_call(output: int, given: int, part: PlacedPart, message: str) -> BoundCall:
    """Returns the call that copies a part of an operand.

    Args:
        output, given: where to, and from where.
        part: the part.
        message: the error if the part exceeds the operand; "" moves it inside instead.

    Raises:
        NotBound: there is no kernel.
    """
    if not part.shape or not math.prod(part.shape):
        raise NotBound("the part has no elements")
    if part.start_type not in _INDEX_WORDS:
        raise NotBound("the indexes have a type without a kernel")
    strides, own = strides_of(part.whole), strides_of(part.shape)
    to, source = (strides, own) if part.is_written else (own, strides)
    # The kernel counts the index in elements, so that these cannot be joined.
    moved = _strided_call(
        StridedMove(
            output=output,
            given=given,
            itemsize=part.itemsize,
            shape=part.shape,
            output_strides=to,
            strides=source,
        )
    )
    axes = [
        (length - taken, stride if part.is_written else 0, 0 if part.is_written else stride)
        for length, taken, stride in zip(part.whole, part.shape, strides, strict=True)
    ]
    return replace(
        moved,
        function=moved.function.replace("first_move", "first_move_part"),
        arguments=(*moved.arguments, part.start, BoundConstant.of(np.array(axes, np.int64))),
        words=(*moved.words, len(axes), int(bool(message)), _INDEX_WORDS[part.start_type]),
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
