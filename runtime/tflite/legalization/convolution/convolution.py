"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.convolution.weighted_sum import convert_bias, convert_weights
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    emit_activated,
    padding,
)


def conv_2d(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes CONV_2D in NHWC; filters have the output channels first.

    Less filter depth means a grouped convolution.
    """
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = convert_weights(graph, source, weights)
    inputs = (
        source,
        weights,
        convert_bias(graph, operator, source, weights, 0),
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
    )
    result, groups = graph.output(operator), _groups(graph, source, weights)
    is_plain = is_quantized(graph.operand(source)) == is_quantized(graph.operand(weights))
    is_int16 = graph.operand(source).type is OperandType.TENSOR_QUANT16_SYMM
    if groups > 1 and is_plain and not is_int16 and not _dilations(graph, options):
        layout = (graph.boolean(value=False),)
        grouped = *inputs, graph.int32(groups)
        emit_activated(graph, OperationType.GROUPED_CONV_2D, grouped, options, result, layout)
        return
    emit_activated(graph, OperationType.CONV_2D, inputs, options, result, _dilations(graph, options))


def depthwise_conv_2d(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes DEPTHWISE_CONV_2D.

    Like TFLite, takes the multiplier from the shapes if known, not from the option.
    """
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = convert_weights(graph, source, weights)
    multiplier = options["depth_multiplier"]
    depth, channels = (
        dimensions[3] if dimensions is not None and len(dimensions) == 4 else 0
        for dimensions in (graph.operand(source).dimensions, graph.operand(weights).dimensions)
    )
    if depth and channels and channels % depth == 0:
        multiplier = channels // depth
    inputs = (
        source,
        weights,
        convert_bias(graph, operator, source, weights, 3),
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
        graph.int32(multiplier),
    )
    result = graph.output(operator)
    emit_activated(
        graph, OperationType.DEPTHWISE_CONV_2D, inputs, options, result, _dilations(graph, options)
    )


def transpose_conv(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes TRANSPOSE_CONV. TFLite has the output's shape as the first input."""
    shape, weights, source = (graph.input(operator, position) for position in range(3))
    weights = convert_weights(graph, source, weights)
    inputs = (
        source,
        weights,
        convert_bias(graph, operator, source, weights, 0, position=3),
        shape,
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
    )
    layout = (graph.boolean(value=False),)
    emit_activated(graph, OperationType.TRANSPOSE_CONV_2D, inputs, options, graph.output(operator), layout)


def _dilations(graph: SubgraphBuilder, options: Options) -> tuple[int, ...]:
    """Returns layout and dilations.

    Empty for the defaults, so that devices of lower levels accept the operation.
    """
    width, height = options["dilation_width"], options["dilation_height"]
    if width == height == 1:
        return ()
    return graph.boolean(value=False), graph.int32(width), graph.int32(height)


def _groups(graph: SubgraphBuilder, source: int, weights: int) -> int:
    """Returns the ratio of the input's depth to that of the weights; 0 if unknown."""
    shapes = graph.operand(source).dimensions, graph.operand(weights).dimensions
    depths = [shape[3] for shape in shapes if shape is not None and len(shape) == 4]
    if len(depths) < len(shapes) or not all(depths) or depths[0] % depths[1]:
        return 0
    return depths[0] // depths[1]


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CONV_2D: Legalization(rule=conv_2d, options="Conv2DOptions", inputs=(2, 3)),
    BuiltinOperator.DEPTHWISE_CONV_2D: Legalization(
        rule=depthwise_conv_2d, options="DepthwiseConv2DOptions", inputs=(2, 3)
    ),
    BuiltinOperator.TRANSPOSE_CONV: Legalization(
        rule=transpose_conv, options="TransposeConvOptions", inputs=(3, 4)
    ),
}
