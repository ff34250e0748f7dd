"""Costs of kernels: what is dear, what is free, and orders of axes."""

from neurald.drivers.compiler.ir.expression import Axis, Expression, apply, axis, load, select
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.evaluation_cost import (
    START_COST,
    evaluation_cost,
    index_range,
    memory_order,
    range_fraction,
)

SOURCE = Value((64, 64), Scalar.FLOAT32)


def kernel(body: Expression, *axes: Axis) -> Kernel:
    shape = tuple(each.extent for each in axes)
    return Kernel(output=Value(shape, body.type), axes=axes, body=body)


def element_cost(body: Expression, *axes: Axis) -> float:
    found = kernel(body, *axes)
    return (evaluation_cost(found) - START_COST) / found.output.count


def test_operations_and_order_cost() -> None:
    i, j = axis(64), axis(64)
    copied = element_cost(load(SOURCE, (i, j)), i, j)
    assert copied < element_cost(load(SOURCE, (i, j)) + 1.0, i, j)
    assert element_cost(load(SOURCE, (i, j)) + 1.0, i, j) < element_cost(
        apply(Op.TANH, load(SOURCE, (i, j))), i, j
    )
    near = element_cost(load(SOURCE, (i, j % 2 * 32 + j // 2)), i, j)
    far = element_cost(load(SOURCE, (j, i)), i, j)
    assert copied < near < far


def test_expressions_that_are_used_twice_are_computed_once() -> None:
    i, j = axis(64), axis(64)
    number = apply(Op.TANH, load(SOURCE, (i, j)))
    once = element_cost(number + 1.0, i, j)
    assert element_cost(number * number, i, j) == once


def test_parts_of_a_concatenation_cost_their_share() -> None:
    i, j, half = axis(64), axis(64), Value((64, 32), Scalar.FLOAT32)
    other = load(half, (i, j - 32), j >= 32, 0)
    both = element_cost(load(half, (i, j), j < 32, other), i, j)
    assert both == element_cost(load(SOURCE, (i, j)), i, j)
    is_even = (j % 2).equals(0)
    single = load(half, (i, j // 2), is_even, load(half, (i, j // 2)))
    assert element_cost(single, i, j) > both


def test_expensive_parts_cost_their_share() -> None:
    i, j = axis(64), axis(64)
    number, plain = apply(Op.TANH, load(SOURCE, (i, j))), load(SOURCE, (i, j))
    whole, half = element_cost(number, i, j), element_cost(select(j < 32, number, plain), i, j)
    assert element_cost(plain, i, j) < half < whole


def test_ranges() -> None:
    i, j = axis(40), axis(64)
    assert range_fraction(i < 10, None) == 0.25
    assert range_fraction((i >= 10) & (i < 30), None) == 0.5
    assert range_fraction((i < 20) & (j < 32), None) == 0.25
    assert range_fraction((i < 10) & (i >= 20), None) == 0
    assert range_fraction((j % 2).equals(0), None) is None
    # Short ranges take whole vectors.
    assert range_fraction(j < 3, j) == 0.25
    assert range_fraction(j < 3, i) == 3 / 64
    assert index_range(i - 5 < 3) == (i, 0, 7)
    assert index_range((i * 3).__ge__(7)) == (i, 3, 39)
    assert index_range(i + j < 4) is None


def test_memory_order() -> None:
    i, j, k = axis(4), axis(5), axis(6)
    source = Value((4, 6, 5), Scalar.FLOAT32)
    assert memory_order(kernel(load(source, (i, k, j)), i, j, k)) == (i, k, j)
    assert memory_order(kernel(load(source, (i, k, j)), i, k, j)) is None
    one = axis(1)
    assert memory_order(kernel(load(source, (i, k, j)), i, one, j, k)) == (one, i, k, j)
    # A shuffled axis keeps its place.
    shuffled = load(source, (i, k % 2 * 3 + k // 2, j))
    assert memory_order(kernel(shuffled, k, i, j)) == (i, k, j)
    flat = Value((120,), Scalar.FLOAT32)
    assert memory_order(kernel(load(flat, ((i * 23 + j * 5 + k) // 2,)), k, i, j)) is None


def test_memory_order_where_an_axis_is_estimated_to_have_one_element() -> None:
    (length,) = ExtentScope([2]).symbols
    i, j = axis(length - 1), axis(5)
    source = Value((5, length - 1), Scalar.FLOAT32)
    assert memory_order(kernel(load(source, (j, i)), i, j)) == (j, i)
