import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.exact import cut, multiplier, times
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    evaluate,
    given,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType

pytestmark = pytest.mark.quick

ADD, SUB, MUL, DIV = OperationType.ADD, OperationType.SUB, OperationType.MUL, OperationType.DIV
FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
NONE, RELU, RELU1, RELU6 = range(4)
PYTHON: dict[OperationType, Callable[[float, float], float]] = {
    ADD: operator.add,
    SUB: operator.sub,
    MUL: operator.mul,
    DIV: operator.truediv,
}
SHAPES = [
    ((3, 5), (3, 5)),
    ((2, 3, 4, 5), (4, 1)),
    ((1, 3, 1), (2, 1, 4)),
    ((5,), (1,)),
    ((), (3,)),
    ((), ()),
    ((0, 3), (1, 3)),
    ((2, 1), (2, 0)),
]


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep(("first", "second"), SHAPES)
@sweep("operand_type", FLOAT_TYPES)
@sweep("operation", PYTHON)
def test_floats(
    operation: OperationType,
    operand_type: OperandType,
    first: tuple[int, ...],
    second: tuple[int, ...],
    activation: int,
) -> None:
    generator = np.random.default_rng(25)
    left, right = (generator.normal(0, 3, shape).astype(operand_type.dtype) for shape in (first, second))
    arguments = [given(operand_type, left), given(operand_type, right), *scalars(activation)]
    result = evaluate(operation, arguments, wanted(operand_type))
    low, high = ((-math.inf, math.inf), (0, math.inf), (-1, 1), (0, 6))[activation]
    pairs = np.broadcast(left.astype(np.float64), right.astype(np.float64))
    assert result.shape == pairs.shape
    expected = [min(max(PYTHON[operation](float(a), float(b)), low), high) for a, b in pairs]
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    np.testing.assert_allclose(result.ravel(), expected, rtol=rounding)


def test_floats_are_divided_by_ieee_rules() -> None:
    arguments = [given(FLOAT32, [1.0, -1.0, 0.0]), given(FLOAT32, [0.0]), *scalars(NONE)]
    result = evaluate(DIV, arguments, wanted(FLOAT32))
    assert result[:2].tolist() == [math.inf, -math.inf]
    assert math.isnan(result[2])


