"""DENSIFY: sparse tensors."""

from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


def densify(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes DENSIFY.

    A sparse constant is expanded when it is read, so the operator is only an alias.
    """
    graph.alias(operator, graph.input(operator))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.DENSIFY: Legalization(rule=densify),
}
