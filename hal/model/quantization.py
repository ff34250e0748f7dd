"""The quantisation of operands."""

from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType

#: Operand types whose elements represent (quantised value - zero_point) * scale.
QUANTIZED = frozenset(
    (
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        OperandType.TENSOR_QUANT8_SYMM,
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        OperandType.TENSOR_QUANT16_ASYMM,
        OperandType.TENSOR_QUANT16_SYMM,
    )
)


def is_quantized(operand: Operand) -> bool:
    """Returns True if the operand's elements are scaled integers."""
    return operand.type in QUANTIZED


def encoding_of(operand: Operand) -> tuple[object, ...]:
    """Returns the properties that determine the meaning of an operand's bytes."""
    return operand.type, operand.scale, operand.zero_point, operand.channel_quant
