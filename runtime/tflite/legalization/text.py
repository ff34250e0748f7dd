"""SKIP_GRAM: splits strings into word sequences."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


def skip_gram(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SKIP_GRAM: one string per sequence of words."""
    inputs = (
        graph.input(operator),
        graph.int32(options["ngram_size"]),
        graph.int32(options["max_skip_size"]),
        graph.boolean(value=bool(options["include_all_ngrams"])),
    )
    result = graph.expect(graph.output(operator), (0,))
    graph.emit(OperationType.TFLITE_SKIP_GRAM, inputs, (result,))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.SKIP_GRAM: Legalization(rule=skip_gram, options="SkipGramOptions"),
}
