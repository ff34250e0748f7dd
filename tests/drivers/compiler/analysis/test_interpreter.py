"""The interpreter gives the same results as simple loops."""

import math
from typing import Any

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, evaluate
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    constant,
    index,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.hal.operations.arithmetic import fixed_point

pytestmark = pytest.mark.quick

Array = np.ndarray[Any, np.dtype[Any]]


def windows(node: Convolution | DepthwiseConvolution, source: Array, weights: Array) -> Array:
    """Returns the result of a convolution, computed product by product."""
    result = np.zeros(node.output.shape)
    is_depthwise = isinstance(node, DepthwiseConvolution)
    each = node.weights.shape[0] // node.groups if isinstance(node, Convolution) else 1
    depth = 1 if is_depthwise else node.weights.shape[3]
    for n, y, x, o in np.ndindex(*node.output.shape):
        for i, j, c in np.ndindex(*node.kernel, depth):
            row = y * node.stride[0] + i * node.dilation[0] - node.padding[0][0]
            column = x * node.stride[1] + j * node.dilation[1] - node.padding[1][0]
            if not (0 <= row < source.shape[1] and 0 <= column < source.shape[2]):
                continue
            channel = (
                o // node.multiplier if isinstance(node, DepthwiseConvolution) else o // each * depth + c
            )
            weight = weights[i, j, o] if is_depthwise else weights[o, i, j, c]
            element = float(source[n, row, column, channel]) - node.input_zero
            result[n, y, x, o] += element * (float(weight) - node.weights_zero)
    return result


@sweep("kind", [Scalar.FLOAT32, Scalar.UINT8])
@sweep("groups", [1, 2])
@sweep("is_depthwise", [False, True])
def test_convolutions(kind: Scalar, groups: int, is_depthwise: bool) -> None:
    b = GraphBuilder()
    source = b.input(2, 7, 6, 4, type=kind)
    how: dict[str, Any] = {
        "type": Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        "stride": (2, 1),
        "dilation": (1, 2),
        "padding": ((1, 0), (2, 1)),
        "input_zero": 0 if kind.is_float else 3,
        "weights_zero": 0 if kind.is_float else 5,
    }
    if is_depthwise:
        weights = b.weights(2, 3, 4 * groups, type=kind)
        sums = b.depthwise_convolution(source, weights, output=(2, 4, 5, 4 * groups), **how)
    else:
        weights = b.weights(6, 2, 3, 4 // groups, type=kind)
        sums = b.convolution(source, weights, output=(2, 4, 5, 6), groups=groups, **how)
    graph = b.finish(sums)
    image = random_array(b.generator, source.shape, kind)
    (node,) = graph.nodes
    assert isinstance(node, Convolution | DepthwiseConvolution)
    assert weights.constant is not None
    (found,) = evaluate(graph, [image])
    np.testing.assert_allclose(found, windows(node, image, weights.constant), rtol=1e-5, atol=1e-5)


@sweep("flags", [(False, False), (False, True), (True, False), (True, True)])
def test_products(flags: tuple[bool, bool]) -> None:
    b = GraphBuilder()
    left, right = (
        b.input(*shape, type=Scalar.INT8)
        for shape in ((2, 1, *((4, 3) if flags[0] else (3, 4))), (5, *((4, 6) if flags[1] else (6, 4))))
    )
    product = b.matrix_product(
        left,
        right,
        type=Scalar.INT32,
        left_transposed=flags[0],
        right_transposed=flags[1],
        left_zero=2,
        right_zero=-3,
    )
    one, other = (random_array(b.generator, value.shape, Scalar.INT8) for value in (left, right))
    (found,) = evaluate(b.finish(product), [one, other])
    assert found.shape == (2, 5, 3, 6)
    for g, h, m, n in np.ndindex(*found.shape):
        row = one[g, 0, :, m] if flags[0] else one[g, 0, m]
        column = other[h, :, n] if flags[1] else other[h, n]
        assert found[g, h, m, n] == sum((int(a) - 2) * (int(c) + 3) for a, c in zip(row, column, strict=True))


def element_by_element(body: Any, *arrays: Array) -> Array:
    """Returns the results of `body` for the elements of arrays of equal length."""
    b = GraphBuilder()
    values = [b.input(len(array), type=Scalar.of(array.dtype)) for array in arrays]
    graph = b.finish(b.compute((len(arrays[0]),), lambda i: body(*(load(value, (i,)) for value in values))))
    return evaluate(graph, arrays)[0]


def test_conversion_of_floats_to_integers_truncates_and_saturates() -> None:
    numbers = np.array([1.9, -1.9, 0.5, -0.5, 3e9, -3e9, np.inf, -np.inf, np.nan], np.float32)
    info = np.iinfo(np.int32)
    expected = [1, -1, 0, 0, info.max, info.min, info.max, info.min, 0]
    assert element_by_element(lambda x: x.to(Scalar.INT32), numbers).tolist() == expected
    expected = [1, 0, 0, 0, 255, 0, 255, 0, 0]
    assert element_by_element(lambda x: x.to(Scalar.UINT8), numbers).tolist() == expected


def test_conversion_to_narrower_integers_wraps() -> None:
    numbers = np.array([0, 127, 128, 255, 256, -1, -129], np.int32)
    assert element_by_element(lambda x: x.to(Scalar.INT8), numbers).tolist() == [0, 127, -128, -1, 0, -1, 127]
    assert element_by_element(lambda x: x.to(Scalar.BOOL), numbers).tolist() == [False] + [True] * 6


def test_integer_divisions() -> None:
    one = np.array([7, -7, 7, -7, 6, -6, 0], np.int32)
    other = np.array([2, 2, -2, -2, 3, 3, -5], np.int32)
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    assert element_by_element(lambda a, c: a // c, one, other).tolist() == [a // c for a, c in pairs]
    assert element_by_element(lambda a, c: a % c, one, other).tolist() == [a % c for a, c in pairs]
    found = element_by_element(lambda a, c: apply(Op.TRUNCATE_DIVIDE, a, c), one, other)
    assert found.tolist() == [int(a / c) for a, c in pairs]


def test_roundings() -> None:
    numbers = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, -2.4], np.float32)
    even = element_by_element(lambda x: apply(Op.ROUND_EVEN, x), numbers)
    away = element_by_element(lambda x: apply(Op.ROUND_AWAY, x), numbers)
    assert even.tolist() == [0, 2, 2, 0, -2, 0, 8388609, -2]
    assert away.tolist() == [1, 2, 3, -1, -2, 0, 8388609, -2]


