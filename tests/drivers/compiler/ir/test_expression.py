"""Expressions: simplified positions keep their value and their bounds, and expressions that are built alike are one."""

import gc
import math
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    accumulator,
    apply,
    axis,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
    reduce,
    select,
    sum_of,
)
from neurald.drivers.compiler.ir.graph import Compute, delinearize, inside, linearize
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Shape, Value

Array = np.ndarray[Any, np.dtype[Any]]
#: An expression, and what it is at every position of the axes, by plain arithmetic.
Pair = tuple[Expression, Array]


def evaluated(expression: Expression, axes: tuple[Axis, ...]) -> Array:
    """The expression at all positions."""
    shape = tuple(each.extent for each in axes)
    kind = Scalar.BOOL if expression.type is Scalar.BOOL else Scalar.INT64
    return evaluate_node(Compute(output=Value(shape, kind), axes=axes, body=expression.to(kind)), {})


def positions(extents: Shape) -> tuple[tuple[Axis, ...], list[Pair]]:
    """Axes, and what each is everywhere."""
    axes = tuple(axis(extent) for extent in extents)
    return axes, list(zip(axes, np.indices(extents), strict=True))


def combine(generator: random.Random, pool: list[Pair]) -> Pair:
    """One more expression of those that there are."""
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


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_simplified_positions_are_what_plain_arithmetic_gives(
    generator: random.Random, extents: list[int]
) -> None:
    axes, pool = positions(tuple(extents))
    for _ in range(generator.randrange(1, 14)):
        expression, expected = combine(generator, pool)
        if abs(expected).max() > 2**40:
            continue
        assert (evaluated(expression, axes) == expected).all()
        assert expression.low <= expected.min()
        assert expected.max() <= expression.high
        pool.append((expression, expected))


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_substituted_axes_are_what_plain_arithmetic_gives(
    generator: random.Random, extents: list[int]
) -> None:
    """Expressions of axes, with positions inside those instead."""
    inner_axes, pool = positions(tuple(extents))
    for _ in range(8):
        expression, values = combine(generator, pool)
        if abs(values).max() < 2**40:
            pool.append((expression, values))
    axes, others = positions((3, 5))
    for _ in range(4):
        others.append(combine(generator, others))
    places = [generator.choice(others) for _ in inner_axes]
    mapping: dict[Expression, Expression] = {
        inner: place % inner.extent for inner, (place, _) in zip(inner_axes, places, strict=True)
    }
    where = tuple(values % inner.extent for inner, (_, values) in zip(inner_axes, places, strict=True))
    for expression, values in pool:
        assert (evaluated(substitute(expression, mapping), axes) == values[where]).all()


def factorised(generator: random.Random, factors: list[int]) -> Shape:
    """A shape of as many elements."""
    shape = [1] * generator.randrange(1, 5)
    for factor in factors:
        shape[generator.randrange(len(shape))] *= factor
    return tuple(shape)


@settings(max_examples=100, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from((2, 2, 3, 5)), max_size=6),
    st.integers(1, 3),
)
def test_reshapes_and_transpositions_that_are_undone(
    generator: random.Random, factors: list[int], steps: int
) -> None:
    """They lead back, whatever there is in between; those of one reshape and one transposition leave nothing at all."""
    shape = factorised(generator, factors)
    axes, expected = positions(shape)
    place: tuple[Expression, ...] = axes
    undo: list[Callable[[tuple[Expression, ...]], tuple[Expression, ...]]] = []
    for _ in range(steps):
        before, after = shape, factorised(generator, factors)
        place = delinearize(linearize(place, before), after)
        undo.append(lambda at, a=after, b=before: delinearize(linearize(at, a), b))  # type: ignore[misc]
        order = generator.sample(range(len(after)), len(after))
        shape, place = tuple(after[each] for each in order), tuple(place[each] for each in order)
        undo.append(lambda at, o=order: tuple(at[o.index(n)] for n in range(len(o))))  # type: ignore[misc]
    for step in reversed(undo):
        place = step(place)
    for found, (original, values) in zip(place, expected, strict=True):
        assert found.low == found.high == 0 or found is original or steps > 1
        assert (evaluated(found, axes) == values).all()


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from((2, 2, 3, 5)), max_size=6))
def test_the_flat_position_of_a_reshaped_position_is_the_same(
    generator: random.Random, factors: list[int]
) -> None:
    shape, other = factorised(generator, factors), factorised(generator, factors)
    whole = linearize([axis(length) for length in shape], shape)
    assert linearize(delinearize(whole, other), other) is whole


def test_the_same_is_the_same_object() -> None:
    i, j = axis(5), axis(7)
    value = Value((5, 7), Scalar.FLOAT32)
    assert i + j * 2 - 3 is j * 2 + (i - 3)
    assert (i + j) - j is i
    assert load(value, (i, j)) is load(value, (i, j))
    assert load(value, (i, j)) * 2.0 is load(value, (i, j)) * 2.0
    assert load(value, (i, j), i < 3) is load(value, (i, j), i < 3, 0.0)
    assert load(value, (i, j)) is not load(Value((5, 7), Scalar.FLOAT32), (i, j))
    assert axis(5) is not axis(5)
    assert accumulator(Scalar.INT32) is accumulator(Scalar.INT32)
    assert constant(0.0, Scalar.FLOAT32) is not constant(-0.0, Scalar.FLOAT32)
    assert constant(math.nan, Scalar.FLOAT32) is constant(math.nan, Scalar.FLOAT32)
    assert constant(1, Scalar.INT32) is not constant(1, Scalar.INT64)


def test_expressions_that_nobody_holds_are_freed() -> None:
    value = Value((5,), Scalar.FLOAT32)
    i = axis(5)
    kept = weakref.ref(load(value, (i + 1,)))
    gc.collect()
    assert kept() is None


