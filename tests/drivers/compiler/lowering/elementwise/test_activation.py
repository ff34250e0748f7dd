from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import SHAPES, label, numbers, result, rows, same
from support.operations.single_operation import QUANT8_TYPES, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

CLAMPS = (OperationType.RELU, OperationType.RELU1, OperationType.RELU6)
#: Android fixes the scale and zero point of these outputs; the values are for unsigned ones.
CURVES = {OperationType.LOGISTIC: (1 / 256, 0), OperationType.TANH: (1 / 128, 128)}


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(CLAMPS), ids=label)
def test_clamps(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    expect_same(operation, [numbers(types["T"], shape)], result(types["T"]), compare=same)


@sweep("shape", SHAPES)
@sweep(("operation", "types"), rows(CURVES), ids=label)
def test_curves(operation: OperationType, types: dict[str, OperandType], shape: tuple[int, ...]) -> None:
    kind = types["T"]
    output = result(kind)
    if kind in QUANT8_TYPES:
        scale, zero_point = CURVES[operation]
        output = wanted(
            kind, scale, zero_point if kind is OperandType.TENSOR_QUANT8_ASYMM else zero_point - 128
        )
    expect_same(operation, [numbers(kind, shape)], output, compare=same)
