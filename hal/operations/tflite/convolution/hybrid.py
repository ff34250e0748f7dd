"""Weighted sums of floats with weights of 8 bits: the inputs are quantised when they come, row by row.

A row (an image of a convolution) gets a scale and a zero point from its own smallest and largest element. Sums of products are
exact then; they become floats again with the row's scale times that of the weights. Zero points of weights count as 0.
"""

import math
from collections.abc import Sequence

import numpy as np

from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, Operand, OperandType
from neurald.hal.operations.arithmetic.quantized import activate
from neurald.hal.operations.arithmetic.row_quantization import LARGEST
from neurald.hal.operations.convolution.weighted_sum import Writer
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.signature import row

#: Types of input and output (T), weights (F) and bias (B).
ROWS = tuple(
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32, F=weights, B=OperandType.TENSOR_FLOAT32)
    for weights in (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)
)

#: Integers up to here are exact in float32.
_EXACT_FLOAT32 = 1 << 24


def is_hybrid(call: Call, values: str = "input", weights: str = "filter") -> bool:
    """Whether an operation has float inputs and quantised weights."""
    return is_quantized(call.operand(weights)) and not is_quantized(call.operand(values))


def stored_weights(call: Call, summed: Sequence[int], name: str = "filter") -> Array:
    """The stored weights as floating point in which the sums along the axes `summed` are exact."""
    values = call.array(name)
    terms = math.prod(values.shape[axis] for axis in summed)
    # A quantised input less its zero point may have twice the magnitude.
    is_small = 2 * LARGEST * LARGEST * terms <= _EXACT_FLOAT32
    return values.astype(np.float32 if is_small else np.float64)


def weight_scales(operand: Operand) -> Array:
    """The scale of each channel, or of all; shape (channels,) or (1,), float32."""
    quant = operand.channel_quant
    return np.array((operand.scale,) if quant is None else quant.scales, np.float32)


def float_writer(call: Call, scale: Array, offset: Array | float = 0.0) -> Writer:
    """How the sums of one image, or of rows, become outputs.

    Args:
        call: the operation.
        scale: of the quantised input, for the image or, (rows, 1), each row.
        offset: for each channel, what the input's zero point adds to the sums.
    """
    scales = weight_scales(call.operand("filter"))
    bias = call.array("bias").astype(np.float32) if call.has("bias") else np.float32(0)
    activation = call.activation

    def write(sums: Array, out: Array) -> None:
        sums += np.asarray(offset, sums.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            out[...] = activate(sums.astype(np.float32) * scales * scale + bias, activation)

    return write