@sweep(("first", "second"), SHAPES)
@sweep("operation", PYTHON)
def test_int32(operation: OperationType, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    generator = np.random.default_rng(26)
    limits = np.iinfo(np.int32)
    left, right = (generator.integers(limits.min, limits.max, shape) for shape in (first, second))
    right = np.where(right == 0, 1, right)
    arguments = [given(INT32, left), given(INT32, right), *scalars(NONE)]
    result = evaluate(operation, arguments, wanted(INT32))
    function = operator.floordiv if operation is DIV else PYTHON[operation]
    exact = [int(function(int(a), int(b))) for a, b in np.broadcast(left, right)]
    assert result.ravel().tolist() == [(value + 2**31) % 2**32 - 2**31 for value in exact]


def test_int32_division() -> None:
    left = [7, -7, 7, -7, 5, -(2**31), 0]
    right = [2, 2, -2, -2, 0, -1, 0]
    result = evaluate(DIV, [given(INT32, left), given(INT32, right), *scalars(NONE)], wanted(INT32))
    assert result.tolist() == [3, -4, -4, 3, 0, -(2**31), 0]


@sweep("activation", [NONE, RELU, RELU1, RELU6])
@sweep(("first", "second"), SHAPES)
@sweep("operand_type", QUANT8_TYPES)
@sweep("operation", [ADD, SUB, MUL])
def test_quantized_values(
    operation: OperationType,
    operand_type: OperandType,
    first: tuple[int, ...],
    second: tuple[int, ...],
    activation: int,
) -> None:
    generator = np.random.default_rng(27)
    left, right = (stored_values(generator, operand_type, shape) for shape in (first, second))
    lowest = np.iinfo(operand_type.dtype.name).min
    forms = ((0.25, lowest + 90), (0.7, lowest + 140), (0.5, lowest + 100))
    arguments = [given(operand_type, left, *forms[0]), given(operand_type, right, *forms[1])]
    result = evaluate(operation, [*arguments, *scalars(activation)], wanted(operand_type, *forms[2]))
    (scale1, zero1), (scale2, zero2), (scale, zero) = forms
    low, high = ((lowest, lowest + 255), (zero, lowest + 255), (zero - 2, zero + 2), (zero, zero + 12))[
        activation
    ]
    expected = []
    for a, b in np.broadcast(left, right):
        real1, real2 = int(a) - zero1, int(b) - zero2
        if operation is MUL:
            value = times(real1 * real2, *multiplier(scale1 * scale2 / scale))
        else:
            scaled1 = times(real1 * 2**20, *multiplier(scale1 / 1.4))
            scaled2 = times(real2 * 2**20, *multiplier(scale2 / 1.4))
            total = scaled1 + scaled2 if operation is ADD else scaled1 - scaled2
            value = times(total, *multiplier(1.4 / (2**20 * scale)))
        expected.append(min(max(cut(value + zero, operand_type.dtype.name), low), high))
    assert result.ravel().tolist() == expected


def test_levels() -> None:
    def level(operation: OperationType, operand_type: OperandType) -> FeatureLevel:
        form = (0.5, 0) if operand_type in QUANT8_TYPES else (0.0, 0)
        data = given(operand_type, [1], *form)
        return level_of(operation, [data, data, *scalars(NONE)], wanted(operand_type, 1.0, rank=1))

    for operation in PYTHON:
        assert level(operation, FLOAT32) == FeatureLevel.LEVEL_1
        assert level(operation, OperandType.TENSOR_FLOAT16) == FeatureLevel.LEVEL_3
        assert level(operation, INT32) == FeatureLevel.LEVEL_4
    assert level(ADD, QUANT8_TYPES[0]) == level(MUL, QUANT8_TYPES[0]) == FeatureLevel.LEVEL_1
    assert level(SUB, QUANT8_TYPES[0]) == FeatureLevel.LEVEL_3
    assert level(ADD, QUANT8_TYPES[1]) == FeatureLevel.LEVEL_4


def test_refuses_shapes_that_do_not_broadcast() -> None:
    arguments = [given(FLOAT32, np.zeros((2, 3))), given(FLOAT32, np.zeros(4)), *scalars(NONE)]
    with pytest.raises(BadData, match=r"ADD cannot broadcast input1 \[2, 3\], input2 \[4\]"):
        evaluate(ADD, arguments, wanted(FLOAT32))


def test_refuses_a_product_scale_that_is_too_fine() -> None:
    data = given(QUANT8_TYPES[0], [1], 0.5)
    with pytest.raises(BadData, match=r"operand 3 \(output of MUL\) has scale 0\.25; more than the product"):
        evaluate(MUL, [data, data, *scalars(NONE)], wanted(QUANT8_TYPES[0], 0.25))


def test_refuses_activations() -> None:
    whole, real = given(INT32, [1]), given(FLOAT32, [1])
    with pytest.raises(BadData, match=r"operand 2 \(activation of SUB\) is RELU; TENSOR_INT32 takes NONE"):
        evaluate(SUB, [whole, whole, *scalars(RELU)], wanted(INT32))
    with pytest.raises(BadData, match=r"operand 2 \(activation of SUB\) is -1; 0 \(NONE\), 1 \(RELU\)"):
        evaluate(SUB, [real, real, *scalars(-1)], wanted(FLOAT32))


def test_refuses_types() -> None:
    quantized = given(QUANT8_TYPES[0], [1], 0.5)
    with pytest.raises(
        BadData, match=r"operand 0 \(input1 of DIV\) has type TENSOR_QUANT8_ASYMM; TENSOR_FLOAT32"
    ):
        evaluate(DIV, [quantized, quantized, *scalars(NONE)], wanted(QUANT8_TYPES[0], 1.0))
