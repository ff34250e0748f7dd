"""MATRIX_DIAG and MATRIX_SET_DIAG."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    operation,
)

LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.MATRIX_DIAG: Legalization(rule=operation(OperationType.TFLITE_MATRIX_DIAG)),
    BuiltinOperator.MATRIX_SET_DIAG: Legalization(
        rule=operation(OperationType.TFLITE_MATRIX_SET_DIAG), inputs=(2, 2)
    ),
}
