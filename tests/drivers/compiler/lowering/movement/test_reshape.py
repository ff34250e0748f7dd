from support.compiler.moved import FLOAT32, expect_moved
from support.operations.single_operation import ints, omitted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


def test_every_type() -> None:
    expect_moved(OperationType.RESHAPE, (2, 3, 5), ints(5, -1))
    expect_moved(OperationType.SQUEEZE, (2, 1, 5, 1), ints(1))


@sweep(
    ("shape", "target"),
    [((2, 3, 4), (4, 3, 2)), ((0, 3), (3, 0)), ((1,), ()), ((6,), (6,)), ((7, 9), (3, 1, 21))],
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    expect_moved(OperationType.RESHAPE, shape, ints(*target), kind=FLOAT32)


def test_squeeze_without_axes() -> None:
    none = omitted(OperandType.TENSOR_INT32)
    for shape in ((1, 3, 1, 2), (1, 1), (0, 1)):
        expect_moved(OperationType.SQUEEZE, shape, none, kind=FLOAT32)
