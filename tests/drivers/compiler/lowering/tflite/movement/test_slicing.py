from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import FLOAT32, expect_moved, kinds, several
from support.operations.pointwise import result
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64
UPDATE = OperationType.TFLITE_DYNAMIC_UPDATE_SLICE


def test_parts() -> None:
    expect_moved(OperationType.TFLITE_SLICE, (4, 3, 5), given(INT64, [1, 0, 2]), given(INT64, [2, -1, 3]))
    expect_moved(OperationType.TFLITE_SPLIT, (2, 6, 3), *scalars(1, 3), outputs=3)
    expect_moved(OperationType.TFLITE_SPLIT_V, (2, 6, 3), ints(1, -1, 0), *scalars(-2), outputs=3)


@sweep(
    ("begin", "end", "strides", "masks"),
    [
        # Masks of begin, end, ellipsis, new axis, shrunk axis.
        ((3, 1), (0, 6), (-1, 2), (0, 0, 0, 0, 0)),
        ((0, 1, 2), (0, 3, 5), (1, 1, 2), (0, 0, 1, 0, 0)),
        ((1, 0, 2), (2, 0, 4), (1, 1, 1), (0, 0, 0, 2, 1)),
        ((0, 0, 0), (0, 0, 1), (1, 1, 1), (0, 0, 2, 1, 4)),
        ((-1,), (0,), (1,), (0, 0, 0, 0, 1)),
        ((5, 2), (1, 2), (1, -1), (2, 2, 0, 0, 0)),
    ],
)
def test_strided_slice(
    begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...], masks: tuple[int, ...]
) -> None:
    arguments = ints(*begin), ints(*end), ints(*strides), *scalars(*masks, False)
    expect_moved(OperationType.TFLITE_STRIDED_SLICE, (4, 5, 6), *arguments)


def test_an_axis_of_length_0_can_be_removed() -> None:
    for mask, shape in ((1, (0, 3)), (2, (2, 0)), (1, (2, 0))):
        arguments = ints(0, 0), ints(1, 1), ints(1, 1), *scalars(0, 0, 0, 0, mask, False)
        expect_moved(OperationType.TFLITE_STRIDED_SLICE, shape, *arguments)


def test_a_slice_of_everything() -> None:
    none = ints(), ints(), ints(), *scalars(0, 0, 0, 0, 0, False)
    expect_moved(OperationType.TFLITE_STRIDED_SLICE, (), *none, kind=FLOAT32)
    expect_moved(OperationType.TFLITE_STRIDED_SLICE, (2, 3), *none, kind=FLOAT32)


@sweep("kind", kinds(UPDATE))
@sweep("data", [(0, 1), (0, 1, 2), (1,)])
def test_update(kind: OperandType, data: tuple[int, ...]) -> None:
    for update in ((2, 1), (3, 4), (0, 2)):
        for start in ((1, 2), (-5, 100)):
            inputs = [*several(kind, [(3, 4), update]), ints(*start)]
            expect_same(UPDATE, inputs, result(kind), data=data)


@sweep("start", [-(2**40), 2**40, 1])
def test_update_at_64_bits(start: int) -> None:
    inputs = [*several(FLOAT32, [(5,), (2,)]), given(INT64, [start])]
    expect_same(UPDATE, inputs, result(FLOAT32), data=(0, 1, 2))


def test_update_of_one_number() -> None:
    expect_same(UPDATE, [*several(FLOAT32, [(), ()]), ints()], result(FLOAT32), data=(0, 1))
