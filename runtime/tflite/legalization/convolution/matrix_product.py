"""BATCH_MATMUL."""

from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import Dimensions
from neurald.hal.records import replace
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import step


def batch_matmul(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes BATCH_MATMUL. The flag for dynamic quantisation is passed only if it applies."""
    first, second = graph.input(operator, 0), graph.input(operator, 1)
    inputs = first, second, *(graph.boolean(value=bool(options[name])) for name in ("adj_x", "adj_y"))
    if any(_is_scaled_by_channel(graph, index) for index in (first, second)) and is_quantized(
        graph.operand(first)
    ):
        _multiply_reals(graph, operator, inputs)
        return
    is_hybrid = is_quantized(graph.operand(second)) and not is_quantized(graph.operand(first))
    if is_hybrid:
        second = _scaled_by_column(graph, second, is_turned=bool(options["adj_y"]))
        inputs = first, second, *inputs[2:]
    if is_hybrid and options["asymmetric_quantize_inputs"]:
        asymmetric = graph.boolean(value=True)
        graph.emit(OperationType.TFLITE_BATCH_MATMUL, (*inputs, asymmetric), (graph.output(operator),))
        return
    is_alike = _have_equal_batches(graph.operand(first).dimensions, graph.operand(second).dimensions)
    operation_type = OperationType.BATCH_MATMUL if is_alike else OperationType.TFLITE_BATCH_MATMUL
    graph.emit(operation_type, inputs, (graph.output(operator),))


def _is_scaled_by_channel(graph: SubgraphBuilder, index: int) -> bool:
    return graph.operand(index).channel_quant is not None


def _multiply_reals(graph: SubgraphBuilder, operator: Operator, inputs: tuple[int, ...]) -> None:
    """Multiplies quantised matrices, one of which has a scale for each channel, as real numbers.

    LiteRT multiplies by 0 instead, or writes bytes to a result of real numbers.
    """
    first, second = (step(graph, OperationType.DEQUANTIZE, index) for index in inputs[:2])
    result = graph.output(operator)
    if not is_quantized(graph.operand(result)):
        step(graph, OperationType.TFLITE_BATCH_MATMUL, first, second, *inputs[2:], result=result)
        return
    product = step(graph, OperationType.TFLITE_BATCH_MATMUL, first, second, *inputs[2:])
    step(graph, OperationType.QUANTIZE, product, result=result)


def _scaled_by_column(graph: SubgraphBuilder, index: int, *, is_turned: bool) -> int:
    """Returns a matrix whose channel scales, if any, belong to the columns of the product.

    LiteRT interprets them that way regardless of the dimension stated in the file, and ignores
    surplus ones.
    """
    operand = graph.operand(index)
    quant, dimensions = operand.channel_quant, operand.dimensions
    if quant is None or dimensions is None or len(dimensions) < 2:
        return index
    axis = len(dimensions) - (2 if is_turned else 1)
    columns = dimensions[axis]
    if quant.dimension == axis or len(quant.scales) < columns:
        return index
    return graph.add_constant(
        replace(operand, channel_quant=ChannelQuant(dimension=axis, scales=quant.scales[:columns]))
    )


def _have_equal_batches(first: Dimensions, second: Dimensions) -> bool:
    """Returns True if the batches are known to be equal.

    Android NN's operation does not broadcast them.
    """
    return first is not None and second is not None and first[:-2] == second[:-2] and 0 not in first[:-2]


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BATCH_MATMUL: Legalization(
        rule=batch_matmul, options="BatchMatMulOptions", inputs=(2, 2)
    ),
}