def test_minimum_and_maximum_propagate_nan() -> None:
    one, other = np.array([1, np.nan, 2], np.float32), np.array([np.nan, 1, 3], np.float32)
    for op, last in ((Op.MINIMUM, 2), (Op.MAXIMUM, 3)):
        found = element_by_element(lambda a, c, op=op: apply(op, a, c), one, other)
        np.testing.assert_array_equal(found, [np.nan, np.nan, last])


def test_reinterpret_keeps_the_bits() -> None:
    numbers = np.array([1.0, -0.0, 3.5], np.float32)
    found = element_by_element(lambda x: apply(Op.REINTERPRET, x, type=Scalar.INT32), numbers)
    np.testing.assert_array_equal(found, numbers.view(np.int32))


@sweep("multiplier", [0.3, 0.9999, 1.0, 5.7, 1e-4])
def test_fixed_point_equals_the_references(multiplier: float) -> None:
    mantissa, exponent = fixed_point.quantize_multiplier(multiplier)
    numbers = np.array([0, 1, -1, 5, -5, 123456, -123456, 2**20 + 1, -(2**20) - 1], np.int64)
    found = element_by_element(
        lambda x: apply(
            Op.FIXED_POINT,
            x,
            constant(mantissa, Scalar.INT32),
            constant(exponent, Scalar.INT32),
            type=Scalar.INT64,
        ),
        numbers,
    )
    np.testing.assert_array_equal(found, fixed_point.multiply(numbers, mantissa, exponent))


@sweep("reduction", [ReductionOp.SUM, ReductionOp.PRODUCT, ReductionOp.MINIMUM, ReductionOp.MAXIMUM])
@sweep("kind", [Scalar.FLOAT32, Scalar.INT32, Scalar.UINT8])
@sweep("length", [0, 1, 4])
def test_reductions(reduction: ReductionOp, kind: Scalar, length: int) -> None:
    b = GraphBuilder()
    source = b.input(3, length, type=kind)
    along = axis(length)
    graph = b.finish(b.compute((3,), lambda i: reduce(reduction, (along,), load(source, (i, along)))))
    numbers = random_array(b.generator, source.shape, kind)
    (found,) = evaluate(graph, [numbers])
    functions: dict[ReductionOp, Any] = {
        ReductionOp.SUM: lambda a, c: a + c,
        ReductionOp.PRODUCT: lambda a, c: a * c,
        ReductionOp.MINIMUM: min,
        ReductionOp.MAXIMUM: max,
    }
    for row, result in zip(numbers, found, strict=True):
        total: Any = reduction_identity(reduction, kind)
        for number in row.tolist():
            total = functions[reduction](total, number)
        if kind.is_float:
            assert result == pytest.approx(total, rel=1e-5)
        else:
            assert int(result) == (total % 256 if kind is Scalar.UINT8 else total)


