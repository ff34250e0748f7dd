"""Lowers recurrent cells with TFLite's types."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent import lstm, rnn, sequence_lstm
from neurald.drivers.compiler.lowering.tflite.recurrent.basic_lstm import lower_basic
from neurald.drivers.compiler.lowering.tflite.recurrent.integer_lstm import lower_integers
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.recurrent.basic_lstm import is_basic
from neurald.hal.operations.tflite.recurrent.integer_lstm import is_integer


def _lstm(call: Call, builder: Builder) -> tuple[Value, ...]:
    return lower_basic(call, builder) if is_basic(call) else lstm.lower_step(call, builder)


def _sequence_lstm(call: Call, builder: Builder) -> tuple[Value, ...]:
    if is_integer(call):
        return lower_integers(call, builder)
    return sequence_lstm.lower_sequence(call, builder)


LOWERINGS: Lowerings = {
    OperationType.TFLITE_LSTM: _lstm,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM: _sequence_lstm,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM: sequence_lstm.lower_bidirectional,
    OperationType.TFLITE_RNN: rnn.lower_step,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN: rnn.lower_sequence,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN: rnn.lower_bidirectional,
}
