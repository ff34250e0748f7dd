"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.recurrent.recurrent import (
    bidirectional_outputs,
    emit_cell,
    optional_inputs,
)


def rnn(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes RNN: one step of a basic cell."""
    inputs = [graph.input(operator, position) for position in range(5)]
    state, result = graph.next_state(operator, 4), graph.output(operator)
    settings = (graph.int32(options["activation"]),)
    emit_cell(graph, OperationType.RNN, (*inputs, *settings), (state, result), options, inputs[1])


def unidirectional_rnn(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes UNIDIRECTIONAL_SEQUENCE_RNN: a basic cell over a sequence."""
    inputs = [graph.input(operator, position) for position in range(5)]
    state = graph.next_state(operator, 4)
    settings = graph.int32(options["activation"]), graph.int32(int(bool(options["time_major"])))
    outputs = graph.output(operator), state
    operation_type = OperationType.UNIDIRECTIONAL_SEQUENCE_RNN
    emit_cell(graph, operation_type, (*inputs, *settings), outputs, options, inputs[1])


def bidirectional_rnn(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes BIDIRECTIONAL_SEQUENCE_RNN: two basic cells with an optional auxiliary input."""
    inputs = optional_inputs(graph, operator, range(12))
    states = [graph.next_state(operator, position) for position in (4, 8)]
    merge = bool(options["merge_outputs"])
    settings = (
        graph.int32(options["activation"]),
        graph.boolean(value=bool(options["time_major"])),
        graph.boolean(value=merge),
    )
    outputs = (*bidirectional_outputs(graph, operator, merge=merge), *states)
    operation_type = OperationType.BIDIRECTIONAL_SEQUENCE_RNN
    emit_cell(graph, operation_type, (*inputs, *settings), outputs, options, inputs[1])


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BIDIRECTIONAL_SEQUENCE_RNN: Legalization(
        rule=bidirectional_rnn, options="BidirectionalSequenceRNNOptions", inputs=(9, 12), outputs=(1, 2)
    ),
    BuiltinOperator.RNN: Legalization(rule=rnn, options="RNNOptions", inputs=(5, 5)),
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_RNN: Legalization(
        rule=unidirectional_rnn, options="SequenceRNNOptions", inputs=(5, 5)
    ),
}
