import pytest
from support.compiler.moved import expect_moved
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32 = OperandType.TENSOR_INT32


def ordered(shape: tuple[int, ...], nchw: bool) -> tuple[int, ...]:
    return (shape[0], shape[3], shape[1], shape[2]) if nchw else shape


@pytest.mark.parametrize("nchw", [False, True])
class TestBothOrders:
    @sweep(("shape", "size"), [((2, 3, 1, 12), 2), ((1, 2, 3, 9), 3), ((0, 2, 2, 4), 2), ((1, 2, 3, 4), 1)])
    def test_depth_to_space(self, shape: tuple[int, ...], size: int, nchw: bool) -> None:
        expect_moved(OperationType.DEPTH_TO_SPACE, ordered(shape, nchw), *scalars(size, nchw))

    @sweep(("shape", "size"), [((2, 4, 6, 3), 2), ((1, 3, 6, 1), 3), ((1, 0, 2, 4), 2), ((1, 2, 3, 4), 1)])
    def test_space_to_depth(self, shape: tuple[int, ...], size: int, nchw: bool) -> None:
        expect_moved(OperationType.SPACE_TO_DEPTH, ordered(shape, nchw), *scalars(size, nchw))

    @sweep(("shape", "block"), [((6, 2, 3, 2), (3, 2)), ((2, 1, 1, 5), (1, 2)), ((0, 2, 2, 1), (2, 2))])
    def test_batch_to_space(self, shape: tuple[int, ...], block: tuple[int, int], nchw: bool) -> None:
        expect_moved(OperationType.BATCH_TO_SPACE_ND, ordered(shape, nchw), ints(*block), *scalars(nchw))

    @sweep(
        ("shape", "block", "paddings"),
        [
            ((2, 4, 6, 3), (2, 3), [[0, 0], [0, 0]]),
            ((1, 3, 5, 2), (2, 2), [[1, 0], [2, 1]]),
            ((3, 0, 2, 1), (2, 1), [[1, 1], [0, 0]]),
            ((1, 1, 1, 1), (1, 4), [[0, 0], [3, 0]]),
        ],
    )
    def test_space_to_batch(
        self, shape: tuple[int, ...], block: tuple[int, int], paddings: list[list[int]], nchw: bool
    ) -> None:
        arguments = ints(*block), given(INT32, paddings), *scalars(nchw)
        expect_moved(OperationType.SPACE_TO_BATCH_ND, ordered(shape, nchw), *arguments)
