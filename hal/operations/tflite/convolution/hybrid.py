"""Weighted sums of floats with 8-bit weights: inputs are quantised at run time, row by row.

A row (an image of a convolution) gets scale and zero point from its smallest and largest element.
The sums of products are then exact; they are converted to floats with the scales of the row and of
the weights. Zero points of weights are treated as 0.
"""

import math
from collections.abc import Sequence

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import activate
from neurald.hal.operations.convolution.weighted_sum import MAX_EXACT_FLOAT32, Writer
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.signature import row

#: Types of input and output (T), weights (F) and bias (B).
ROWS = tuple(
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32, F=weights, B=OperandType.TENSOR_FLOAT32)
    for weights in (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)
)


def is_hybrid(call: Call, values: str = "input", weights: str = "filter") -> bool:
    """Returns True if an operation has float inputs and quantised weights."""
    return is_quantized(call.operand(weights)) and not is_quantized(call.operand(values))


def raw_weights(call: Call, summed: Sequence[int]) -> Array:
    """Returns the raw weights in a float type in which sums along the axes `summed` are exact."""
    from neurald.hal.operations.arithmetic.row_quantization import MAX_QUANTIZED_MAGNITUDE

    values = call.array("filter")
    terms = math.prod(values.shape[axis] for axis in summed)
    # A quantised input minus its zero point may have twice the magnitude.
    is_small = 2 * MAX_QUANTIZED_MAGNITUDE * MAX_QUANTIZED_MAGNITUDE * terms <= MAX_EXACT_FLOAT32
    return values.astype(np.float32 if is_small else np.float64)


def weight_scales(operand: Operand) -> Array:
    """Returns the scale of each channel, or of all: float32, shape (channels,) or (1,)."""
    quant = operand.channel_quant
    return np.array((operand.scale,) if quant is None else quant.scales, np.float32)


def multiplies_scales(call: Call) -> bool:
    """Returns True if sums are multiplied by the product of both scales, as TFLite does.

    It multiplies them by one scale after the other in convolutions that are not depthwise.
    """
    return call.binding.type in (
        OperationType.TFLITE_DEPTHWISE_CONV_2D,
        OperationType.TFLITE_FULLY_CONNECTED,
    )


def float_writer(call: Call, scale: Array, offset: Array | float = 0.0) -> Writer:
    """Returns a function that converts the sums of one image, or of rows, to outputs.

    Args:
        call: the operation.
        scale: the scale of the quantised input, for the image or, (rows, 1), for each row.
        offset: for each channel, the contribution of the input's zero point to the sums.
    """
    scales = weight_scales(call.operand("filter"))
    bias = call.array("bias").astype(np.float32) if call.has("bias") else np.float32(0)
    activation, is_product = call.activation, multiplies_scales(call)

    def write(sums: Array, out: Array) -> None:
        sums += np.asarray(offset, sums.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if is_product:
                scaled = sums.astype(np.float32) * (scales * scale)
            else:
                scaled = sums.astype(np.float32) * scales * scale
            out[...] = activate(scaled + bias, activation)

    return write
