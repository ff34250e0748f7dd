"""AVERAGE_POOL_2D, L2_POOL_2D and MAX_POOL_2D."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    emit_activated,
    padding,
)


def pool(operation_type: OperationType) -> LegalizationRule:
    """Builds a rule for a pooling operation."""

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        fields = ("stride_width", "stride_height", "filter_width", "filter_height")
        inputs = (
            graph.input(operator),
            padding(graph, options),
            *(graph.int32(options[field]) for field in fields),
        )
        emit_activated(graph, operation_type, inputs, options, graph.output(operator))

    return rule


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.AVERAGE_POOL_2D: Legalization(
        rule=pool(OperationType.AVERAGE_POOL_2D), options="Pool2DOptions"
    ),
    BuiltinOperator.L2_POOL_2D: Legalization(rule=pool(OperationType.L2_POOL_2D), options="Pool2DOptions"),
    BuiltinOperator.MAX_POOL_2D: Legalization(rule=pool(OperationType.MAX_POOL_2D), options="Pool2DOptions"),
}
