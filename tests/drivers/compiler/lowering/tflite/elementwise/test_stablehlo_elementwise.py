from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows, same
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

OPERATIONS = (
    OperationType.TFLITE_STABLEHLO_ADD,
    OperationType.TFLITE_STABLEHLO_MULTIPLY,
    OperationType.TFLITE_STABLEHLO_MAXIMUM,
    OperationType.TFLITE_STABLEHLO_MINIMUM,
)


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(OPERATIONS), ids=label)
def test_every_type(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    inputs = [numbers(types["T"], shape), numbers(types["T"], shape, seed=1)]
    expect_same(operation, inputs, result(types["T"]), data=(0, 1), compare=same)
