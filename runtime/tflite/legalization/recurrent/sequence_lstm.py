"""UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.recurrent.lstm import (
    LSTM_NORMS,
    LSTM_STATES,
    emit_integer_lstm,
    lstm_settings,
)
from neurald.runtime.tflite.legalization.recurrent.recurrent import (
    bidirectional_outputs,
    emit_cell,
    optional_inputs,
)

_BIDIRECTIONAL_STATES = range(35, 39)


def unidirectional_lstm(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes UNIDIRECTIONAL_SEQUENCE_LSTM, whose arguments are in the order of Android's."""
    if options["diagonal_recurrent_tensors"]:
        raise UnsupportedFeature("recurrent weights that are diagonals are not supported")
    if is_quantized(graph.operand(graph.input(operator))):
        emit_integer_lstm(graph, operator, options, time_major=bool(options["time_major"]))
        return
    inputs = optional_inputs(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in LSTM_STATES]
    emit_cell(
        graph,
        OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=bool(options["time_major"])),
            *optional_inputs(graph, operator, LSTM_NORMS),
        ),
        (graph.output(operator), *states),
        options,
        inputs[2],
    )


def bidirectional_lstm(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes BIDIRECTIONAL_SEQUENCE_LSTM: two cells with an optional auxiliary input.

    TFLite has no layer normalisation.
    """
    inputs = optional_inputs(graph, operator, range(48))
    states = [graph.next_state(operator, position) for position in _BIDIRECTIONAL_STATES]
    merge = bool(options["merge_outputs"])
    emit_cell(
        graph,
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=merge),
            graph.boolean(value=bool(options["time_major"])),
            *[graph.omitted(OperandType.TENSOR_FLOAT32)] * 8,
        ),
        (*bidirectional_outputs(graph, operator, merge=merge), *states),
        options,
        inputs[2],
    )


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BIDIRECTIONAL_SEQUENCE_LSTM: Legalization(
        rule=bidirectional_lstm,
        options="BidirectionalSequenceLSTMOptions",
        inputs=(39, 48),
        outputs=(1, 2),
    ),
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM: Legalization(
        rule=unidirectional_lstm, options="UnidirectionalSequenceLSTMOptions", inputs=(20, 24)
    ),
}
