"""NON_MAX_SUPPRESSION_V4 and NON_MAX_SUPPRESSION_V5."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation

LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.NON_MAX_SUPPRESSION_V4: Legalization(
        rule=operation(OperationType.TFLITE_NON_MAX_SUPPRESSION_V4), inputs=(5, 5), outputs=(2, 2)
    ),
    BuiltinOperator.NON_MAX_SUPPRESSION_V5: Legalization(
        rule=operation(OperationType.TFLITE_NON_MAX_SUPPRESSION_V5), inputs=(6, 6), outputs=(3, 3)
    ),
}
