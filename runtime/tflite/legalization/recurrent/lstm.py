"""LSTM: one step of a cell."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.wording import inputs_and_outputs
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, LSTMKernelType
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.recurrent.recurrent import emit_cell, optional_inputs

#: Inputs of the cells that have the same position in all operators.
LSTM_STATES = (18, 19)


LSTM_NORMS = range(20, 24)


#: Number of tensors with the quantisation of an integer cell's gate sums (four) and projection
#: input.
_INTERMEDIATES = 5


def lstm_settings(graph: SubgraphBuilder, options: Options, like: int) -> list[int]:
    """Returns activation and clipping values."""
    return [
        graph.int32(options["activation"]),
        graph.real(options["cell_clip"], like=like),
        graph.real(options["projection_clip"], like=like),
    ]


def emit_integer_lstm(
    graph: SubgraphBuilder, operator: Operator, options: Options, *, time_major: bool
) -> None:
    """Emits an integer LSTM cell over a sequence or for one step; both are the same operation."""
    if len(operator.intermediates) != _INTERMEDIATES:
        raise UnsupportedFeature(
            f"it has {len(operator.intermediates)} intermediates; one of integers needs {_INTERMEDIATES}"
        )
    inputs = optional_inputs(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in LSTM_STATES]
    # Without normalisation the quantisation of the sums is unused, and files may omit it.
    sums = [
        graph.intermediate(operator, gate)[0] if graph.has(operator, norm) else 1.0
        for gate, norm in enumerate(LSTM_NORMS)
    ]
    hidden_scale, hidden_zero_point = graph.intermediate(operator, _INTERMEDIATES - 1)
    graph.emit(
        OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=time_major),
            *optional_inputs(graph, operator, LSTM_NORMS),
            *(graph.real(scale, like=inputs[0]) for scale in sums),
            graph.int32(hidden_zero_point),
            graph.real(hidden_scale, like=inputs[0]),
        ),
        (graph.output(operator), *states),
    )


def lstm(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes LSTM: one step.

    There is a full cell, and a basic one with all weights in one matrix.
    """
    if options["kernel_type"] == LSTMKernelType.BASIC:
        basic_lstm(graph, operator, options)
        return
    if len(operator.outputs) != 1:
        raise UnsupportedFeature(f"it has {len(operator.outputs)} outputs; the full cell has 1")
    if is_quantized(graph.operand(graph.input(operator))):
        emit_integer_lstm(graph, operator, options, time_major=True)
        return
    inputs = optional_inputs(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in LSTM_STATES]
    result = graph.output(operator)
    emit_cell(
        graph,
        OperationType.LSTM,
        (
            *inputs,
            *lstm_settings(graph, options, inputs[0]),
            *optional_inputs(graph, operator, LSTM_NORMS),
        ),
        (graph.temporary(result), *states, result),
        options,
        inputs[2],
    )


def basic_lstm(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Expands the basic cell: one product of the joined input and previous output gives all gates.

    Their order is input gate, candidate, forget gate, output gate.
    """
    if len(operator.inputs) != 5 or len(operator.outputs) != 4:
        raise UnsupportedFeature(
            f"it has {inputs_and_outputs(len(operator.inputs), len(operator.outputs))}; the basic cell has "
            "5 and 4"
        )
    values, last, weights, bias, cell = (graph.input(operator, position) for position in range(5))
    if graph.operand(values).type is not OperandType.TENSOR_FLOAT32:
        _basic_integer_lstm(graph, operator)
        return
    output, state, joined, gates = (graph.output(operator, position) for position in range(4))
    none = graph.int32(FusedActivation.NONE)
    graph.emit(OperationType.CONCATENATION, (values, last, graph.int32(1)), (joined,))
    graph.emit(OperationType.FULLY_CONNECTED, (joined, weights, bias, none), (gates,))
    parts = [graph.temporary(gates) for _ in range(4)]
    graph.emit(OperationType.SPLIT, (gates, graph.int32(1), graph.int32(4)), parts)
    active = []
    for position, part in enumerate(parts):
        active.append(graph.temporary(part))
        curve = OperationType.TANH if position == 1 else OperationType.LOGISTIC
        graph.emit(curve, (part,), (active[-1],))
    admit, candidate, forget, emitted = active
    fresh, kept, shown = (graph.temporary(part) for part in parts[:3])
    graph.emit(OperationType.MUL, (admit, candidate, none), (fresh,))
    graph.emit(OperationType.MUL, (forget, cell, none), (kept,))
    graph.emit(OperationType.ADD, (fresh, kept, none), (state,))
    graph.emit(OperationType.TANH, (state,), (shown,))
    graph.emit(OperationType.MUL, (emitted, shown, none), (output,))
    for position, result in ((1, output), (4, state)):
        graph.keep_state(operator, position, result)


def _basic_integer_lstm(graph: SubgraphBuilder, operator: Operator) -> None:
    values, last, weights, bias, cell = (graph.input(operator, position) for position in range(5))
    bias_scale, _ = graph.quantization(operator.inputs[3])
    output, state = (graph.output(operator, position) for position in range(2))
    inputs = values, last, weights, graph.bias(bias, bias_scale), cell
    graph.emit(OperationType.TFLITE_LSTM, inputs, (output, state))
    for position, result in ((1, output), (4, state)):
        graph.keep_state(operator, position, result)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.LSTM: Legalization(rule=lstm, options="LSTMOptions", inputs=(5, 24), outputs=(1, 4)),
}
