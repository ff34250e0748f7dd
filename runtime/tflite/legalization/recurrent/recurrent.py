"""Recurrent cells and sequences of them: LSTM, RNN and SVDF. Their states are variables."""

from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator, LSTMKernelType
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator

#: Inputs of the cells that have the same position in all operators.
_LSTM_STATES = (18, 19)
_LSTM_NORMS = range(20, 24)
_BIDIRECTIONAL_LSTM_STATES = range(35, 39)
#: Number of tensors with the quantisation of an integer cell's gate sums (four) and projection
#: input.
_INTERMEDIATES = 5


def _optional(graph: Graph, operator: Operator, positions: Sequence[int]) -> list[int]:
    """Returns the operands of optional inputs."""
    return [
        graph.input(operator, position)
        if graph.has(operator, position)
        else graph.omitted(OperandType.TENSOR_FLOAT32)
        for position in positions
    ]


def _emit(
    graph: Graph,
    operation_type: OperationType,
    inputs: Sequence[int],
    outputs: Sequence[int],
    options: Options,
    weights: int,
) -> None:
    """Emits Android's operation, or its variant for 8-bit `weights` with one more argument."""
    if is_quantized(graph.operand(weights)):
        operation_type = OperationType[f"TFLITE_{operation_type.name}"]
        # TFLite reads unsigned byte weights as signed.
        inputs = [
            graph.as_signed(index) if graph.operand(index).type is OperandType.TENSOR_QUANT8_ASYMM else index
            for index in inputs
        ]
        inputs = (*inputs, graph.boolean(value=bool(options["asymmetric_quantize_inputs"])))
    graph.emit(operation_type, inputs, outputs)


def _lstm_settings(graph: Graph, options: Options, like: int) -> list[int]:
    """Returns activation and clipping values."""
    return [
        graph.int32(options["activation"]),
        graph.real(options["cell_clip"], like=like),
        graph.real(options["projection_clip"], like=like),
    ]


def _emit_integer_lstm(graph: Graph, operator: Operator, options: Options, *, time_major: bool) -> None:
    """Emits an integer LSTM cell over a sequence or for one step; both are the same operation."""
    if len(operator.intermediates) != _INTERMEDIATES:
        raise Unsupported(
            f"it has {len(operator.intermediates)} intermediates; one of integers needs {_INTERMEDIATES}"
        )
    inputs = _optional(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in _LSTM_STATES]
    # Without normalisation the quantisation of the sums is unused, and files may omit it.
    sums = [
        graph.intermediate(operator, gate)[0] if graph.has(operator, norm) else 1.0
        for gate, norm in enumerate(_LSTM_NORMS)
    ]
    hidden_scale, hidden_zero_point = graph.intermediate(operator, _INTERMEDIATES - 1)
    graph.emit(
        OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *_lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=time_major),
            *_optional(graph, operator, _LSTM_NORMS),
            *(graph.real(scale, like=inputs[0]) for scale in sums),
            graph.int32(hidden_zero_point),
            graph.real(hidden_scale, like=inputs[0]),
        ),
        (graph.output(operator), *states),
    )


def unidirectional_lstm(graph: Graph, operator: Operator, options: Options) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM has the arguments of Android's operation in the same order."""
    if options["diagonal_recurrent_tensors"]:
        raise Unsupported("recurrent weights that are diagonals are not supported")
    if is_quantized(graph.operand(graph.input(operator))):
        _emit_integer_lstm(graph, operator, options, time_major=bool(options["time_major"]))
        return
    inputs = _optional(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in _LSTM_STATES]
    _emit(
        graph,
        OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *_lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=bool(options["time_major"])),
            *_optional(graph, operator, _LSTM_NORMS),
        ),
        (graph.output(operator), *states),
        options,
        inputs[2],
    )


def lstm(graph: Graph, operator: Operator, options: Options) -> None:
    """LSTM: one step. There is a full cell, and a basic one with all weights in one matrix."""
    if options["kernel_type"] == LSTMKernelType.BASIC:
        basic_lstm(graph, operator, options)
        return
    if len(operator.outputs) != 1:
        raise Unsupported(f"it has {len(operator.outputs)} outputs; the full cell has 1")
    if is_quantized(graph.operand(graph.input(operator))):
        _emit_integer_lstm(graph, operator, options, time_major=True)
        return
    inputs = _optional(graph, operator, range(20))
    states = [graph.next_state(operator, position) for position in _LSTM_STATES]
    result = graph.output(operator)
    _emit(
        graph,
        OperationType.LSTM,
        (
            *inputs,
            *_lstm_settings(graph, options, inputs[0]),
            *_optional(graph, operator, _LSTM_NORMS),
        ),
        (graph.temporary(result), *states, result),
        options,
        inputs[2],
    )


