"""STABLEHLO_GATHER and STABLEHLO_SCATTER."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.tflite.convolution.reduce_window import Reduction
from neurald.runtime.tflite.file.flatbuffer import INT32, INT64
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, BuiltinOptions2
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.stablehlo import (
    body_reduction,
    option_list,
    stablehlo_options,
)

#: STABLEHLO_SCATTER's numbers of update functions.
_UPDATES = {Reduction.ADD: 1, Reduction.MUL: 2, Reduction.MINIMUM: 3, Reduction.MAXIMUM: 4}


def gather(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_GATHER; passes the dimension numbers on."""
    options = stablehlo_options(operator, BuiltinOptions2.StablehloGatherOptions)
    offsets, collapsed, mapped = (graph.vector(option_list(options, field)) for field in range(3))
    axis, sizes = graph.int32(options.integer(3, INT64)), graph.vector(option_list(options, 4))
    source, indices = graph.input(operator, 0), graph.input(operator, 1)
    inputs = source, indices, offsets, collapsed, mapped, axis, sizes
    graph.emit(OperationType.TFLITE_STABLEHLO_GATHER, inputs, (graph.output(operator),))


def scatter(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_SCATTER; passes the dimension numbers on."""
    options = stablehlo_options(operator, BuiltinOptions2.StablehloScatterOptions)
    reduction = body_reduction(graph, options.integer(6, INT32))
    if reduction is not None and reduction not in _UPDATES:
        raise UnsupportedFeature("its subgraph is not a sum, product, minimum or maximum of two")
    window, inserted, mapped = (graph.vector(option_list(options, field)) for field in (1, 2, 3))
    source, indices, updates = (graph.input(operator, position) for position in range(3))
    axis = graph.int32(options.integer(4, INT64))
    update = graph.int32(0 if reduction is None else _UPDATES[reduction])
    inputs = source, indices, updates, window, inserted, mapped, axis, update
    graph.emit(OperationType.TFLITE_STABLEHLO_SCATTER, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.STABLEHLO_GATHER: Legalization(rule=gather, inputs=(2, 2)),
    BuiltinOperator.STABLEHLO_SCATTER: Legalization(rule=scatter, inputs=(3, 3)),
}
