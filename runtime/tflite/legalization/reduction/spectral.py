"""RFFT2D: the Fourier transform of real matrices."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation

LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.RFFT2D: Legalization(rule=operation(OperationType.TFLITE_RFFT2D), inputs=(2, 2))
}
