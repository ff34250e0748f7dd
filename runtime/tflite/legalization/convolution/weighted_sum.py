"""Weights and biases of convolutions and fully connected layers.

float16 weights are converted to float32 at run time if the activations are float32.
"""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder

#: Bias types by type of quantised input; TENSOR_INT32 for all others.
_BIASES = {OperandType.TENSOR_QUANT16_SYMM: OperandType.TENSOR_INT64}


def convert_weights(graph: SubgraphBuilder, source: int, weights: int) -> int:
    """Converts weights or bias to the activations' type, unless quantised.

    TFLite reads unsigned bytes as signed.
    """
    operand = graph.operand(weights)
    if operand.type is OperandType.TENSOR_QUANT8_ASYMM and not is_quantized(graph.operand(source)):
        return graph.as_signed(weights)
    if (graph.operand(source).type, operand.type) != (
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_FLOAT16,
    ):
        return weights
    wide = graph.temporary(source, operand.dimensions)
    graph.emit(OperationType.CAST, (weights,), (wide,))
    return wide


def convert_bias(
    graph: SubgraphBuilder,
    operator: Operator,
    source: int,
    weights: int,
    channel_axis: int,
    position: int = 2,
) -> int:
    """Returns the bias with the scale that Android NN requires; zeros if TFLite omits it."""
    operand, kernel = graph.operand(source), graph.operand(weights)
    quantized = is_quantized(operand)
    scale = operand.scale * kernel.scale if quantized else 0.0
    if graph.has(operator, position):
        bias = graph.flat(convert_weights(graph, source, graph.input(operator, position)))
        is_scaled = quantized and graph.operand(bias).type is OperandType.TENSOR_INT32
        return graph.bias(bias, scale) if is_scaled else bias
    if not kernel.dimensions or len(kernel.dimensions) <= channel_axis or not kernel.dimensions[channel_axis]:
        raise UnsupportedFeature(
            f"without a bias the number of channels must be known; the weights have {kernel.dimensions}"
        )
    bias_type = _BIASES.get(operand.type, OperandType.TENSOR_INT32) if quantized else operand.type
    scale = scale if bias_type is OperandType.TENSOR_INT32 else 0.0
    return graph.zeros(bias_type, kernel.dimensions[channel_axis], scale)
