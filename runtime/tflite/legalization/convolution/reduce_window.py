"""REDUCE_WINDOW and STABLEHLO_REDUCE_WINDOW."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file import schema_enums
from neurald.runtime.tflite.file.flatbuffer import INT32
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.stablehlo import (
    body_reduction,
    option_list,
    stablehlo_options,
)
from neurald.runtime.tflite.legalization.movement.padding import emit_stablehlo_pad


def reduce_window(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes REDUCE_WINDOW: sizes, strides and dilations are inputs."""
    options = stablehlo_options(operator, schema_enums.BuiltinOptions2.ReduceWindowOptions)
    inputs = [graph.input(operator, position) for position in range(5)]
    inputs.append(graph.int32(options.integer(0, INT32)))
    graph.emit(OperationType.TFLITE_REDUCE_WINDOW, inputs, (graph.output(operator),))


def stablehlo_reduce_window(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_REDUCE_WINDOW: first dilates and pads with the initial value."""
    options = stablehlo_options(operator, schema_enums.BuiltinOptions2.StablehloReduceWindowOptions)
    sizes, strides, inner, dilations, padding = (option_list(options, field) for field in range(5))
    reduction = body_reduction(graph, options.integer(5, INT32))
    if reduction is None:
        raise UnsupportedFeature("its subgraph passes on its second input, which is not a reduction")
    ones = (1,) * len(sizes)
    source, initial, result = graph.input(operator, 0), graph.input(operator, 1), graph.output(operator)
    if any(padding) or any(step != 1 for step in inner):
        low, high = padding[::2] or (0,) * len(sizes), padding[1::2] or (0,) * len(sizes)
        padded = graph.temporary(result, (0,) * len(sizes))
        emit_stablehlo_pad(graph, source, initial, (low, high, [step - 1 for step in inner or ones]), padded)
        source = padded
    vectors = [graph.vector(numbers) for numbers in (sizes, strides or ones, dilations or ones)]
    inputs = source, initial, *vectors, graph.int32(reduction)
    graph.emit(OperationType.TFLITE_REDUCE_WINDOW, inputs, (result,))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.REDUCE_WINDOW: Legalization(rule=reduce_window, inputs=(5, 5)),
    BuiltinOperator.STABLEHLO_REDUCE_WINDOW: Legalization(rule=stablehlo_reduce_window, inputs=(2, 2)),
}
