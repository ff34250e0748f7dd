"""Weighted sums of 16-bit activations with 8-bit weights."""

from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.signature import row

#: Types with 16-bit activations.
INT16_ROWS = tuple(
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_QUANT16_SYMM, F=filter_, B=bias)
    for filter_ in (OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
    for bias in (OperandType.TENSOR_INT64, OperandType.TENSOR_INT32)
)
#: Largest magnitude of a 16-bit activation.
MAX_INT16_MAGNITUDE = 1 << 15


def is_int16(call: Call) -> bool:
    """Returns True if the activations have 16 bits."""
    return call.operand("input").type is OperandType.TENSOR_QUANT16_SYMM
