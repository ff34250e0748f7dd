"""Rows of tables."""

from tflite.BuiltinOperator import BuiltinOperator

from neurald.hal.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.lowering.rule import Lowering, operation
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def lookup_sparse(graph: Graph, operator: Operator, options: Options) -> None:
    """How rows are combined is an option."""
    inputs = (graph.input(operator, position) for position in range(5))
    combiner = graph.int32(options["combiner"])
    graph.emit(OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE, (*inputs, combiner), (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.EMBEDDING_LOOKUP: Lowering(rule=operation(OperationType.EMBEDDING_LOOKUP), inputs=(2, 2)),
    BuiltinOperator.EMBEDDING_LOOKUP_SPARSE: Lowering(
        rule=lookup_sparse, options="EmbeddingLookupSparseOptions", inputs=(5, 5)
    ),
}
