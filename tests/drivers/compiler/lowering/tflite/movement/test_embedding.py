import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32
from support.operations.pointwise import label, numbers, result, rows
from support.operations.single_operation import given, ints, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32
LOOKUP = OperationType.TFLITE_EMBEDDING_LOOKUP
STORED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
TABLE = [[-127, 3], [127, 0], [5, -6]]


def is_copied(types: dict[str, OperandType]) -> bool:
    return types["F"] is types["T"]


@sweep("types", [types for _, types in rows([LOOKUP]) if is_copied(types)], ids=label)
def test_rows_are_copied(types: dict[str, OperandType]) -> None:
    inputs = [ints(2, 0, 2), numbers(types["F"], (3, 2, 2))]
    expect_same(LOOKUP, inputs, result(types["T"]), data=(0, 1))


@sweep("data", [(0,), (0, 1)])
@sweep("kind", [FLOAT32, OperandType.TENSOR_FLOAT16])
def test_rows_become_floats(kind: OperandType, data: tuple[int, ...]) -> None:
    expect_same(LOOKUP, [ints(2, 0, 2), given(STORED, TABLE, 0.3)], wanted(kind), data=data)
    quant = ChannelQuant(dimension=0, scales=(0.1, 0.2, 0.7))
    table = given(PER_CHANNEL, TABLE, channel_quant=quant)
    expect_same(LOOKUP, [ints(2, 0, 2), table], wanted(kind), data=data)


def test_rows_must_exist() -> None:
    with pytest.raises(RequirementFailed, match="from 0 to 2"):
        lowered_all(LOOKUP, [ints(2, 3), given(STORED, TABLE, 0.3)], wanted(FLOAT32))
