import numpy as np
import pytest
from support.compiler.lowering_beside_reference import close, expect_same, lowered_all
from support.operations.single_operation import given, ints, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
UNSORTED = (
    OperationType.TFLITE_UNSORTED_SEGMENT_MAX,
    OperationType.TFLITE_UNSORTED_SEGMENT_MIN,
    OperationType.TFLITE_UNSORTED_SEGMENT_PROD,
    OperationType.TFLITE_UNSORTED_SEGMENT_SUM,
)
generator = np.random.default_rng(12)


@sweep("kind", [FLOAT, INT32])
@sweep("segments", [(0,), (0, 0, 1, 1, 1, 2), ()])
def test_sorted(segments: tuple[int, ...], kind: OperandType) -> None:
    for rest in ((), (3,), (2, 0)):
        source = given(kind, generator.integers(-9, 9, (len(segments), *rest)))
        operation = OperationType.TFLITE_SEGMENT_SUM
        expect_same(operation, [source, ints(*segments)], wanted(kind), compare=close)


@sweep("kind", [FLOAT, INT32])
@sweep("operation", UNSORTED)
def test_unsorted(operation: OperationType, kind: OperandType) -> None:
    segments = np.array([[3, -1, 0], [3, 3, 5]])
    source = given(kind, generator.integers(-9, 9, (2, 3, 4)))
    inputs = [source, given(INT32, segments), ints(7)]
    none = [given(kind, np.zeros((0, 4))), ints(), ints(2)]
    many = [given(kind, generator.integers(-9, 9, (300, 2))), given(INT32, np.zeros(300)), ints(300)]
    for data in ((0,), (0, 1)):
        expect_same(operation, inputs, wanted(kind), data=data, compare=close)
        expect_same(operation, none, wanted(kind), data=data)
        expect_same(operation, many, wanted(kind), data=data, compare=close)


def test_segments_must_be_below_their_number() -> None:
    inputs = [given(FLOAT, [1, 2]), ints(0, 3), ints(3)]
    for operation in UNSORTED:
        with pytest.raises(RequirementFailed, match="less than 3 is expected"):
            lowered_all(operation, inputs, wanted(FLOAT), data=(0, 1))


def test_infinite_elements() -> None:
    source = given(FLOAT, [-np.inf, np.inf])
    for operation in UNSORTED[:2]:
        expect_same(operation, [source, ints(0, 1), ints(2)], wanted(FLOAT))


@sweep("boundaries", [(), (0.0,), (-2.0, 0.0, 0.0, 3.5)])
def test_buckets(boundaries: tuple[float, ...]) -> None:
    for kind in (FLOAT, OperandType.TENSOR_FLOAT64, INT32, OperandType.TENSOR_INT64):
        values = generator.integers(-4, 5, (5, 6)).astype(np.float64)
        if kind in (FLOAT, OperandType.TENSOR_FLOAT64):
            values[0, :4] = np.nan, np.inf, -np.inf, 3.5
        inputs = [given(kind, values), given(FLOAT, boundaries)]
        for data in ((0,), (0, 1)):
            expect_same(OperationType.TFLITE_BUCKETIZE, inputs, wanted(INT32), data=data)


@sweep("boundaries", [(1.0, 0.0), (0.0, np.nan), (np.nan,)])
def test_unsorted_boundaries_fail(boundaries: tuple[float, ...]) -> None:
    inputs = [given(INT32, [1]), given(FLOAT, boundaries)]
    with pytest.raises(RequirementFailed, match="not sorted"):
        lowered_all(OperationType.TFLITE_BUCKETIZE, inputs, wanted(INT32), data=(0, 1))
