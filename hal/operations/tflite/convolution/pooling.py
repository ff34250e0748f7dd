"""AVERAGE_POOL_2D and MAX_POOL_2D, including 16-bit quantised values, without scale checks."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.convolution import pooling
from neurald.hal.operations.machinery.rules import data_rows, known_activation
from neurald.hal.operations.machinery.signature import row
from neurald.hal.records import replace

_ROWS = (
    *data_rows(quant8=FeatureLevel.LEVEL_1),
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_QUANT16_SYMM, S=OperandType.FLOAT32, zero_points16=True),
)

_TYPES = {
    OperationType.AVERAGE_POOL_2D: OperationType.TFLITE_AVERAGE_POOL_2D,
    OperationType.MAX_POOL_2D: OperationType.TFLITE_MAX_POOL_2D,
}

DEFINITIONS = tuple(
    replace(
        definition,
        type=_TYPES[definition.type],
        rows=_ROWS,
        checks=(known_activation,),
        widens=definition.type,
    )
    for definition in pooling.DEFINITIONS
    if definition.type in _TYPES
)
