"""Weighted sums: convolutions and fully connected layers.

float16 weights are converted to float32 at run time if the activations are float32.
"""

from dataclasses import replace

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import Operand, OperandType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import (
    Lowering,
    emit_activated,
    padding,
)
from neurald.runtime.tflite.numbers import BuiltinOperator, FullyConnectedOptionsWeightsFormat
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator

_DEFAULT = FullyConnectedOptionsWeightsFormat.DEFAULT
_SHUFFLED = FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8
#: Rows and columns of a block of shuffled weights.
_BLOCK = (4, 16)
_SHUFFLED_ZERO_POINT = 128
#: Maximum rank of the input of Android's FULLY_CONNECTED.
_HIGHEST_RANK = 4
#: Type of block scales after conversion.
_REAL = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=None)
#: Bias types by type of quantised input; TENSOR_INT32 for all others.
_BIASES = {OperandType.TENSOR_QUANT16_SYMM: OperandType.TENSOR_INT64}


def _weights(graph: Graph, source: int, weights: int) -> int:
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


def _bias(
    graph: Graph, operator: Operator, source: int, weights: int, channel_axis: int, position: int = 2
) -> int:
    """Returns the bias with the scale that Android NN requires; zeros if TFLite omits it."""
    operand, kernel = graph.operand(source), graph.operand(weights)
    is_stored = is_quantized(operand)
    scale = operand.scale * kernel.scale if is_stored else 0.0
    if graph.has(operator, position):
        bias = graph.flat(_weights(graph, source, graph.input(operator, position)))
        is_scaled = is_stored and graph.operand(bias).type is OperandType.TENSOR_INT32
        return graph.bias(bias, scale) if is_scaled else bias
    if not kernel.dimensions or len(kernel.dimensions) <= channel_axis or not kernel.dimensions[channel_axis]:
        raise Unsupported(
            f"without a bias the number of channels must be known; the weights have {kernel.dimensions}"
        )
    bias_type = _BIASES.get(operand.type, OperandType.TENSOR_INT32) if is_stored else operand.type
    scale = scale if bias_type is OperandType.TENSOR_INT32 else 0.0
    return graph.zeros(bias_type, kernel.dimensions[channel_axis], scale)


def _dilations(graph: Graph, options: Options) -> tuple[int, ...]:
    """Returns layout and dilations.

    Empty for the defaults, so that devices of lower levels accept the operation.
    """
    width, height = options["dilation_width"], options["dilation_height"]
    if width == height == 1:
        return ()
    return graph.boolean(value=False), graph.int32(width), graph.int32(height)


def _groups(graph: Graph, source: int, weights: int) -> int:
    """Returns the ratio of the input's depth to that of the weights; 0 if unknown."""
    shapes = graph.operand(source).dimensions, graph.operand(weights).dimensions
    depths = [shape[3] for shape in shapes if shape is not None and len(shape) == 4]
    if len(depths) < len(shapes) or not all(depths) or depths[0] % depths[1]:
        return 0
    return depths[0] // depths[1]


def conv_2d(graph: Graph, operator: Operator, options: Options) -> None:
    """CONV_2D in NHWC; filters have the output channels first.

    Less filter depth means a grouped convolution.
    """
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = _weights(graph, source, weights)
    inputs = (
        source,
        weights,
        _bias(graph, operator, source, weights, 0),
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
    )
    result, groups = graph.output(operator), _groups(graph, source, weights)
    is_plain = is_quantized(graph.operand(source)) == is_quantized(graph.operand(weights))
    is_short = graph.operand(source).type is OperandType.TENSOR_QUANT16_SYMM
    if groups > 1 and is_plain and not is_short and not _dilations(graph, options):
        layout = (graph.boolean(value=False),)
        grouped = *inputs, graph.int32(groups)
        emit_activated(graph, OperationType.GROUPED_CONV_2D, grouped, options, result, layout)
        return
    emit_activated(graph, OperationType.CONV_2D, inputs, options, result, _dilations(graph, options))


def depthwise_conv_2d(graph: Graph, operator: Operator, options: Options) -> None:
    """DEPTHWISE_CONV_2D.

    Like TFLite, takes the multiplier from the shapes if known, not from the option.
    """
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = _weights(graph, source, weights)
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
        _bias(graph, operator, source, weights, 3),
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
        graph.int32(multiplier),
    )
    result = graph.output(operator)
    emit_activated(
        graph, OperationType.DEPTHWISE_CONV_2D, inputs, options, result, _dilations(graph, options)
    )


def transpose_conv(graph: Graph, operator: Operator, options: Options) -> None:
    """TRANSPOSE_CONV. TFLite has the output's shape as the first input."""
    shape, weights, source = (graph.input(operator, position) for position in range(3))
    weights = _weights(graph, source, weights)
    inputs = (
        source,
        weights,
        _bias(graph, operator, source, weights, 0, position=3),
        shape,
        padding(graph, options),
        graph.int32(options["stride_width"]),
        graph.int32(options["stride_height"]),
    )
    layout = (graph.boolean(value=False),)
    emit_activated(graph, OperationType.TRANSPOSE_CONV_2D, inputs, options, graph.output(operator), layout)


