import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate, given, ints, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

LOOKUP = OperationType.TFLITE_EMBEDDING_LOOKUP
FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
SIGNED, PER_CHANNEL = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
SCALES = (0.5, 0.25, 2.0, 1.0, 0.125)
TABLE = np.random.default_rng(1).integers(-128, 128, (5, 3, 2))


def per_row(dimension: int = 0) -> Given:
    quant = ChannelQuant(dimension=dimension, scales=SCALES[: TABLE.shape[dimension]])
    return given(PER_CHANNEL, TABLE, channel_quant=quant)


@sweep("kind", [FLOAT32, FLOAT16])
@sweep("numbers", [[4, 0, 2, 2], []])
def test_lookup_of_floats_in_an_8_bit_table(kind: OperandType, numbers: list[int]) -> None:
    found = TABLE[np.array(numbers, int)]
    result = evaluate(LOOKUP, (ints(*numbers), given(SIGNED, TABLE, 0.5)), wanted(kind))
    np.testing.assert_array_equal(result, found * 0.5)
    result = evaluate(LOOKUP, (ints(*numbers), per_row()), wanted(kind))
    scales = np.array([SCALES[number] for number in numbers]).reshape(-1, 1, 1)
    np.testing.assert_array_equal(result, found * scales)


@sweep("kind", [OperandType.TENSOR_INT64, OperandType.TENSOR_QUANT16_SYMM, SIGNED])
def test_lookup_of_raw_values(kind: OperandType) -> None:
    scale = 0.0 if kind is OperandType.TENSOR_INT64 else 0.5
    result = evaluate(LOOKUP, (ints(3, 1), given(kind, TABLE, scale)), wanted(kind, scale))
    np.testing.assert_array_equal(result, TABLE[[3, 1]])


@sweep(
    ("numbers", "table", "target", "message"),
    [
        ([5], given(SIGNED, TABLE, 0.5), wanted(FLOAT32), "has 5 at 0; indexes from 0 to 4"),
        ([0, -1], given(SIGNED, TABLE, 0.5), wanted(FLOAT32), "has -1 at 1"),
        ([0], given(SIGNED, TABLE, 0.5, 3), wanted(FLOAT32), "has zero point 3"),
        ([0], per_row(1), wanted(FLOAT32), "scales along dimension 1"),
    ],
)
def test_refuses_lookups(numbers: list[int], table: Given, target: object, message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(LOOKUP, (ints(*numbers), table), target)  # type: ignore[arg-type]
