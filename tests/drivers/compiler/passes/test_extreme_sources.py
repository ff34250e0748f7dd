"""Extremes of values that only move or pad others are those of the others."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    constant,
    load,
    maximum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.op import EXTREMES, Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.extreme_sources import take_extremes_of_sources


def transposed(b: GraphBuilder, value: Value, order: Sequence[int]) -> Value:
    shape = tuple(value.shape[each] for each in order)
    return b.compute(shape, lambda *at: load(value, tuple(at[order.index(n)] for n in range(len(order)))))


def padded(b: GraphBuilder, value: Value, dimension: int, number: float = 0.0) -> Value:
    shape = tuple(length + 2 * (each == dimension) for each, length in enumerate(value.shape))

    def body(*at: Expression) -> Expression:
        moved = tuple(each - (n == dimension) for n, each in enumerate(at))
        return load(value, moved, inside(moved, value.shape), constant(number, value.type))

    return b.compute(shape, body)


def limits(b: GraphBuilder, value: Value) -> Value:
    """Returns the range of each row, as hybrid operations need it."""

    def body(row: Expression, side: Expression) -> Expression:
        axes = tuple(axis(length) for length in value.shape[1:])
        number = load(value, (row, *axes))
        signed = select(side.equals(0), -number, number)
        return maximum(reduce(ReductionOp.MAXIMUM_NUMBER, axes, signed), 0.0)

    return b.compute((value.shape[0], 2), body)


def extreme(
    b: GraphBuilder,
    value: Value,
    reduction: ReductionOp,
    dimensions: Sequence[int],
    function: Callable[[Expression], Expression] = lambda each: each,
) -> Value:
    kept = [each for each in range(len(value.shape)) if each not in dimensions]

    def body(*at: Expression) -> Expression:
        axes = {each: axis(value.shape[each]) for each in dimensions}
        position = tuple(axes[n] if n in axes else at[kept.index(n)] for n in range(len(value.shape)))
        return reduce(reduction, tuple(axes.values()), function(load(value, position)))

    return b.compute(tuple(value.shape[each] for each in kept), body)


def is_taken_of(graph: Graph, source: Value) -> bool:
    """Returns True if the pass changes the graph so that its last node reads only this value."""
    is_changed = changes(graph, take_extremes_of_sources)
    assert not changes(graph, take_extremes_of_sources)
    return is_changed and graph.nodes[-1].inputs == (source,)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_range_of_a_padded_and_transposed_sequence_is_that_of_the_sequence(rows: int) -> None:
    b = GraphBuilder()
    source = b.input(rows, 1, 7, 5)
    channels = b.reshape(transposed(b, source, (0, 3, 1, 2)), (rows, 5, 7))
    image = b.reshape(padded(b, channels, 2), (rows, 5, 1, 9))
    output = limits(b, transposed(b, image, (0, 2, 3, 1)))
    assert is_taken_of(b.finish(output), source)


@pytest.mark.parametrize("reduction", sorted(EXTREMES, key=str))
@pytest.mark.parametrize("number", [-9.0, 0.0, 9.0])
def test_padding_takes_part(reduction: ReductionOp, number: float) -> None:
    b = GraphBuilder()
    source = b.input(3, 4)
    assert is_taken_of(b.finish(extreme(b, padded(b, source, 1, number), reduction, (0, 1))), source)


def test_padding_takes_part_as_the_function_of_it() -> None:
    b = GraphBuilder()
    source = b.input(3, 4)
    padding = padded(b, padded(b, source, 1, 8.0), 0, -9.0)
    magnitudes = extreme(b, padding, ReductionOp.MAXIMUM, (0, 1), lambda each: apply(Op.ABSOLUTE, each))
    assert is_taken_of(b.finish(magnitudes), source)


def test_dimensions_that_are_not_reduced_stay() -> None:
    b = GraphBuilder()
    source = b.input(2, 3, 4)
    assert is_taken_of(
        b.finish(extreme(b, transposed(b, source, (2, 0, 1)), ReductionOp.MINIMUM, (0, 2))), source
    )


def test_integers_of_a_reshaped_value() -> None:
    b = GraphBuilder()
    source = b.input(2, 12, type=Scalar.INT32)
    view = b.reshape(source, (2, 3, 4))
    assert is_taken_of(b.finish(extreme(b, view, ReductionOp.MAXIMUM, (1, 2))), source)


def test_rows_that_a_reshape_splits_are_kept() -> None:
    b = GraphBuilder()
    view = b.reshape(b.input(2, 12), (4, 6))
    assert not changes(b.finish(extreme(b, view, ReductionOp.MAXIMUM, (1,))), take_extremes_of_sources)


def test_padded_rows_are_kept() -> None:
    b = GraphBuilder()
    rows = padded(b, b.input(3, 4), 0)
    assert not changes(b.finish(extreme(b, rows, ReductionOp.MAXIMUM, (1,))), take_extremes_of_sources)


def test_diagonals_are_kept() -> None:
    b = GraphBuilder()
    image = transposed(b, b.input(4, 4), (1, 0))

    def body() -> Expression:
        along = axis(4)
        return reduce(ReductionOp.MAXIMUM, (along,), load(image, (along, along)))

    assert not changes(b.finish(b.compute((), body)), take_extremes_of_sources)


def test_elements_that_depend_on_their_index_are_kept() -> None:
    b = GraphBuilder()
    image = transposed(b, b.input(3, 4), (1, 0))

    def body() -> Expression:
        row, column = axis(4, "r"), axis(3, "c")
        number = select(row.equals(2), 9.0, load(image, (row, column)))
        return reduce(ReductionOp.MAXIMUM, (row, column), number)

    assert not changes(b.finish(b.compute((), body)), take_extremes_of_sources)


def test_sums_of_floats_keep_their_order() -> None:
    b = GraphBuilder()
    image = transposed(b, b.input(3, 4), (1, 0))
    assert not changes(b.finish(extreme(b, image, ReductionOp.SUM, (0, 1))), take_extremes_of_sources)


def test_functions_of_padding_that_are_no_number_are_left_out() -> None:
    b = GraphBuilder()
    source = b.input(3, 4)
    output = extreme(
        b, padded(b, source, 1, -1.0), ReductionOp.MAXIMUM_NUMBER, (0, 1), lambda each: apply(Op.LOG, each)
    )
    graph = b.finish(output)
    take_extremes_of_sources(graph)
    (largest,) = evaluate(graph, [np.full((3, 4), np.e, np.float32)])
    assert largest == pytest.approx(1)