def fully_connected(graph: Graph, operator: Operator, options: Options) -> None:
    """FULLY_CONNECTED.

    Android NN's takes at least rank 2, returns rank 2, and rounds quantised sums differently.
    """
    weights_format = options["weights_format"]
    if weights_format not in (_DEFAULT, _SHUFFLED):
        raise Unsupported(f"weights format {weights_format} is not supported")
    if len(operator.outputs) != (2 if weights_format == _SHUFFLED else 1):
        raise Unsupported(f"it has {len(operator.outputs)} outputs, with weights format {weights_format}")
    blockwise = graph.blockwise_input(operator, 1)
    if blockwise is not None:
        _fully_connected_blocks(graph, operator, options, blockwise)
        return
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = (
        _unshuffled(graph, source, weights)
        if weights_format == _SHUFFLED
        else _weights(graph, source, weights)
    )
    kernel, dimensions = graph.operand(weights).dimensions, graph.operand(source).dimensions
    is_open = kernel is None or not all(kernel) or dimensions is None
    is_stored = is_quantized(graph.operand(weights))
    if not graph.has(operator, 2) and (is_stored or is_open):
        bias = graph.omitted(OperandType.TENSOR_FLOAT32)
    else:
        bias = _bias(graph, operator, source, weights, 0)
    inputs, result = (source, weights, bias), graph.output(operator)
    if is_stored or is_open or len(kernel or ()) != 2:
        flags = [options["keep_num_dims"], options["asymmetric_quantize_inputs"]]
        if weights_format == _SHUFFLED:
            flags.append(True)
        tail = [graph.boolean(value=bool(flag)) for flag in flags]
        emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, result, tail)
        return
    _fully_connected_floats(graph, inputs, options, result)


def _fully_connected_blocks(
    graph: Graph, operator: Operator, options: Options, blockwise: tuple[int, int]
) -> None:
    """Emits FULLY_CONNECTED with block-quantised weights.

    LiteRT always quantises input rows asymmetrically then.
    """
    weights, scales = blockwise
    source, steps = graph.input(operator, 0), graph.value_like(_REAL)
    graph.emit(OperationType.CAST, (scales,), (steps,))
    bias = graph.omitted(OperandType.TENSOR_FLOAT32)
    if graph.has(operator, 2):
        bias = _bias(graph, operator, source, weights, 0)
    flags = (bool(options["keep_num_dims"]), True, False)
    tail = (*(graph.boolean(value=flag) for flag in flags), steps)
    inputs = source, weights, bias
    emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, graph.output(operator), tail)


def _unshuffled(graph: Graph, source: int, weights: int) -> int:
    """Converts weights in blocks of 4 rows and 16 columns to row-major order.

    Their sign bit is flipped; TFLite assumes a zero point of 128 for both inputs, regardless of the
    file.
    """
    operand, value = graph.operand(weights), graph.value(weights)
    if (
        value is None
        or value.ndim != 2
        or value.shape[0] % _BLOCK[0]
        or value.shape[1] % _BLOCK[1]
        or operand.type is not OperandType.TENSOR_QUANT8_ASYMM
    ):
        raise Unsupported(
            f"shuffled weights of type {operand.type.name} and shape {list(operand.dimensions or ())}; constants of "
            f"TENSOR_QUANT8_ASYMM whose lengths are multiples of {_BLOCK[0]} and {_BLOCK[1]} are expected"
        )
    if graph.operand(source).zero_point != _SHUFFLED_ZERO_POINT:
        raise Unsupported(
            f"shuffled weights with an input of zero point {graph.operand(source).zero_point}; "
            f"{_SHUFFLED_ZERO_POINT} is expected"
        )
    units, depth = value.shape
    blocks = value.reshape(units // _BLOCK[0], depth // _BLOCK[1], *_BLOCK)
    plain = blocks.swapaxes(1, 2).reshape(units, depth) ^ 0x80
    return graph.constant_like(replace(operand, zero_point=_SHUFFLED_ZERO_POINT), plain)


def _fully_connected_floats(
    graph: Graph, inputs: tuple[int, int, int], options: Options, result: int
) -> None:
    """Emits Android NN's FULLY_CONNECTED, with reshapes if the ranks require them."""
    source, weights, bias = inputs
    units, depth = graph.operand(weights).dimensions or ()
    dimensions = graph.operand(source).dimensions or ()
    kept: tuple[int, ...] | None = None
    if options["keep_num_dims"]:
        if dimensions[-1:] not in ((0,), (depth,)):
            raise Unsupported(f"the input has shape {list(dimensions)}; its last length must be {depth}")
        if dimensions[:-1].count(0) > 1 or len(dimensions) > _HIGHEST_RANK:
            flags = graph.boolean(value=True), graph.boolean(value=False)
            emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, result, flags)
            return
        kept = (*(length or -1 for length in dimensions[:-1]), units)
    if not 2 <= len(dimensions) <= _HIGHEST_RANK:
        flat = graph.temporary(source, (0, depth))
        graph.reshape(source, (-1, depth), flat)
        source = flat
    is_flat = kept is None or len(kept) == 2
    target = result if is_flat else graph.temporary(result, (0, units))
    emit_activated(graph, OperationType.FULLY_CONNECTED, (source, weights, bias), options, target)
    if kept is not None and not is_flat:
        graph.reshape(target, kept, result)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.TRANSPOSE_CONV: Lowering(
        rule=transpose_conv, options="TransposeConvOptions", inputs=(3, 4)
    ),
    BuiltinOperator.CONV_2D: Lowering(rule=conv_2d, options="Conv2DOptions", inputs=(2, 3)),
    BuiltinOperator.DEPTHWISE_CONV_2D: Lowering(
        rule=depthwise_conv_2d, options="DepthwiseConv2DOptions", inputs=(2, 3)
    ),
    BuiltinOperator.FULLY_CONNECTED: Lowering(
        rule=fully_connected, options="FullyConnectedOptions", inputs=(2, 3), outputs=(1, 2)
    ),
}
