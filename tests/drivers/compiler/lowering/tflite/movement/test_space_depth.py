from support.compiler.moved import expect_moved
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32


def test_depth() -> None:
    expect_moved(OperationType.TFLITE_DEPTH_TO_SPACE, (2, 3, 1, 12), *scalars(2, False))
    expect_moved(OperationType.TFLITE_SPACE_TO_DEPTH, (2, 4, 6, 3), *scalars(2, False))


@sweep(
    ("shape", "block", "crops"),
    [
        ((6, 2, 3, 2), (3, 2), [[0, 0], [0, 0]]),
        ((6, 2, 3, 2), (3, 2), [[2, 1], [0, 5]]),
        ((4, 3, 2), (2,), [[1, 0]]),
        ((2, 1, 5), (2,), [[2, 0]]),
    ],
)
def test_batch_to_space(shape: tuple[int, ...], block: tuple[int, ...], crops: list[list[int]]) -> None:
    expect_moved(OperationType.TFLITE_BATCH_TO_SPACE_ND, shape, ints(*block), given(INT32, crops))


def test_batch_to_space_without_crops() -> None:
    expect_moved(OperationType.TFLITE_BATCH_TO_SPACE_ND, (4, 3, 2), ints(2))


@sweep(
    ("shape", "block", "paddings"),
    [((2, 3, 5, 2), (2, 3), [[1, 0], [0, 1]]), ((2, 3, 2), (2,), [[0, 1]]), ((1, 0, 2), (2,), [[1, 1]])],
)
def test_space_to_batch(shape: tuple[int, ...], block: tuple[int, ...], paddings: list[list[int]]) -> None:
    expect_moved(OperationType.TFLITE_SPACE_TO_BATCH_ND, shape, ints(*block), given(INT32, paddings))
