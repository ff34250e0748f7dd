"""Expressions are interned and simplified; traversal and rewriting."""

import gc
import math
import weakref

import numpy as np
from support.sweeps import sweep

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
    constant,
    index,
    load,
    select,
)
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, substitute, walk
from neurald.drivers.compiler.ir.value import Value


def test_equal_expressions_are_the_same_object() -> None:
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


def test_unreferenced_expressions_are_freed() -> None:
    value = Value((5,), Scalar.FLOAT32)
    i = axis(5)
    kept = weakref.ref(load(value, (i + 1,)))
    gc.collect()
    assert kept() is None


@sweep("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_bounds_of_numbers_converted_to_index(kind: Scalar) -> None:
    value = Value((3,), kind)
    converted = load(value, (index(0),)).to(Scalar.INDEX)
    if kind.is_integer or kind is Scalar.BOOL:
        info = np.iinfo("uint8" if kind is Scalar.BOOL else kind.dtype.name)
        assert converted.low <= info.min
        assert converted.high >= (1 if kind is Scalar.BOOL else info.max)
    else:
        assert (converted.low, converted.high) == (-(2**63), 2**63 - 1)


def test_floats_are_rounded_to_their_type() -> None:
    """Converting a constant gives the same result as a kernel that converts a loaded element."""
    third = constant(1 / 3, Scalar.FLOAT32)
    assert third.value == float(np.float32(1 / 3))
    half = third.to(Scalar.FLOAT16).to(Scalar.FLOAT32)
    assert half is constant(float(np.float16(1 / 3)), Scalar.FLOAT32)
    assert constant(2**24 + 1, Scalar.INT32).to(Scalar.FLOAT32) is constant(2.0**24, Scalar.FLOAT32)
    assert constant(1e6, Scalar.FLOAT16).value == math.inf
    assert constant(1e-60, Scalar.FLOAT32).value == 0.0


def test_constant_guards_are_removed() -> None:
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


def test_guards_that_become_constant_by_substitution_are_removed() -> None:
    value = Value((4,), Scalar.FLOAT32)
    i = axis(6)
    guarded = load(value, (i - 1,), inside((i - 1,), (4,)), 5.0)
    j = axis(4)
    assert substitute(guarded, {i: j + 1}) is load(value, (j,))
    assert substitute(guarded, {i: index(0)}) is constant(5.0, Scalar.FLOAT32)
    assert substitute(guarded, {i: index(4)}) is load(value, (index(3),))


def test_rewrite_replaces_each_subexpression_once() -> None:
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


def test_rewritten_operations_keep_their_type() -> None:
    value = Value((4,), Scalar.INT8)
    i, j = axis(4), axis(4)
    stored = load(value, (i,)).to(Scalar.FLOAT32)
    replaced = substitute(apply(Op.REINTERPRET, stored, type=Scalar.INT32), {i: j})
    assert replaced is apply(Op.REINTERPRET, load(value, (j,)).to(Scalar.FLOAT32), type=Scalar.INT32)
    assert substitute(i.to(Scalar.INT32), {i: index(3)}).type is Scalar.INT32


def test_select_is_simplified() -> None:
    i = axis(4)
    value = load(Value((4,), Scalar.FLOAT32), (i,))
    assert select(i < 4, value, 0) is value
    assert select(i > 4, value, 0) is constant(0, Scalar.FLOAT32)
    assert select(i < 2, value, value) is value
    chosen = select(i < 2, i, i + 7)
    assert (chosen.low, chosen.high) == (0, 10)


def test_walk_yields_operands_before_their_users() -> None:
    i, j = axis(3), axis(3)
    root = load(Value((9,), Scalar.FLOAT32), (i * 3 + j,)) + 1.0
    found = list(walk(root))
    assert len(found) == len(set(found))
    for position, expression in enumerate(found):
        assert all(found.index(operand) < position for operand in expression.operands)
    assert found[-1] is root
    assert {type(each) for each in found} == {Axis, Linear, Load, Constant, Apply}


def test_parts_with_a_result_are_not_rewritten_again() -> None:
    value = Value(shape=(4,), type=Scalar.FLOAT32)
    element = load(value, (index(1),))
    asked: list[Expression] = []

    def replacement(expression: Expression) -> None:
        asked.append(expression)

    memory: dict[Expression, Expression] = {}
    shared = element + element
    assert rewrite(shared, replacement, memory) is shared
    asked.clear()
    larger = shared * shared
    assert rewrite(larger, replacement, memory) is larger
    assert asked == [larger]


def test_what_replaces_an_expression_is_not_replaced_again() -> None:
    i, j = axis(9), axis(9, "j")
    value = Value((9, 9), Scalar.FLOAT32)
    assert substitute(i - 2, {i: i + 2}) is i
    assert substitute(load(value, (i - 1, j)), {i: i + 1, j: i}) is load(value, (i, i))
    assert substitute(i + j * 2, {i: j, j: i}) is j + i * 2
