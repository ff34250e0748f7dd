"""SVDF."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.recurrent.recurrent import emit_cell, optional_inputs


def svdf(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SVDF.

    TFLite shifts the state before a step, Android after it: the same, as both start with zeros.
    """
    values, features, times = (graph.input(operator, position) for position in range(3))
    (bias,) = optional_inputs(graph, operator, (3,))
    settings = graph.int32(options["rank"]), graph.int32(options["activation"])
    inputs = (values, features, times, bias, graph.input(operator, 4), *settings)
    state = graph.next_state(operator, 4)
    emit_cell(graph, OperationType.SVDF, inputs, (state, graph.output(operator)), options, features)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.SVDF: Legalization(rule=svdf, options="SVDFOptions", inputs=(5, 5)),
}