@sweep(("reduction", "expected"), [(ReductionOp.ANY, [False, True]), (ReductionOp.ALL, [True, True])])
def test_reductions_of_conditions(reduction: ReductionOp, expected: list[bool]) -> None:
    b = GraphBuilder()
    along, source = axis(0), b.input(2, type=Scalar.BOOL)
    empty = reduce(reduction, (along,), load(source, (along,)))
    graph = b.finish(b.compute((2,), lambda i: select(i < 1, empty, True)))
    assert evaluate(graph, [np.zeros(2, bool)])[0].tolist() == expected


def test_a_violated_requirement_raises() -> None:
    b = GraphBuilder()
    source = b.input(3, type=Scalar.INT32)
    value = b.compute(
        (3,),
        lambda i: load(source, (i,)),
        requirements=lambda i: ((load(source, (i,)) > 0, "numbers must be positive"),),
    )
    graph = b.finish(value)
    assert evaluate(graph, [np.array([1, 2, 3], np.int32)])[0].tolist() == [1, 2, 3]
    with pytest.raises(RequirementFailed, match="must be positive"):
        evaluate(graph, [np.array([1, 0, 3], np.int32)])


def test_nothing_is_read_where_the_guard_is_false() -> None:
    b = GraphBuilder()
    source, empty = b.input(3), b.input(0)
    values = [
        b.compute((5,), lambda i: load(source, (i - 1,), (i >= 1) & (i < 4), 9.0)),
        b.compute((2,), lambda i: load(empty, (i,), i < 0, 8.0)),
        b.compute((2,), lambda i: load(empty, (i * 0 - 1,), i.equals(7) | i.equals(8), 8.0)),
    ]
    found = evaluate(b.finish(*values), [np.array([1, 2, 3], np.float32), np.zeros(0, np.float32)])
    assert [each.tolist() for each in found] == [[9, 1, 2, 3, 9], [8, 8], [8, 8]]


@sweep("guard", [None, True])
def test_loads_out_of_bounds_raise(guard: bool | None) -> None:
    b = GraphBuilder()
    source = b.input(3)

    def body(i: Expression) -> Expression:
        return load(source, (i + 1,), None if guard is None else i.differs(1))

    with pytest.raises(AssertionError, match=r"input 0 \[3\] is out of bounds"):
        evaluate(b.finish(b.compute((3,), body)), [np.zeros(3, np.float32)])


def test_reductions_over_no_elements_read_nothing() -> None:
    b = GraphBuilder()
    source = b.input(0, 3)
    graph = b.finish(
        b.compute((0, 3), lambda i, j: load(source, (i, j)) * 2.0),
        b.compute((2, 0), lambda i, j: load(source, (index(0), i + j))),
        b.matrix_product(source, b.weights(4, 3)),
    )
    assert [each.shape for each in evaluate(graph, [np.zeros((0, 3), np.float32)])] == [
        (0, 3),
        (2, 0),
        (0, 4),
    ]


def test_inputs_and_constants_may_be_outputs() -> None:
    b = GraphBuilder()
    source, table = b.input(3), b.weights(2)
    found = evaluate(b.finish(source, table, source), [np.arange(3, dtype=np.float32)])
    assert found[0] is found[2]
    assert found[1] is table.constant


def test_functions_equal_the_math_module() -> None:
    numbers = np.array([0.1, 0.5, 1.5], np.float32)
    functions = {
        Op.LOGISTIC: lambda x: 1 / (1 + math.exp(-x)),
        Op.ERF: math.erf,
        Op.RSQRT: lambda x: 1 / math.sqrt(x),
        Op.EXPM1: math.expm1,
        Op.LOG1P: math.log1p,
        Op.TANH: math.tanh,
    }
    for op, function in functions.items():
        found = element_by_element(lambda x, op=op: apply(op, x), numbers)
        np.testing.assert_allclose(found, [function(float(x)) for x in numbers], rtol=1e-6)


@sweep("amount", [-1, 32, 33, 64])
def test_shifts_beyond_the_type_give_results_that_no_processor_gives(amount: int) -> None:
    values = np.array([0, 1, -1, 1 << 30, -(1 << 31), 12345], np.int32)
    b = GraphBuilder()
    source, amounts = b.constant(values), b.constant(np.array(amount, np.int32))

    def body(op: Op, at: Expression) -> Expression:
        return apply(op, load(source, (at,)), load(amounts, ()), type=Scalar.INT32)

    shifted = [
        b.compute((len(values),), lambda at, op=op: body(op, at)) for op in (Op.SHIFT_LEFT, Op.SHIFT_RIGHT)
    ]
    left, right = evaluate(b.finish(*shifted), [])
    # Processors take the amount modulo 32, or shift out all bits.
    for results, modulo in ((left, values << (amount % 32)), (right, values >> (amount % 32))):
        assert not np.array_equal(results, modulo)
        assert results.any()
