import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

AND, SHIFT_LEFT = OperationType.TFLITE_STABLEHLO_AND, OperationType.TFLITE_STABLEHLO_SHIFT_LEFT
INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
UINT32, BOOL = OperandType.TENSOR_UINT32, OperandType.TENSOR_BOOL8


def scale_of(kind: OperandType) -> float:
    return 1.0 if kind in (INT8, INT16) else 0.0


@sweep("kind", [INT8, INT16, INT32, INT64, UINT32, BOOL])
@sweep("shapes", [((), ()), ((2, 3), (3,)), ((0, 2), (1, 2)), ((2, 1, 2), (3, 1))])
def test_and(kind: OperandType, shapes: tuple[tuple[int, ...], ...]) -> None:
    generator = np.random.default_rng(0)
    first, second = (generator.integers(0, 120, shape).astype(kind.dtype) for shape in shapes)
    scale = scale_of(kind)
    result = evaluate(AND, [given(kind, first, scale), given(kind, second, scale)], wanted(kind, scale))
    np.testing.assert_array_equal(result, first & second)


@sweep("kind", [INT8, INT16, INT32])
def test_shift_left(kind: OperandType) -> None:
    width = 8 * kind.dtype.itemsize
    values = np.arange(-5, 6)[:, None]
    bits = np.array([-1, 0, 1, width - 1, width, 100])
    scale = scale_of(kind)
    result = evaluate(SHIFT_LEFT, [given(kind, values, scale), given(kind, bits, scale)], wanted(kind, scale))
    expected = np.where((bits >= 0) & (bits < width), values << np.clip(bits, 0, width - 1), 0)
    np.testing.assert_array_equal(result, expected.astype(kind.dtype))


@sweep(("operation", "kind"), [(AND, OperandType.TENSOR_FLOAT32), (SHIFT_LEFT, INT64)])
def test_refuses_types(operation: OperationType, kind: OperandType) -> None:
    with pytest.raises(BadData, match=f"has type {kind.name}"):
        evaluate(operation, [given(kind, [1]), given(kind, [1])], wanted(kind))
