from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import PAIRS_OF_SHAPES, label, numbers, result, rows
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

OPERATIONS = (
    OperationType.TFLITE_BITWISE_XOR,
    OperationType.TFLITE_RIGHT_SHIFT,
    OperationType.TFLITE_STABLEHLO_AND,
    OperationType.TFLITE_STABLEHLO_SHIFT_LEFT,
)
SHIFTS = (OperationType.TFLITE_RIGHT_SHIFT, OperationType.TFLITE_STABLEHLO_SHIFT_LEFT)


@sweep("shapes", PAIRS_OF_SHAPES)
@sweep(("operation", "types"), rows(OPERATIONS), ids=label)
def test_every_type(
    operation: OperationType,
    types: dict[str, OperandType],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    inputs = [numbers(types["T"], shapes[0]), numbers(types["T"], shapes[1], seed=1)]
    expect_same(operation, inputs, result(types["T"]), data=(0, 1))


@sweep("kind", [OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_ASYMM_SIGNED])
@sweep("operation", SHIFTS)
def test_shifts_beyond_the_bits(operation: OperationType, kind: OperandType) -> None:
    inputs = [given(kind, [-100, 100, -1, -100, 77]), given(kind, [-1, 100, 7, 0, 31])]
    expect_same(operation, inputs, result(kind), data=(0, 1))
