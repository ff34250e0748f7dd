"""BITWISE_XOR, RIGHT_SHIFT, and StableHLO's AND and SHIFT_LEFT."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation

LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BITWISE_XOR: Legalization(
        rule=operation(OperationType.TFLITE_BITWISE_XOR, typed_as=0), inputs=(2, 2)
    ),
    BuiltinOperator.RIGHT_SHIFT: Legalization(
        rule=operation(OperationType.TFLITE_RIGHT_SHIFT, typed_as=0), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_AND: Legalization(
        rule=operation(OperationType.TFLITE_STABLEHLO_AND, typed_as=0), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_SHIFT_LEFT: Legalization(
        rule=operation(OperationType.TFLITE_STABLEHLO_SHIFT_LEFT, typed_as=0), inputs=(2, 2)
    ),
}
