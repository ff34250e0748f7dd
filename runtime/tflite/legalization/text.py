"""Operators on strings."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def skip_gram(graph: Graph, operator: Operator, options: Options) -> None:
    """SKIP_GRAM: one string per sequence of words."""
    inputs = (
        graph.input(operator),
        graph.int32(options["ngram_size"]),
        graph.int32(options["max_skip_size"]),
        graph.boolean(value=bool(options["include_all_ngrams"])),
    )
    result = graph.expect(graph.output(operator), (0,))
    graph.emit(OperationType.TFLITE_SKIP_GRAM, inputs, (result,))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.SKIP_GRAM: Lowering(rule=skip_gram, options="SkipGramOptions"),
}
