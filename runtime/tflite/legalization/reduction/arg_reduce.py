"""ARG_MAX, ARG_MIN, TOPK_V2, UNIQUE and WHERE."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    constant_scalar,
    operation,
)


def extreme(android: OperationType, tflite: OperationType) -> LegalizationRule:
    """Builds the rule for an arg-reduction; the axis is an input.

    For a vector, which an input of unknown rank may be, TFLite's result has rank 0.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        source, axis = graph.input(operator, 0), constant_scalar(graph, graph.input(operator, 1))
        dimensions = graph.operand(source).dimensions
        is_open = dimensions is None or len(dimensions) <= 1
        graph.emit(tflite if is_open else android, (source, axis), (graph.output(operator),))

    return rule


def top_k(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TOPK_V2.

    Among equal elements TFLite prefers lower indexes, Android NN higher ones.
    """
    inputs = graph.input(operator, 0), constant_scalar(graph, graph.input(operator, 1))
    results = graph.output(operator, 0), graph.output(operator, 1)
    graph.emit(OperationType.TFLITE_TOPK_V2, inputs, results)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ARG_MAX: Legalization(
        rule=extreme(OperationType.ARGMAX, OperationType.TFLITE_ARG_MAX), inputs=(2, 2)
    ),
    BuiltinOperator.ARG_MIN: Legalization(
        rule=extreme(OperationType.ARGMIN, OperationType.TFLITE_ARG_MIN), inputs=(2, 2)
    ),
    BuiltinOperator.TOPK_V2: Legalization(rule=top_k, inputs=(2, 2), outputs=(2, 2)),
    BuiltinOperator.UNIQUE: Legalization(rule=operation(OperationType.TFLITE_UNIQUE), outputs=(2, 2)),
    BuiltinOperator.WHERE: Legalization(rule=operation(OperationType.TFLITE_WHERE)),
}
