from support.compiler.moved import FLOAT32, expect_moved
from support.operations.single_operation import ints, omitted, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep(
    ("shape", "axes"), [((2, 3, 5), (2, 0, 1)), ((2, 1, 3, 4), (0, 3, 1, 2)), ((0, 4), (1, 0)), ((3,), (0,))]
)
def test_transpose(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    expect_moved(OperationType.TRANSPOSE, shape, ints(*axes))


def test_matrices_are_transposed_without_axes() -> None:
    expect_moved(OperationType.TRANSPOSE, (2, 3), omitted(OperandType.TENSOR_INT32), kind=FLOAT32)


@sweep(("shape", "groups", "axis"), [((2, 6), 3, -1), ((6, 1, 2), 2, 0), ((0, 4), 4, 1), ((5,), 1, 0)])
def test_channel_shuffle(shape: tuple[int, ...], groups: int, axis: int) -> None:
    expect_moved(OperationType.CHANNEL_SHUFFLE, shape, *scalars(groups, axis))


@sweep(("shape", "axis"), [((2, 3, 4), 1), ((5,), 0), ((0, 2), 1), ((1, 2, 1, 2, 1, 2), 5)])
def test_reverse(shape: tuple[int, ...], axis: int) -> None:
    expect_moved(OperationType.REVERSE, shape, ints(axis))
