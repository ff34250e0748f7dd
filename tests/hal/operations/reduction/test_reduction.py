import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from support.operations.exact import cut, multiplier, times
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array

pytestmark = pytest.mark.quick

MEAN, TFLITE_MEAN = OperationType.MEAN, OperationType.TFLITE_MEAN
CASES = [
    ((5,), (0,)),
    ((3, 4), (1,)),
    ((3, 4), (-2, 0)),
    ((2, 3, 4, 5), (2, -3)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((2, 1, 3), (1, 1, -2)),
]


def cells(values: Array, axes: tuple[int, ...], *, keep: bool) -> tuple[tuple[int, ...], list[list[float]]]:
    """Returns the result's shape, and the elements that are reduced to each of its elements."""
    reduced = {axis % values.ndim for axis in axes}
    shape = tuple(1 if i in reduced else n for i, n in enumerate(values.shape) if keep or i not in reduced)
    kept = [range(1) if i in reduced else range(n) for i, n in enumerate(values.shape)]
    result = []
    for corner in itertools.product(*kept):
        part = tuple(slice(None) if i in reduced else corner[i] for i in range(values.ndim))
        result.append(values[part].ravel().tolist())
    return shape or (1,), result


@sweep("keep", [0, 1])
@sweep(("shape", "axes"), CASES)
@sweep("operand_type", FLOAT_TYPES)
def test_mean_of_floats(
    operand_type: OperandType, shape: tuple[int, ...], axes: tuple[int, ...], keep: int
) -> None:
    values = np.random.default_rng(16).normal(size=shape).astype(operand_type.dtype)
    result = evaluate(MEAN, [given(operand_type, values), ints(*axes), *scalars(keep)], wanted(operand_type))
    expected_shape, parts = cells(values, axes, keep=bool(keep))
    assert result.shape == expected_shape
    rounding = float(np.finfo(operand_type.dtype.name).eps)
    expected = [math.fsum(part) / len(part) for part in parts]
    np.testing.assert_allclose(result.ravel(), expected, rtol=rounding, atol=4 * rounding)


def test_mean_of_float16_is_rounded_once() -> None:
    values = np.full(100_000, 2.0)
    arguments = [given(OperandType.TENSOR_FLOAT16, values), ints(0), *scalars(0)]
    assert evaluate(MEAN, arguments, wanted(OperandType.TENSOR_FLOAT16)).tolist() == [2.0]


@sweep("keep", [0, 1])
@sweep(("shape", "axes"), CASES)
@sweep("operand_type", QUANT8_TYPES)
def test_mean_of_quantized_values(
    operand_type: OperandType, shape: tuple[int, ...], axes: tuple[int, ...], keep: int
) -> None:
    values = stored_values(np.random.default_rng(17), operand_type, shape)
    form = (0.3, np.iinfo(operand_type.dtype.name).min + 7)
    arguments = [given(operand_type, values, *form), ints(*axes), *scalars(keep)]
    result = evaluate(MEAN, arguments, wanted(operand_type, *form))
    expected_shape, parts = cells(values, axes, keep=bool(keep))
    assert result.shape == expected_shape
    for after, part in zip(result.ravel().tolist(), parts, strict=True):
        # Right shifts round twice.
        assert abs(after - sum(part) / len(part)) <= 0.75


@sweep("ratio", [1.0, 0.013, 0.9, 17.0])
@sweep(("shape", "axes"), [*CASES, ((1, 40, 40, 2), (1, 2)), ((2, 1, 2, 3, 2, 3), (-1, 3, 0))])
@sweep("operand_type", QUANT8_TYPES)
def test_mean_with_another_output_scale(
    operand_type: OperandType, shape: tuple[int, ...], axes: tuple[int, ...], ratio: float
) -> None:
    values = stored_values(np.random.default_rng(18), operand_type, shape)
    limits = np.iinfo(operand_type.dtype.name)
    old, new = limits.min + 120, limits.min + 31
    arguments = [given(operand_type, values, 0.25 * ratio, old), ints(*axes), *scalars(1)]
    result = evaluate(TFLITE_MEAN, arguments, wanted(operand_type, 0.25, new))
    for after, part in zip(result.ravel().tolist(), cells(values, axes, keep=True)[1], strict=True):
        exact = (sum(part) / len(part) - old) * ratio + new
        assert abs(after - min(max(exact, limits.min), limits.max)) <= 0.75
        # Like TFLite, includes the division in the multiplier.
        mantissa, exponent = multiplier(0.25 * ratio / 0.25)
        shift = math.floor(math.log2(len(part)))
        rescaled = times(
            round(sum(part)) - old * len(part), mantissa * 2**shift // len(part), exponent - shift
        )
        assert after == cut(rescaled + new, operand_type.dtype.name)


@sweep("count", [70_001, 1 << 17, 1 << 18, 1_000_003])
@sweep("value", [-32768, -30001, 8000, 32767])
def test_means_of_many_elements(value: int, count: int) -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    values = np.full(count, value, np.int16)
    result = evaluate(TFLITE_MEAN, [given(kind, values, 0.0999), ints(0), *scalars(1)], wanted(kind, 0.1))
    assert abs(result.item() - value * 0.999) <= 0.75


@sweep("ratio", [2.0**16, 2.0**30, 2.0**40])
@sweep("value", [-32768, 0, 32767])
def test_means_of_many_elements_that_are_multiplied(value: int, ratio: float) -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    arguments = [given(kind, np.full(1 << 17, value, np.int16), ratio), ints(0), *scalars(1)]
    assert evaluate(TFLITE_MEAN, arguments, wanted(kind, 1.0)).item() == value


FOLDS: dict[OperationType, Callable[[list[float]], float]] = {
    OperationType.REDUCE_ALL: all,
    OperationType.REDUCE_ANY: any,
    OperationType.REDUCE_MAX: max,
    OperationType.REDUCE_MIN: min,
    OperationType.REDUCE_PROD: math.prod,
    OperationType.REDUCE_SUM: math.fsum,
}
FOLDED_TYPES = {
    OperationType.REDUCE_ALL: (OperandType.TENSOR_BOOL8,),
    OperationType.REDUCE_ANY: (OperandType.TENSOR_BOOL8,),
    OperationType.REDUCE_MAX: (*FLOAT_TYPES, *QUANT8_TYPES),
    OperationType.REDUCE_MIN: (*FLOAT_TYPES, *QUANT8_TYPES),
    OperationType.REDUCE_PROD: FLOAT_TYPES,
    OperationType.REDUCE_SUM: FLOAT_TYPES,
}
FOLD_CASES = [(operation, t) for operation, types in FOLDED_TYPES.items() for t in types]


@sweep("keep", [False, True])
@sweep(("shape", "axes"), CASES)
@sweep(("operation", "operand_type"), FOLD_CASES)
def test_reductions(
    operation: OperationType,
    operand_type: OperandType,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    keep: bool,
) -> None:
    generator = np.random.default_rng(19)
    form = (0.0, 0)
    if operand_type in QUANT8_TYPES:
        values, form = stored_values(generator, operand_type, shape), (0.5, 3)
    elif operand_type is OperandType.TENSOR_BOOL8:
        values = generator.random(shape) < 0.5
    else:
        values = generator.normal(size=shape).astype(operand_type.dtype)
    arguments = [given(operand_type, values, *form), ints(*axes), *scalars(keep)]
    result = evaluate(operation, arguments, wanted(operand_type, *form))
    expected_shape, parts = cells(values, axes, keep=keep)
    assert result.shape == expected_shape
    expected = [FOLDS[operation](part) for part in parts]
    if operand_type in FLOAT_TYPES:
        rounding = float(np.finfo(operand_type.dtype.name).eps)
        np.testing.assert_allclose(result.ravel(), expected, rtol=40 * rounding, atol=40 * rounding)
    else:
        assert result.ravel().tolist() == expected


@sweep(
    ("operation", "operand_type", "nothing"),
    [
        (OperationType.REDUCE_ALL, OperandType.TENSOR_BOOL8, True),
        (OperationType.REDUCE_ANY, OperandType.TENSOR_BOOL8, False),
        (OperationType.REDUCE_MAX, OperandType.TENSOR_FLOAT32, -float(np.finfo(np.float32).max)),
        (OperationType.REDUCE_MIN, OperandType.TENSOR_FLOAT16, 65504),
        (OperationType.REDUCE_MAX, OperandType.TENSOR_QUANT8_ASYMM_SIGNED, -128),
        (OperationType.REDUCE_MIN, OperandType.TENSOR_QUANT8_ASYMM, 255),
        (OperationType.REDUCE_PROD, OperandType.TENSOR_FLOAT32, 1),
        (OperationType.REDUCE_SUM, OperandType.TENSOR_FLOAT16, 0),
    ],
)
def test_reductions_of_no_elements(
    operation: OperationType, operand_type: OperandType, nothing: float
) -> None:
    form = (1.0, 0) if operand_type in QUANT8_TYPES else (0.0, 0)
    arguments = [given(operand_type, np.zeros((0, 2)), *form), ints(0), *scalars(False)]
    assert evaluate(operation, arguments, wanted(operand_type, *form)).tolist() == [nothing, nothing]


def test_mean_of_no_elements() -> None:
    data = given(OperandType.TENSOR_FLOAT32, np.zeros((0, 2)))
    output = wanted(OperandType.TENSOR_FLOAT32)
    with pytest.raises(
        BadData, match=r"operand 1 \(axes of MEAN\) is \[0\]; input \[0, 2\] has no elements there"
    ):
        evaluate(MEAN, [data, ints(0), *scalars(0)], output)
    assert evaluate(MEAN, [data, ints(1), *scalars(0)], output).shape == (0,)


def test_no_axes_reduce_nothing() -> None:
    values = [[1.0, 2.0]]
    arguments = [given(OperandType.TENSOR_FLOAT32, values), ints(), *scalars(0)]
    assert evaluate(MEAN, arguments, wanted(OperandType.TENSOR_FLOAT32)).tolist() == values


def test_negative_keep_dims_keeps_nothing() -> None:
    arguments = [given(OperandType.TENSOR_FLOAT32, np.ones((2, 3))), ints(0), *scalars(-1)]
    assert evaluate(MEAN, arguments, wanted(OperandType.TENSOR_FLOAT32)).shape == (3,)


@sweep("axis", [2, -3])
@sweep("operation", [MEAN, OperationType.REDUCE_SUM])
def test_refuses_axes(operation: OperationType, axis: int) -> None:
    keep = scalars(0) if operation is MEAN else scalars(False)
    data = given(OperandType.TENSOR_FLOAT32, np.zeros((2, 3)))
    message = rf"operand 1 \(axes of {operation.name}\) is {axis}; an axis of rank 2, from -2 to 1"
    with pytest.raises(BadData, match=message):
        evaluate(operation, [data, ints(0, axis), *keep], wanted(OperandType.TENSOR_FLOAT32))


def test_only_the_mean_of_tflite_may_change_the_scale() -> None:
    operand_type = OperandType.TENSOR_QUANT8_ASYMM
    arguments = [given(operand_type, [1, 3], 1.0), ints(0), *scalars(0)]
    with pytest.raises(BadData, match=r"output of MEAN. has scale 2"):
        evaluate(MEAN, arguments, wanted(operand_type, 2.0))
    assert evaluate(TFLITE_MEAN, arguments, wanted(operand_type, 2.0)).tolist() == 1


def test_levels() -> None:
    def level(operation: OperationType, operand_type: OperandType, keep: float) -> FeatureLevel:
        arguments = [given(operand_type, [1]), ints(0), *scalars(keep)]
        return level_of(operation, arguments, wanted(operand_type, rank=1))

    assert level(MEAN, OperandType.TENSOR_FLOAT32, 0) == FeatureLevel.LEVEL_2
    assert level(MEAN, OperandType.TENSOR_FLOAT16, 0) == FeatureLevel.LEVEL_3
    assert level(MEAN, OperandType.TENSOR_QUANT8_ASYMM, 0) == FeatureLevel.LEVEL_2
    assert level(OperationType.REDUCE_MAX, OperandType.TENSOR_FLOAT32, False) == FeatureLevel.LEVEL_3
    assert level(OperationType.REDUCE_MAX, QUANT8_TYPES[1], False) == FeatureLevel.LEVEL_4
