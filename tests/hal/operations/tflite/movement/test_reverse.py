import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    counted,
    evaluate,
    given,
    ints,
    scalars,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS
from neurald.hal.records import replace

FLOAT32, INT64 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT64


@sweep("kind", ELEMENTS)
def test_reversed(kind: OperandType) -> None:
    source = counted(kind, 4, 3, 2)
    x: Array = source.value  # type: ignore[assignment]
    got = evaluate(OperationType.TFLITE_REVERSE_V2, (source, ints(0, -1)), wanted(kind))
    np.testing.assert_array_equal(got, x[::-1, :, ::-1])
    lengths = given(INT64, [2, 0, 4])
    got = evaluate(OperationType.TFLITE_REVERSE_SEQUENCE, (source, lengths, *scalars(0, 1)), wanted(kind))
    expected = x.copy()
    for batch, length in enumerate((2, 0, 4)):
        expected[:length, batch] = x[:length, batch][::-1]
    np.testing.assert_array_equal(got, expected)
    got = evaluate(
        OperationType.TFLITE_REVERSE_SEQUENCE, (source, ints(1, 2, 0, 2), *scalars(2, 0)), wanted(kind)
    )
    expected = x.copy()
    expected[[1, 3]] = x[[1, 3], :, ::-1]
    np.testing.assert_array_equal(got, expected)


def test_refuses_sequences_that_are_too_long() -> None:
    inputs = counted(FLOAT32, 2, 3), ints(1, 4), *scalars(1, 0)
    with pytest.raises(BadData, match="from 0 to 3"):
        evaluate(OperationType.TFLITE_REVERSE_SEQUENCE, inputs, wanted(FLOAT32))
    with pytest.raises(BadData, match="other than the reversed"):
        evaluate(OperationType.TFLITE_REVERSE_SEQUENCE, (*inputs[:2], *scalars(1, 1)), wanted(FLOAT32))


def test_the_sequence_lengths_may_be_unknown() -> None:
    inputs = given(FLOAT32, np.zeros((3, 2))), ints(1, 2), *scalars(0, 1)
    late = Given(operand=replace(inputs[1].operand, lifetime=Lifetime.SUBGRAPH_INPUT, value=b""), value=None)
    call = call_of(OperationType.TFLITE_REVERSE_SEQUENCE, (inputs[0], late, *inputs[2:]), wanted(FLOAT32))
    definition = DEFINITIONS[OperationType.TFLITE_REVERSE_SEQUENCE]
    definition.check(call)
    assert definition.output_shapes(call) == ((3, 2),)
