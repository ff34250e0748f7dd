"""Simplified INDEX expressions keep their values, and their bounds contain those."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Expression,
    apply,
    axis,
    clamp,
    constant,
    index,
    maximum,
    minimum,
    reduce,
    select,
    sum_of,
)
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.graph import Compute, delinearize, inside, linearize
from neurald.drivers.compiler.ir.index_arithmetic import constant_difference
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.compiler.ir.value import Shape, Value

Array = np.ndarray[Any, np.dtype[Any]]
#: An expression, and its values for all indices of the axes, by plain arithmetic.
Pair = tuple[Expression, Array]


def evaluated(expression: Expression, axes: tuple[Axis, ...]) -> Array:
    """Returns the expression's values for all indices of the axes."""
    shape = tuple(each.extent for each in axes)
    kind = Scalar.BOOL if expression.type is Scalar.BOOL else Scalar.INT64
    return evaluate_node(Compute(output=Value(shape, kind), axes=axes, body=expression.to(kind)), {})


def axes_and_values(extents: Shape) -> tuple[tuple[Axis, ...], list[Pair]]:
    """Returns axes, each with its values for all indices of the axes."""
    axes = tuple(axis(extent) for extent in extents)
    return axes, list(zip(axes, np.indices(extents), strict=True))


def combine(generator: random.Random, pool: list[Pair]) -> Pair:
    """Combines expressions of the pool to a new one, and their values likewise."""
    (one, here), (other, there) = generator.choice(pool), generator.choice(pool)
    number = generator.choice((-7, -3, -2, -1, 1, 2, 3, 4, 6, 8, 12, 24))
    choices: list[Callable[[], Pair]] = [
        lambda: (one + other, here + there),
        lambda: (one - other, here - there),
        lambda: (one + number, here + number),
        lambda: (number - one, number - here),
        lambda: (-one, -here),
        lambda: (one * number, here * number),
        lambda: (one // number, here // number),
        lambda: (one % number, here % number),
        lambda: (one // number * number + one % number, here),
        lambda: (one // maximum(other, 1), here // np.maximum(there, 1)),
        lambda: (one % maximum(other, 2), here % np.maximum(there, 2)),
        lambda: (one % minimum(other, -1), here % np.minimum(there, -1)),
        lambda: (minimum(one, other), np.minimum(here, there)),
        lambda: (maximum(one, number), np.maximum(here, number)),
        lambda: (clamp(one, 0, 5), np.clip(here, 0, 5)),
        lambda: (select(one < other, one, other + 1), np.where(here < there, here, there + 1)),
        lambda: (select(one.equals(number), other, one), np.where(here == number, there, here)),
        lambda: (select(one.differs(other), 3, one), np.where(here != there, 3, here)),
        lambda: (
            select((one >= other) & (one <= number), one, 0),
            np.where((here >= there) & (here <= number), here, 0),
        ),
        lambda: (one * other, here * there),
    ]
    return generator.choice(choices)()


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_simplified_expressions_equal_plain_arithmetic(generator: random.Random, extents: list[int]) -> None:
    axes, pool = axes_and_values(tuple(extents))
    for _ in range(generator.randrange(1, 14)):
        expression, expected = combine(generator, pool)
        if abs(expected).max() > 2**40:
            continue
        assert (evaluated(expression, axes) == expected).all()
        assert expression.low <= expected.min()
        assert expected.max() <= expression.high
        pool.append((expression, expected))


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_expressions_with_substituted_axes_equal_plain_arithmetic(
    generator: random.Random, extents: list[int]
) -> None:
    """Replaces the axes of expressions by expressions over other axes."""
    inner_axes, pool = axes_and_values(tuple(extents))
    for _ in range(8):
        expression, values = combine(generator, pool)
        if abs(values).max() < 2**40:
            pool.append((expression, values))
    axes, others = axes_and_values((3, 5))
    for _ in range(4):
        others.append(combine(generator, others))
    replacements = [generator.choice(others) for _ in inner_axes]
    mapping: dict[Expression, Expression] = {
        inner: replacement % inner.extent
        for inner, (replacement, _) in zip(inner_axes, replacements, strict=True)
    }
    indices = tuple(
        values % inner.extent for inner, (_, values) in zip(inner_axes, replacements, strict=True)
    )
    for expression, values in pool:
        assert (evaluated(substitute(expression, mapping), axes) == values[indices]).all()


def shape_of(generator: random.Random, factors: list[int]) -> Shape:
    """Returns a random shape whose lengths have this product of factors."""
    shape = [1] * generator.randrange(1, 5)
    for factor in factors:
        shape[generator.randrange(len(shape))] *= factor
    return tuple(shape)


@settings(max_examples=100)
@given(
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from((2, 2, 3, 5)), max_size=6),
    st.integers(1, 3),
)
def test_inverse_reshapes_and_transpositions_cancel(
    generator: random.Random, factors: list[int], steps: int
) -> None:
    """Indices have their original values; after a single step they are the original axes."""
    shape = shape_of(generator, factors)
    axes, expected = axes_and_values(shape)
    at: tuple[Expression, ...] = axes
    undo: list[Callable[[tuple[Expression, ...]], tuple[Expression, ...]]] = []
    for _ in range(steps):
        before, after = shape, shape_of(generator, factors)
        at = delinearize(linearize(at, before), after)
        undo.append(lambda i, a=after, b=before: delinearize(linearize(i, a), b))  # type: ignore[misc]
        order = generator.sample(range(len(after)), len(after))
        shape, at = tuple(after[each] for each in order), tuple(at[each] for each in order)
        undo.append(lambda i, o=order: tuple(i[o.index(n)] for n in range(len(o))))  # type: ignore[misc]
    for step in reversed(undo):
        at = step(at)
    for found, (original, values) in zip(at, expected, strict=True):
        assert found.low == found.high == 0 or found is original or steps > 1
        assert (evaluated(found, axes) == values).all()


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from((2, 2, 3, 5)), max_size=6))
def test_linearize_undoes_delinearize(generator: random.Random, factors: list[int]) -> None:
    shape, other = shape_of(generator, factors), shape_of(generator, factors)
    whole = linearize([axis(length) for length in shape], shape)
    assert linearize(delinearize(whole, other), other) is whole


