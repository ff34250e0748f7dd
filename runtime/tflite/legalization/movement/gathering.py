"""Gathering, scattering and repetition of elements."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, Rule, narrow, whole
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def in_order(operation_type: OperationType, count: int) -> Rule:
    """Builds a rule that passes `count` inputs on to an operation with one output."""

    def rule(graph: Graph, operator: Operator, _: Options) -> None:
        inputs = [graph.input(operator, position) for position in range(count)]
        graph.emit(operation_type, inputs, (graph.output(operator),))

    return rule


def gather(graph: Graph, operator: Operator, options: Options) -> None:
    """GATHER. Only TFLite's operation supports batch dimensions."""
    values, indices = graph.input(operator, 0), graph.input(operator, 1)
    inputs = values, graph.int32(options["axis"]), indices
    if options["batch_dims"]:
        batches = graph.int32(options["batch_dims"])
        graph.emit(OperationType.TFLITE_GATHER, (*inputs, batches), (graph.output(operator),))
    else:
        graph.emit(OperationType.GATHER, inputs, (graph.output(operator),))


def one_hot(graph: Graph, operator: Operator, options: Options) -> None:
    """ONE_HOT: inputs are indices, depth, on value and off value."""
    indices, depth, on, off = (graph.input(operator, position) for position in range(4))
    inputs = indices, whole(graph, depth), on, off, graph.int32(options["axis"])
    graph.emit(OperationType.TFLITE_ONE_HOT, inputs, (graph.output(operator),))


def tile(graph: Graph, operator: Operator, _: Options) -> None:
    """TILE: the repetitions along each axis are an input."""
    inputs = graph.input(operator, 0), narrow(graph, graph.input(operator, 1))
    graph.emit(OperationType.TILE, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.BROADCAST_ARGS: Lowering(
        rule=in_order(OperationType.TFLITE_BROADCAST_ARGS, 2), inputs=(2, 2)
    ),
    BuiltinOperator.BROADCAST_TO: Lowering(
        rule=in_order(OperationType.TFLITE_BROADCAST_TO, 2), inputs=(2, 2)
    ),
    BuiltinOperator.GATHER: Lowering(rule=gather, options="GatherOptions", inputs=(2, 2)),
    BuiltinOperator.GATHER_ND: Lowering(rule=in_order(OperationType.TFLITE_GATHER_ND, 2), inputs=(2, 2)),
    BuiltinOperator.MATRIX_DIAG: Lowering(rule=in_order(OperationType.TFLITE_MATRIX_DIAG, 1)),
    BuiltinOperator.MATRIX_SET_DIAG: Lowering(
        rule=in_order(OperationType.TFLITE_MATRIX_SET_DIAG, 2), inputs=(2, 2)
    ),
    BuiltinOperator.ONE_HOT: Lowering(rule=one_hot, options="OneHotOptions", inputs=(4, 4)),
    BuiltinOperator.SCATTER_ND: Lowering(rule=in_order(OperationType.TFLITE_SCATTER_ND, 3), inputs=(3, 3)),
    BuiltinOperator.SPARSE_TO_DENSE: Lowering(
        rule=in_order(OperationType.TFLITE_SPARSE_TO_DENSE, 4), inputs=(4, 4)
    ),
    BuiltinOperator.TILE: Lowering(rule=tile, inputs=(2, 2)),
}
