import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.compiler.moved import FLOAT32, expect_moved, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import ints, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

SLICE, STRIDED_SLICE, SPLIT = OperationType.SLICE, OperationType.STRIDED_SLICE, OperationType.SPLIT


def test_every_type() -> None:
    expect_moved(SLICE, (4, 3, 5), ints(1, 0, 2), ints(2, -1, 3))
    expect_moved(STRIDED_SLICE, (4, 7), ints(3, 1), ints(0, 6), ints(-1, 2), *scalars(0, 0, 0))
    expect_moved(SPLIT, (2, 6, 3), *scalars(1, 3), outputs=3)


@sweep(
    ("shape", "begin", "size"),
    [
        ((5,), (5,), (0,)),
        ((3, 0), (1, 0), (2, -1)),
        ((3, 4), (0, 0), (3, 4)),
        ((1, 2, 3, 4, 5), (0,) * 5, (1, 1, 2, 3, 4)),
    ],
)
def test_slice(shape: tuple[int, ...], begin: tuple[int, ...], size: tuple[int, ...]) -> None:
    expect_moved(SLICE, shape, ints(*begin), ints(*size), kind=FLOAT32)


@sweep("kind", kinds(SLICE))
def test_slices_that_begin_at_unknown_indices(kind: OperandType) -> None:
    for shape, begin, size in (
        ((4, 3, 5), (1, 0, 2), (2, 3, 3)),
        ((4, 3), (3, 0), (1, 3)),
        ((3, 4), (0, 0), (3, 4)),
        ((2, 3), (2, 1), (0, 2)),
    ):
        inputs = [numbers(kind, shape), ints(*begin), ints(*size)]
        for data in ((1,), (0, 1)):
            expect_same(SLICE, inputs, result(kind), data=data)


@sweep("begin", [(-1, 0), (2, 0), (0, 1), (2**31 - 1, 0), (0, -(2**31))])
def test_unknown_indices_must_be_in_range(begin: tuple[int, int]) -> None:
    with pytest.raises(RequirementFailed, match=r"indexes from 0 to \[1, 0\] are expected"):
        lowered_all(SLICE, [numbers(FLOAT32, (3, 4)), ints(*begin), ints(2, 4)], result(FLOAT32), data=(0, 1))


@sweep(
    ("begin", "end", "strides", "masks"),
    [
        ((0, 0, 0), (4, 5, 6), (1, 1, 1), (0, 0, 0)),
        ((-1, -2, 5), (0, 1, 0), (-2, 1, -3), (0, 0, 0)),
        ((1, 2, 3), (2, 3, 4), (1, 1, 1), (0, 0, 7)),
        ((1, 4, 5), (2, 0, 0), (1, -1, -1), (6, 6, 1)),
        ((-100, 1, 0), (100, 1, 6), (3, 1, 2), (0, 0, 0)),
    ],
)
def test_strided_slice(
    begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...], masks: tuple[int, int, int]
) -> None:
    expect_moved(
        STRIDED_SLICE, (4, 5, 6), ints(*begin), ints(*end), ints(*strides), *scalars(*masks), kind=FLOAT32
    )


@sweep(("shape", "axis", "parts"), [((4,), -1, 4), ((0, 2), 0, 3), ((2, 3), 0, 1), ((2, 0), 0, 2)])
def test_split(shape: tuple[int, ...], axis: int, parts: int) -> None:
    expect_moved(SPLIT, shape, *scalars(axis, parts), kind=FLOAT32, outputs=parts)
