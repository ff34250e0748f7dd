import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.compiler.moved import FLOAT32, kinds, several
from support.operations.pointwise import numbers, result
from support.operations.single_operation import Given, given, ints, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

INT64 = OperandType.TENSOR_INT64
GATHER, SCATTER = OperationType.TFLITE_STABLEHLO_GATHER, OperationType.TFLITE_STABLEHLO_SCATTER
#: Some slices exceed the input.
STARTS = [[[1, 0], [2, 3], [-2, 1]], [[0, 0], [2**40, 2], [1, -1]]]


def near(found: Array, expected: Array) -> None:
    (close if found.dtype.kind == "f" else np.testing.assert_array_equal)(found, expected)


@sweep("data", [(0,), (0, 1)])
@sweep("kind", kinds(GATHER))
def test_gather(kind: OperandType, data: tuple[int, ...]) -> None:
    # Each entry has indices, offsets, collapsed, mapped, index axis and sizes.
    cases: list[tuple[Given, Given, Given, Given, int, Given]] = [
        (given(INT64, STARTS), ints(2), ints(0), ints(1, 0), 2, ints(1, 2)),
        (given(INT64, STARTS), ints(0, 3), ints(), ints(0, 1), 2, ints(2, 3)),
        (ints(1, 7, -3), ints(1), ints(0), ints(0), 1, ints(1, 4)),
        (ints(2, 1), ints(0), ints(1), ints(0, 1), 0, ints(2, 1)),
    ]
    for indices, offsets, collapsed, mapped, axis, sizes in cases:
        inputs = [numbers(kind, (3, 4)), indices, offsets, collapsed, mapped, *scalars(axis), sizes]
        expect_same(GATHER, inputs, result(kind), data=data)


@sweep("update", range(5))
@sweep("kind", kinds(SCATTER))
def test_scatter(kind: OperandType, update: int) -> None:
    # Each entry has indices, the shape of updates, window, inserted, mapped and index axis.
    cases: list[tuple[Given, tuple[int, ...], Given, Given, Given, int]] = [
        (given(INT64, STARTS), (2, 3, 2), ints(2), ints(0), ints(1, 0), 2),
        (given(INT64, STARTS), (2, 2, 3, 3), ints(0, 2), ints(), ints(0, 1), 2),
        (ints(1), (4,), ints(0), ints(0), ints(0), 0),
        (ints(-1, 2), (2, 3), ints(0, 1), ints(), ints(0, 1), 0),
        (given(INT64, np.zeros((0, 1))), (0, 4), ints(1), ints(0), ints(0), 1),
    ]
    for indices, shape, window, inserted, mapped, axis in cases:
        source, updates = (numbers(kind, each, seed=seed, low=0) for seed, each in enumerate([(3, 4), shape]))
        inputs = [source, indices, updates, window, inserted, mapped, *scalars(axis, update)]
        for data in ((0, 2), (0, 1, 2)):
            expect_same(SCATTER, inputs, result(kind), data=data, compare=near)


def test_one_number() -> None:
    nothing = ints(), ints(), ints(), *scalars(0, 0)
    inputs = [*several(FLOAT32, [()]), ints(), *several(FLOAT32, [()]), *nothing]
    expect_same(SCATTER, inputs, result(FLOAT32), data=(0, 2))
