import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.operations.pointwise import SHAPES, label, numbers, result, rows, same
from support.operations.single_operation import given, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

ROOTS = (OperationType.TFLITE_RSQRT, OperationType.TFLITE_SQRT)
FUNCTIONS = (
    OperationType.TFLITE_ABS,
    OperationType.TFLITE_CEIL,
    OperationType.TFLITE_COS,
    OperationType.TFLITE_EXP,
    OperationType.TFLITE_FLOOR,
    OperationType.TFLITE_LOG,
    OperationType.TFLITE_NEG,
    OperationType.TFLITE_ROUND,
    OperationType.TFLITE_SIGN,
    OperationType.TFLITE_SQUARE,
)
INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(FUNCTIONS), ids=label)
def test_every_type(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    kind = types["T"]
    # 16-bit numbers have the real range of 8-bit ones.
    scale = 0.05 / 256 if kind is INT16 else 0.05
    expect_same(operation, [numbers(kind, shape, scale=scale)], result(kind, 0.8 * scale), compare=same)


def test_ties_are_rounded_to_even_numbers() -> None:
    x = given(FLOATS[0], [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan])
    expect_same(OperationType.TFLITE_ROUND, [x], result(FLOATS[0]))


@sweep("kind", FLOATS)
@sweep("operation", ROOTS)
def test_roots_of_reals(operation: OperationType, kind: OperandType) -> None:
    expect_same(operation, [numbers(kind, (3, 5))], result(kind), compare=same)


@sweep(("kind", "zero_point"), [(INT8, -128), (INT8, -3), (INT16, 0)])
@sweep("operation", ROOTS)
def test_roots_of_quantized_values(operation: OperationType, kind: OperandType, zero_point: int) -> None:
    quantized = np.random.default_rng(0).integers(zero_point, np.iinfo(kind.dtype.name).max + 1, (5, 7))
    quantized[0, 0] = zero_point
    expect_same(
        operation, [given(kind, quantized, 0.3, zero_point)], wanted(kind, 0.02, 0 if kind is INT16 else -50)
    )


@sweep("kind", [INT8, INT16])
@sweep("operation", ROOTS)
def test_roots_of_negative_numbers_fail(operation: OperationType, kind: OperandType) -> None:
    with pytest.raises(RequirementFailed, match="root"):
        lowered_all(operation, [given(kind, [3, -1], 0.5)], wanted(kind, 0.5))
