"""REVERSE_V2 and REVERSE_SEQUENCE."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, narrow_to_int32


def reverse(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes REVERSE_V2. Android NN's operation takes one axis that counts from the start."""
    source, axes = graph.input(operator, 0), narrow_to_int32(graph, graph.input(operator, 1))
    value = graph.value(axes)
    is_plain = value is not None and value.shape == (1,) and value[0] >= 0
    operation_type = OperationType.REVERSE if is_plain else OperationType.TFLITE_REVERSE_V2
    graph.emit(operation_type, (source, axes), (graph.output(operator),))


def reverse_sequence(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes REVERSE_SEQUENCE: reverses each batch element up to its length."""
    axes = graph.int32(options["seq_dim"]), graph.int32(options["batch_dim"])
    inputs = graph.input(operator, 0), graph.input(operator, 1), *axes
    graph.emit(OperationType.TFLITE_REVERSE_SEQUENCE, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.REVERSE_SEQUENCE: Legalization(
        rule=reverse_sequence, options="ReverseSequenceOptions", inputs=(2, 2)
    ),
    BuiltinOperator.REVERSE_V2: Legalization(rule=reverse, inputs=(2, 2)),
}