def test_terms_that_cancel_are_removed() -> None:
    i, j = axis(4), axis(6)
    assert (i * 6 + j) // 6 is i
    assert (i * 6 + j) % 6 is j
    assert (i * 12 + j * 2) // 4 is i * 3 + j // 2
    assert i // 4 is index(0)
    assert (i + 4) // 4 is index(1)
    assert (i * 6 + j) // 2 // 3 is i
    assert j % 4 % 2 is j % 2
    assert j // 4 * 4 + j % 4 is j
    assert minimum(i, 3) is i
    assert maximum(i, 0) is i
    assert clamp(i + j, 0, 8) is i + j
    assert axis(1) + 3 is index(3)
    assert j % 6 // 2 is j // 2
    assert (i + j * 8) % 6 // 2 is ((i + j * 8) // 2) % 3
    assert (j * 2 + axis(2)) // 4 is j // 2
    assert (j * 2 + i % 2) % 4 is j % 2 * 2 + i % 2
    assert (j // 4 * 8 + j) // 4 is j // 4 * 3
    assert (j + i // 2) // 3 is (j * 2 + i) // 6
    assert sum_of({i: 2, i + 1: 3}, 4) is i * 5 + 7


def test_nested_remainders_with_a_variable_divisor_are_kept() -> None:
    # The divisor j + 2 is not only its lower bound, 2.
    axes = axis(9), axis(5)
    i, j = np.indices((9, 5))
    expression = axes[0] % (axes[1] + 2) % 2
    assert (evaluated(expression, axes) == i % (j + 2) % 2).all()


def test_comparisons_decided_by_bounds_are_constants() -> None:
    i, j = axis(4), axis(6)
    true, false = constant(True, Scalar.BOOL), constant(False, Scalar.BOOL)
    assert (i < 4) is true
    assert (i < 0) is false
    assert (i + j >= i) is true
    assert (i + 10).equals(j) is false
    assert i.differs(i + 1) is true
    assert isinstance(i < j, Apply)
    assert ((i < j) & true) is (i < j)
    assert ((i < j) & false) is false
    assert ((i < j) | true) is true
    assert ((i < j) & (i < j)) is (i < j)
    assert ~true is false
    assert inside((i, j), (4, 6)) is true
    assert inside((i - 1, j), (4, 6)) is (i - 1 >= 0)


def test_operations_without_known_bounds_are_not_simplified() -> None:
    axes = (axis(9),)
    (i,) = np.indices((9,))
    distance = apply(Op.ABSOLUTE, axes[0] - 4)
    assert (evaluated(distance // 2, axes) == abs(i - 4) // 2).all()
    assert (evaluated((axes[0] << 2) % 7, axes) == (i << 2) % 7).all()


def test_bounds_of_reductions() -> None:
    axes, along = (axis(4),), axis(5)
    (i,) = np.indices((4,))
    total = reduce(ReductionOp.SUM, (along,), axes[0] + along)
    assert (total.low, total.high) == (0, 35)
    assert (evaluated(total // 3, axes) == (5 * i + 10) // 3).all()
    least = reduce(ReductionOp.MINIMUM, (along,), axes[0] + along)
    assert (evaluated(least % 3, axes) == i % 3).all()
    product = reduce(ReductionOp.PRODUCT, (along,), maximum(axes[0], 1) + index(0) * along)
    assert (evaluated(product % 100, axes) == np.maximum(i, 1) ** 5 % 100).all()
    assert reduce(ReductionOp.SUM, (), axes[0]) is axes[0]


def test_differences_that_are_constant() -> None:
    i, j = axis(6), axis(4)
    assert constant_difference(i, i) == 0
    assert constant_difference(i * 4 + j + 7, j + i * 4 - 2) == 9
    assert constant_difference((i // 4) * 4 + i % 4 + 3, i) == 3
    assert constant_difference(i * 4 + j, i * 5 + j) is None
    assert constant_difference(index(5), index(2)) == 3


def test_asking_for_a_difference_guards_no_lengths() -> None:
    """Rows of another length are not parts of a whole; which one is longer does not matter."""
    scope = ExtentScope((67, 71))
    one, other = scope.symbols
    i, j = axis(5), axis(3)
    before = scope.decisions()
    assert constant_difference(i * (3 * one) + j, i * (3 * other) + j) is None
    assert constant_difference(i * one + j + other, i * one + j) is other
    assert scope.decisions() == before
