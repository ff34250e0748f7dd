from collections.abc import Callable

import pytest
from support.operations.single_operation import call_of, given, ints, scalars, unknown, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.arguments import integers, one_scale
from neurald.hal.operations.machinery.call import Call, UnknownValue

QUANT8 = OperandType.TENSOR_QUANT8_ASYMM


def tile(*multiples: int) -> Call:
    data = given(OperandType.TENSOR_FLOAT32, [[1.0, 2.0]])
    return call_of(OperationType.TILE, [data, ints(*multiples)], wanted(OperandType.TENSOR_FLOAT32))


def test_integers() -> None:
    assert integers(tile(4, 5), "multiples", (2,)).tolist() == [4, 5]
    with pytest.raises(BadData, match=r"operand 1 \(multiples of TILE\) has shape \[3\]; \[2\] is expected"):
        integers(tile(4, 5, 6), "multiples", (2,))


def test_unknown_integers() -> None:
    data = given(OperandType.TENSOR_FLOAT32, [[1.0, 2.0]])
    call = call_of(OperationType.TILE, [data, unknown(ints(1, 2))], wanted(OperandType.TENSOR_FLOAT32))
    with pytest.raises(UnknownValue):
        integers(call, "multiples", (2,))


@sweep(("scale", "zero_point"), [(0.25, 3), (0.5, 4)])
def test_one_scale(scale: float, zero_point: int) -> None:
    def call(second: tuple[float, int]) -> Call:
        inputs = [*scalars(0), given(QUANT8, [1], 0.5, 3), given(QUANT8, [1], *second)]
        return call_of(OperationType.PACK, inputs, wanted(QUANT8, 0.5, 3))

    check: Callable[[Call], None] = one_scale("inputs", "output")
    check(call((0.5, 3)))
    with pytest.raises(
        BadData,
        match=rf"operand 2 \(inputs\[1\] of PACK\) has scale {scale} and zero point {zero_point}; "
        r"those of output, 0.5 and 3, are expected",
    ):
        check(call((scale, zero_point)))