def basic_lstm(graph: Graph, operator: Operator, options: Options) -> None:
    """Expands the basic cell: one product of the joined input and previous output gives all gates.

    Their order is input gate, candidate, forget gate, output gate.
    """
    if len(operator.inputs) != 5 or len(operator.outputs) != 4:
        raise Unsupported(
            f"it has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs; the basic cell has 5 and 4"
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


def _basic_integer_lstm(graph: Graph, operator: Operator) -> None:
    values, last, weights, bias, cell = (graph.input(operator, position) for position in range(5))
    bias_scale, _ = graph.quantization(operator.inputs[3])
    output, state = (graph.output(operator, position) for position in range(2))
    inputs = values, last, weights, graph.bias(bias, bias_scale), cell
    graph.emit(OperationType.TFLITE_LSTM, inputs, (output, state))
    for position, result in ((1, output), (4, state)):
        graph.keep_state(operator, position, result)


def bidirectional_lstm(graph: Graph, operator: Operator, options: Options) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: two cells with an optional auxiliary input.

    TFLite has no layer normalisation.
    """
    inputs = _optional(graph, operator, range(48))
    states = [graph.next_state(operator, position) for position in _BIDIRECTIONAL_LSTM_STATES]
    merge = bool(options["merge_outputs"])
    _emit(
        graph,
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
        (
            *inputs,
            *_lstm_settings(graph, options, inputs[0]),
            graph.boolean(value=merge),
            graph.boolean(value=bool(options["time_major"])),
            *[graph.omitted(OperandType.TENSOR_FLOAT32)] * 8,
        ),
        (*_both_outputs(graph, operator, merge=merge), *states),
        options,
        inputs[2],
    )


def _both_outputs(graph: Graph, operator: Operator, *, merge: bool) -> list[int]:
    """Returns the outputs of a bidirectional operator: one if they are merged."""
    count = 1 if merge else 2
    if len(operator.outputs) < count:
        raise Unsupported(f"it has {len(operator.outputs)} outputs; {count} are expected")
    return [graph.output(operator, position) for position in range(count)]


def rnn(graph: Graph, operator: Operator, options: Options) -> None:
    """RNN: one step of a basic cell."""
    inputs = [graph.input(operator, position) for position in range(5)]
    state, result = graph.next_state(operator, 4), graph.output(operator)
    settings = (graph.int32(options["activation"]),)
    _emit(graph, OperationType.RNN, (*inputs, *settings), (state, result), options, inputs[1])


def unidirectional_rnn(graph: Graph, operator: Operator, options: Options) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN: a basic cell over a sequence."""
    inputs = [graph.input(operator, position) for position in range(5)]
    state = graph.next_state(operator, 4)
    settings = graph.int32(options["activation"]), graph.int32(int(bool(options["time_major"])))
    outputs = graph.output(operator), state
    operation_type = OperationType.UNIDIRECTIONAL_SEQUENCE_RNN
    _emit(graph, operation_type, (*inputs, *settings), outputs, options, inputs[1])


def bidirectional_rnn(graph: Graph, operator: Operator, options: Options) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN: two basic cells with an optional auxiliary input."""
    inputs = _optional(graph, operator, range(12))
    states = [graph.next_state(operator, position) for position in (4, 8)]
    merge = bool(options["merge_outputs"])
    settings = (
        graph.int32(options["activation"]),
        graph.boolean(value=bool(options["time_major"])),
        graph.boolean(value=merge),
    )
    outputs = (*_both_outputs(graph, operator, merge=merge), *states)
    operation_type = OperationType.BIDIRECTIONAL_SEQUENCE_RNN
    _emit(graph, operation_type, (*inputs, *settings), outputs, options, inputs[1])


def svdf(graph: Graph, operator: Operator, options: Options) -> None:
    """SVDF.

    TFLite shifts the state before a step, Android after it: the same, as both start with zeros.
    """
    values, features, times = (graph.input(operator, position) for position in range(3))
    (bias,) = _optional(graph, operator, (3,))
    settings = graph.int32(options["rank"]), graph.int32(options["activation"])
    inputs = (values, features, times, bias, graph.input(operator, 4), *settings)
    state = graph.next_state(operator, 4)
    _emit(graph, OperationType.SVDF, inputs, (state, graph.output(operator)), options, features)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.BIDIRECTIONAL_SEQUENCE_LSTM: Lowering(
        rule=bidirectional_lstm,
        options="BidirectionalSequenceLSTMOptions",
        inputs=(39, 48),
        outputs=(1, 2),
    ),
    BuiltinOperator.BIDIRECTIONAL_SEQUENCE_RNN: Lowering(
        rule=bidirectional_rnn, options="BidirectionalSequenceRNNOptions", inputs=(9, 12), outputs=(1, 2)
    ),
    BuiltinOperator.LSTM: Lowering(rule=lstm, options="LSTMOptions", inputs=(5, 24), outputs=(1, 4)),
    BuiltinOperator.RNN: Lowering(rule=rnn, options="RNNOptions", inputs=(5, 5)),
    BuiltinOperator.SVDF: Lowering(rule=svdf, options="SVDFOptions", inputs=(5, 5)),
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM: Lowering(
        rule=unidirectional_lstm, options="UnidirectionalSequenceLSTMOptions", inputs=(20, 24)
    ),
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_RNN: Lowering(
        rule=unidirectional_rnn, options="SequenceRNNOptions", inputs=(5, 5)
    ),
}