def test_positions_that_cancel_vanish() -> None:
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


def test_a_remainder_of_a_remainder_by_a_number_that_varies_stays() -> None:
    # i % (j + 2) is by 2, 3, 4, …, not only by the least of them.
    axes = axis(9), axis(5)
    i, j = np.indices((9, 5))
    expression = axes[0] % (axes[1] + 2) % 2
    assert (evaluated(expression, axes) == i % (j + 2) % 2).all()


def test_comparisons_that_are_known_are_constants() -> None:
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


@sweep("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_what_is_known_of_converted_numbers_holds(kind: Scalar) -> None:
    value = Value((3,), kind)
    place = load(value, (index(0),)).to(Scalar.INDEX)
    if kind.is_integer or kind is Scalar.BOOL:
        info = np.iinfo("uint8" if kind is Scalar.BOOL else kind.dtype.name)
        assert place.low <= info.min
        assert place.high >= (1 if kind is Scalar.BOOL else info.max)
    else:
        assert (place.low, place.high) == (-(2**63), 2**63 - 1)


def test_nothing_is_assumed_of_a_position_by_an_operation_without_bounds() -> None:
    axes = (axis(9),)
    (i,) = np.indices((9,))
    distance = apply(Op.ABSOLUTE, axes[0] - 4)
    assert (evaluated(distance // 2, axes) == abs(i - 4) // 2).all()
    assert (evaluated((axes[0] << 2) % 7, axes) == (i << 2) % 7).all()


def test_what_is_known_of_folded_positions_holds() -> None:
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


def test_floats_are_rounded_to_their_type() -> None:
    """A constant that is converted gives what a kernel would that converts what it reads."""
    third = constant(1 / 3, Scalar.FLOAT32)
    assert third.value == float(np.float32(1 / 3))
    half = third.to(Scalar.FLOAT16).to(Scalar.FLOAT32)
    assert half is constant(float(np.float16(1 / 3)), Scalar.FLOAT32)
    assert constant(2**24 + 1, Scalar.INT32).to(Scalar.FLOAT32) is constant(2.0**24, Scalar.FLOAT32)
    assert constant(1e6, Scalar.FLOAT16).value == math.inf
    assert constant(1e-60, Scalar.FLOAT32).value == 0.0


def test_a_guard_that_is_known_decides() -> None:
    value = Value((4,), Scalar.FLOAT32)
    i = axis(4)
    plain = load(value, (i,), i >= 0, 7.0)
    assert isinstance(plain, Load)
    assert plain.guard is None
    assert load(value, (i,), i < 0, 7.0) is constant(7.0, Scalar.FLOAT32)
    guarded = load(value, (i - 1,), i >= 1)
    assert isinstance(guarded, Load)
    assert guarded.otherwise is constant(0.0, Scalar.FLOAT32)
    assert guarded.operands == (i - 1, i >= 1, constant(0.0, Scalar.FLOAT32))


def test_a_guard_is_decided_when_axes_are_replaced() -> None:
    value = Value((4,), Scalar.FLOAT32)
    i = axis(6)
    guarded = load(value, (i - 1,), inside((i - 1,), (4,)), 5.0)
    j = axis(4)
    assert substitute(guarded, {i: j + 1}) is load(value, (j,))
    assert substitute(guarded, {i: index(0)}) is constant(5.0, Scalar.FLOAT32)
    assert substitute(guarded, {i: index(4)}) is load(value, (index(3),))


def test_rewriting_asks_after_the_parts_and_shares_its_memory() -> None:
    value, other = Value((4,), Scalar.FLOAT32), Value((4,), Scalar.FLOAT32)
    i = axis(4)
    first, second = load(value, (i,)) * 2.0, load(value, (i,)) + 1.0
    asked: list[Expression] = []

    def replace(expression: Expression) -> Expression | None:
        asked.append(expression)
        return load(other, expression.index) if isinstance(expression, Load) else None

    memory: dict[Expression, Expression] = {}
    assert rewrite(first, replace, memory) is load(other, (i,)) * 2.0
    assert rewrite(second, replace, memory) is load(other, (i,)) + 1.0
    assert len(asked) == len(set(asked))
    assert rewrite(first, lambda _: None, {}) is first


def test_operations_that_are_not_simplified_keep_their_type() -> None:
    value = Value((4,), Scalar.INT8)
    i, j = axis(4), axis(4)
    stored = load(value, (i,)).to(Scalar.FLOAT32)
    replaced = substitute(apply(Op.REINTERPRET, stored, type=Scalar.INT32), {i: j})
    assert replaced is apply(Op.REINTERPRET, load(value, (j,)).to(Scalar.FLOAT32), type=Scalar.INT32)
    assert substitute(i.to(Scalar.INT32), {i: index(3)}).type is Scalar.INT32


def test_select_of_what_is_known() -> None:
    i = axis(4)
    value = load(Value((4,), Scalar.FLOAT32), (i,))
    assert select(i < 4, value, 0) is value
    assert select(i > 4, value, 0) is constant(0, Scalar.FLOAT32)
    assert select(i < 2, value, value) is value
    chosen = select(i < 2, i, i + 7)
    assert (chosen.low, chosen.high) == (0, 10)


def test_operands_come_before_what_is_computed_of_them() -> None:
    i, j = axis(3), axis(3)
    root = load(Value((9,), Scalar.FLOAT32), (i * 3 + j,)) + 1.0
    found = list(walk(root))
    assert len(found) == len(set(found))
    for position, expression in enumerate(found):
        assert all(found.index(operand) < position for operand in expression.operands)
    assert found[-1] is root
    assert {type(each) for each in found} == {Axis, Linear, Load, Constant, Apply}
