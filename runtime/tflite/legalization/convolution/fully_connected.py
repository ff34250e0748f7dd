"""FULLY_CONNECTED."""

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, FullyConnectedOptionsWeightsFormat
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.convolution.weighted_sum import convert_bias, convert_weights
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    emit_activated,
)

_DEFAULT = FullyConnectedOptionsWeightsFormat.DEFAULT


_SHUFFLED = FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8


#: Rows and columns of a block of shuffled weights.
_BLOCK = (4, 16)


_SHUFFLED_ZERO_POINT = 128


#: Maximum rank of the input of Android's FULLY_CONNECTED.
_MAX_ANDROID_RANK = 4


#: Type of block scales after conversion.
_REAL = Operand(type=OperandType.TENSOR_FLOAT32, dimensions=None)


def fully_connected(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes FULLY_CONNECTED.

    Android NN's takes at least rank 2, returns rank 2, and rounds quantised sums differently.
    """
    weights_format = options["weights_format"]
    if weights_format not in (_DEFAULT, _SHUFFLED):
        raise UnsupportedFeature(f"weights format {weights_format} is not supported")
    if len(operator.outputs) != (2 if weights_format == _SHUFFLED else 1):
        raise UnsupportedFeature(
            f"it has {len(operator.outputs)} outputs, with weights format {weights_format}"
        )
    blockwise = graph.blockwise_input(operator, 1)
    if blockwise is not None:
        _fully_connected_blocks(graph, operator, options, blockwise)
        return
    source, weights = graph.input(operator, 0), graph.input(operator, 1)
    weights = (
        _unshuffled(graph, source, weights)
        if weights_format == _SHUFFLED
        else convert_weights(graph, source, weights)
    )
    kernel, dimensions = graph.operand(weights).dimensions, graph.operand(source).dimensions
    is_open = kernel is None or not all(kernel) or dimensions is None
    quantized = is_quantized(graph.operand(weights))
    if not graph.has(operator, 2) and (quantized or is_open):
        bias = graph.omitted(OperandType.TENSOR_FLOAT32)
    else:
        bias = convert_bias(graph, operator, source, weights, 0)
    inputs, result = (source, weights, bias), graph.output(operator)
    if quantized or is_open or len(kernel or ()) != 2:
        flags = [options["keep_num_dims"], options["asymmetric_quantize_inputs"]]
        if weights_format == _SHUFFLED:
            flags.append(True)
        tail = [graph.boolean(value=bool(flag)) for flag in flags]
        emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, result, tail)
        return
    _fully_connected_floats(graph, inputs, options, result)


def _fully_connected_blocks(
    graph: SubgraphBuilder, operator: Operator, options: Options, blockwise: tuple[int, int]
) -> None:
    """Emits FULLY_CONNECTED with block-quantised weights.

    LiteRT always quantises input rows asymmetrically then.
    """
    weights, scales = blockwise
    source, steps = graph.input(operator, 0), graph.value_like(_REAL)
    graph.emit(OperationType.CAST, (scales,), (steps,))
    bias = graph.omitted(OperandType.TENSOR_FLOAT32)
    if graph.has(operator, 2):
        bias = convert_bias(graph, operator, source, weights, 0)
    flags = (bool(options["keep_num_dims"]), True, False)
    tail = (*(graph.boolean(value=flag) for flag in flags), steps)
    inputs = source, weights, bias
    emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, graph.output(operator), tail)


def _unshuffled(graph: SubgraphBuilder, source: int, weights: int) -> int:
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
        raise UnsupportedFeature(
            f"shuffled weights of type {operand.type.name} and shape {list(operand.dimensions or ())}; "
            "constants of "
            f"TENSOR_QUANT8_ASYMM whose lengths are multiples of {_BLOCK[0]} and {_BLOCK[1]} are expected"
        )
    if graph.operand(source).zero_point != _SHUFFLED_ZERO_POINT:
        raise UnsupportedFeature(
            f"shuffled weights with an input of zero point {graph.operand(source).zero_point}; "
            f"{_SHUFFLED_ZERO_POINT} is expected"
        )
    units, depth = value.shape
    blocks = value.reshape(units // _BLOCK[0], depth // _BLOCK[1], *_BLOCK)
    plain = blocks.swapaxes(1, 2).reshape(units, depth) ^ 0x80
    return graph.constant_like(replace(operand, zero_point=_SHUFFLED_ZERO_POINT), plain)


def _fully_connected_floats(
    graph: SubgraphBuilder, inputs: tuple[int, int, int], options: Options, result: int
) -> None:
    """Emits Android NN's FULLY_CONNECTED, with reshapes if the ranks require them."""
    source, weights, bias = inputs
    units, depth = graph.operand(weights).dimensions or ()
    dimensions = graph.operand(source).dimensions or ()
    kept: tuple[int, ...] | None = None
    if options["keep_num_dims"]:
        if dimensions[-1:] not in ((0,), (depth,)):
            raise UnsupportedFeature(
                f"the input has shape {list(dimensions)}; its last length must be {depth}"
            )
        if dimensions[:-1].count(0) > 1 or len(dimensions) > _MAX_ANDROID_RANK:
            flags = graph.boolean(value=True), graph.boolean(value=False)
            emit_activated(graph, OperationType.TFLITE_FULLY_CONNECTED, inputs, options, result, flags)
            return
        kept = (*(length or -1 for length in dimensions[:-1]), units)
    if not 2 <= len(dimensions) <= _MAX_ANDROID_RANK:
        flat = graph.temporary(source, (0, depth))
        graph.reshape(source, (-1, depth), flat)
        source = flat
    is_flat = kept is None or len(kept) == 2
    target = result if is_flat else graph.temporary(result, (0, units))
    emit_activated(graph, OperationType.FULLY_CONNECTED, (source, weights, bias), options, target)
    if kept is not None and not is_flat:
        graph.reshape(target, kept, result)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.FULLY_CONNECTED: Legalization(
        rule=fully_connected, options="FullyConnectedOptions", inputs=(2, 3), outputs=(1, 2)
    ),
}
