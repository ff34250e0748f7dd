"""Loops over work items visit each one of a range once, in the order of the range."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from support.cpu.native import RUNNABLE, compiled, run

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import function_text
from neurald.drivers.cpu.kernels.common.work_items import each_rectangle, each_work_item
from neurald.drivers.cpu.target.routine import Routine


def numbering(extents: Sequence[int], shared_order: Sequence[int] | None) -> Routine:
    """Returns a routine that stores the number of each work item in its range."""
    code = Instructions(())
    output = Value(tuple(extents), Scalar.INT32)
    with each_work_item(code, extents, shared_order) as (position, number):
        terms = (
            multiple(code, index, 4 * math.prod(extents[dimension + 1 :]))
            for dimension, index in enumerate(position)
        )
        to = address(code, "%a0", total(code, *terms))
        code.effect(f"store i32 {code.value(f'trunc i64 {number} to i32')}, ptr {to}")
    return Routine(
        text=function_text(code, (output,)),
        arguments=(output,),
        work_items=math.prod(extents),
        cost_ns=1.0,
        label="numbering",
    )


@pytest.mark.parametrize(
    ("extents", "shared_order"),
    [
        ((3, 4, 5), None),
        ((3, 4, 5), (2, 0, 1)),
        ((2, 1, 7, 3), (0, 3, 1, 2)),
        ((1, 6), (1, 0)),
        ((1,), None),
    ],
)
def test_order(extents: tuple[int, ...], shared_order: tuple[int, ...] | None) -> None:
    routine = numbering(extents, shared_order)
    count = routine.work_items
    whole, _ = run(routine, {}, RUNNABLE[0], splits=[count])
    np.testing.assert_array_equal(whole, np.arange(count).reshape(extents))
    order = shared_order or range(len(extents))
    for splits in ([1], [count // 2], [count // 3, count // 2, count - 1]):
        bounds = [0, *(each for each in splits if 0 < each < count), count]
        numbers = np.concatenate([np.arange(end - begin) for begin, end in itertools.pairwise(bounds)])
        expected = numbers.reshape([extents[each] for each in order]).transpose(np.argsort(order))
        found, _ = run(routine, {}, RUNNABLE[0], splits=splits)
        np.testing.assert_array_equal(found, expected if len(bounds) > 2 else whole)


def rectangles(outer: int, inner: int) -> Routine:
    """Returns a routine that counts the visits of each work item, and marks the rectangle."""
    code = Instructions(())
    output = Value((outer, inner), Scalar.INT32)
    with (
        each_rectangle(code, inner) as (rows, columns),
        code.loop(*rows, may_be_empty=True) as row,
        code.loop(*columns, may_be_empty=True) as column,
    ):
        to = address(
            code,
            "%a0",
            total(code, multiple(code, row.index, 4 * inner), multiple(code, column.index, 4)),
        )
        known = code.fresh(f"load i32, ptr {to}")
        code.effect(f"store i32 {code.fresh(f'add i32 {known}, 1')}, ptr {to}")
    return Routine(
        text=function_text(code, (output,)),
        arguments=(output,),
        work_items=outer * inner,
        cost_ns=1.0,
        label="rectangles",
    )


@pytest.mark.parametrize(("outer", "inner"), [(5, 4), (1, 6), (7, 1), (3, 2)])
def test_rectangles_of_a_range_have_its_work_items_once(outer: int, inner: int) -> None:
    routine = rectangles(outer, inner)
    count = outer * inner
    functions = compiled([routine], RUNNABLE[0])
    for begin, end in itertools.combinations_with_replacement(range(count + 1), 2):
        splits = [begin, end, end, count]
        found, _ = run(routine, {}, RUNNABLE[0], splits=splits, functions=functions)
        # Memory has other contents than 0 before.
        np.testing.assert_array_equal(found, np.full((outer, inner), 0x55 + 1))
