"""Sparse tensors."""

from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def densify(graph: Graph, operator: Operator, _: Options) -> None:
    """DENSIFY. A sparse constant is expanded when it is read, so the operator is only an alias."""
    graph.alias(operator, graph.input(operator))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.DENSIFY: Lowering(rule=densify),
}
