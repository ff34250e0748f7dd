import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32, expect_moved
from support.operations.pointwise import label, numbers, result, rows
from support.operations.single_operation import given, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32
QUANT8 = OperandType.TENSOR_QUANT8_ASYMM


@sweep(
    ("shape", "paddings"),
    [((2, 3), [[1, 0], [2, 3]]), ((0, 2), [[1, 2], [0, 1]]), ((2, 1, 3), [[0, 0]] * 3), ((3,), [[0, 2]])],
)
def test_zeros(shape: tuple[int, ...], paddings: list[list[int]]) -> None:
    expect_moved(OperationType.PAD, shape, given(INT32, paddings))


@sweep("data", [(0,), (0, 2)])
@sweep(("operation", "types"), rows([OperationType.PAD_V2]), ids=label)
def test_padding_with_a_value(
    operation: OperationType, types: dict[str, OperandType], data: tuple[int, ...]
) -> None:
    for value in (3, 7):
        inputs = [numbers(types["T"], (2, 3)), given(INT32, [[1, 0], [2, 3]]), given(types["S"], value)]
        expect_same(operation, inputs, result(types["T"]), data=data)


def test_a_padding_value_out_of_range() -> None:
    inputs = [numbers(QUANT8, (2,)), given(INT32, [[1, 0]]), given(OperandType.INT32, 256)]
    with pytest.raises(RequirementFailed, match="from 0 to 255"):
        lowered_all(OperationType.PAD_V2, inputs, result(QUANT8), data=(0, 2))


def test_a_padding_value_of_nan() -> None:
    inputs = [numbers(FLOAT32, (2,)), given(INT32, [[1, 0]]), given(OperandType.FLOAT32, np.nan)]
    expect_same(OperationType.PAD_V2, inputs, result(FLOAT32))


@sweep("mode", [0, 1])
@sweep("paddings", [[[1, 0], [2, 3]], [[1, 1], [3, 0]], [[0, 0], [0, 0]], [[0, 1], [3, 3]]])
def test_mirrored(paddings: list[list[int]], mode: int) -> None:
    expect_moved(OperationType.MIRROR_PAD, (2, 4), given(INT32, paddings), *scalars(mode))


def test_mirrored_once_and_empty() -> None:
    expect_moved(OperationType.MIRROR_PAD, (1, 0), given(INT32, [[1, 1], [0, 0]]), *scalars(1), kind=FLOAT32)
    expect_moved(OperationType.MIRROR_PAD, (1, 2), given(INT32, [[0, 0], [1, 1]]), *scalars(0), kind=FLOAT32)
