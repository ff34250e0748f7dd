from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import call_of, evaluate, given, ints, unknown, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import UnknownValue

FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
SUM, BUCKETIZE = OperationType.TFLITE_SEGMENT_SUM, OperationType.TFLITE_BUCKETIZE
UNSORTED = {
    OperationType.TFLITE_UNSORTED_SEGMENT_SUM: (np.add, 0, 0),
    OperationType.TFLITE_UNSORTED_SEGMENT_PROD: (np.multiply, 1, 1),
    OperationType.TFLITE_UNSORTED_SEGMENT_MAX: (np.maximum, -(2**31), float(np.finfo(np.float32).min)),
    OperationType.TFLITE_UNSORTED_SEGMENT_MIN: (np.minimum, 2**31 - 1, float(np.finfo(np.float32).max)),
}
WHOLE = {
    "u1": OperandType.TENSOR_QUANT8_ASYMM,
    "i1": OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    "u2": OperandType.TENSOR_QUANT16_ASYMM,
    "i2": OperandType.TENSOR_QUANT16_SYMM,
    "u4": OperandType.TENSOR_UINT32,
    "i4": INT32,
}


@sweep("operand_type", [FLOAT32, INT32])
@sweep("shape", [(5,), (5, 3), (5, 0), (5, 2, 1, 2)])
def test_sorted_segments(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    x = given(operand_type, np.random.default_rng(0).integers(-9, 9, shape))
    result = evaluate(SUM, [x, ints(0, 0, 1, 2, 2)], wanted(operand_type))
    data = value(x)
    np.testing.assert_array_equal(result, np.stack([data[:2].sum(0), data[2], data[3:].sum(0)]))


def test_no_segments() -> None:
    assert evaluate(SUM, [given(FLOAT32, np.zeros((0, 3))), ints()], wanted(FLOAT32)).shape == (0, 3)


@sweep("segments", [[1, 1, 2], [0, 2, 2], [0, 1, 0], [0, 0], [[0], [0], [1]], [-1, 0, 0]])
def test_refuses_sorted_segments(segments: Any) -> None:
    with pytest.raises(BadData, match="segments"):
        evaluate(SUM, [given(FLOAT32, np.zeros((3, 2))), given(INT32, segments)], wanted(FLOAT32))


@sweep("operation", UNSORTED)
@sweep("operand_type", [FLOAT32, INT32])
@sweep("rank", [1, 2])
def test_unsorted_segments(operation: OperationType, operand_type: OperandType, rank: int) -> None:
    function, lowest, real_lowest = UNSORTED[operation]
    generator = np.random.default_rng(0)
    x = given(operand_type, generator.integers(-3, 4, (4, 3, 2)))
    segments = given(INT32, generator.integers(-1, 5, (4, 3)[:rank]))
    result = evaluate(operation, [x, segments, ints(6)], wanted(operand_type))
    start = real_lowest if operand_type is FLOAT32 else lowest
    expected = np.full((6, *(4, 3, 2)[rank:]), start, operand_type.dtype)
    for position in np.ndindex(value(segments).shape):
        segment = value(segments)[position]
        if segment >= 0:
            expected[segment] = function(expected[segment], value(x)[position])
    np.testing.assert_array_equal(result, expected)


@sweep(
    ("segments", "count", "message"),
    [
        ([0, 1], [2], "leading lengths"),
        ([0, 1, 2], [2], "has 2; less than 2"),
        ([0, 0, 0], [-1], "at least 0"),
        ([0, 0, 0], [1, 1], "one number"),
        ([[[[0]]]], [1], "leading lengths"),
    ],
)
def test_refuses_unsorted_segments(segments: Any, count: Any, message: str) -> None:
    arguments = [given(FLOAT32, np.zeros((3, 2))), given(INT32, segments), given(INT32, count)]
    with pytest.raises(BadData, match=message):
        evaluate(OperationType.TFLITE_UNSORTED_SEGMENT_SUM, arguments, wanted(FLOAT32))


def test_the_number_of_segments_depends_on_values() -> None:
    data = given(FLOAT32, np.zeros((3, 2)))
    call = call_of(SUM, [data, unknown(ints(0, 0, 1))], wanted(FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[SUM].shape(call)
    maximum = OperationType.TFLITE_UNSORTED_SEGMENT_MAX
    call = call_of(maximum, [data, ints(0, 0, 1), unknown(ints(4))], wanted(FLOAT32))
    with pytest.raises(UnknownValue):
        DEFINITIONS[maximum].shape(call)


@sweep("operand_type", [FLOAT32, INT32, OperandType.TENSOR_INT64, OperandType.TENSOR_FLOAT64])
@sweep("shape", [(), (0,), (2, 1, 3, 1, 20)])
def test_buckets(operand_type: OperandType, shape: tuple[int, ...]) -> None:
    x = given(operand_type, np.random.default_rng(0).integers(-20, 20, shape))
    boundaries = np.array([-7, 0, 3, 3, 10.5], np.float32)
    result = evaluate(BUCKETIZE, [x, given(FLOAT32, boundaries)], wanted(INT32))
    np.testing.assert_array_equal(result, (value(x)[..., None] >= boundaries).sum(axis=-1))


@sweep(
    ("boundaries", "problem"),
    [
        ([0, 2, 1, 0], "must be sorted; 1.0 follows 2.0"),
        ([0, float("nan")], "must be sorted; nan follows 0.0"),
        ([float("nan")], "is NaN; a number is expected"),
    ],
)
def test_refuses_unsorted_boundaries(boundaries: Any, problem: str) -> None:
    with pytest.raises(BadData, match=problem):
        evaluate(BUCKETIZE, [given(FLOAT32, [1]), given(FLOAT32, boundaries)], wanted(INT32))


@sweep("kind", WHOLE)
@sweep(("first", "second"), [((), ()), ((2, 1, 4), (3, 1)), ((0, 2), (2,))])
def test_bits(kind: str, first: Any, second: Any) -> None:
    limits, generator = np.iinfo(kind), np.random.default_rng(0)
    scale = 0.0 if kind.endswith("4") else 1.0
    values = generator.integers(limits.min, limits.max, first, kind, endpoint=True)
    others = generator.integers(limits.min, limits.max, second, kind, endpoint=True)
    x, y = given(WHOLE[kind], values, scale), given(WHOLE[kind], others, scale)
    output = wanted(WHOLE[kind], scale)
    np.testing.assert_array_equal(evaluate(OperationType.TFLITE_BITWISE_XOR, [x, y], output), values ^ others)
    bits = np.clip(others.astype(np.int64), 0, limits.bits - 1)
    np.testing.assert_array_equal(
        evaluate(OperationType.TFLITE_RIGHT_SHIFT, [x, y], output), values.astype(np.int64) >> bits
    )
