from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import expect_moved, kinds
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints, scalars
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


def test_pad_and_mirror() -> None:
    expect_moved(OperationType.TFLITE_PAD, (1, 2, 1, 3, 2), given(INT64, [[0, 1]] * 5))
    expect_moved(OperationType.TFLITE_MIRROR_PAD, (3, 2), given(INT64, [[1, 2], [0, 1]]), *scalars(0))


@sweep("data", [(0,), (0, 2)])
@sweep("kind", kinds(OperationType.TFLITE_PADV2))
def test_padding_with_a_value(kind: OperandType, data: tuple[int, ...]) -> None:
    for shape in ((2, 3), (0, 3)):
        inputs = [numbers(kind, shape), given(INT32, [[1, 0], [2, 3]]), numbers(kind, (1,), seed=1)]
        expect_same(OperationType.TFLITE_PADV2, inputs, result(kind), data=data)


@sweep("data", [(0,), (0, 2)])
@sweep("kind", kinds(OperationType.TFLITE_DILATE))
def test_dilate(kind: OperandType, data: tuple[int, ...]) -> None:
    for shape in ((4, 3), (0, 2), (1, 1)):
        inputs = [numbers(kind, shape), ints(3, 1), numbers(kind, (), seed=1)]
        expect_same(OperationType.TFLITE_DILATE, inputs, result(kind), data=data)


@sweep("kind", kinds(OperationType.TFLITE_STABLEHLO_PAD))
@sweep(
    ("low", "high", "interior"),
    [((-1, 2), (1, -3), (2, 1)), ((0, 0), (0, 0), (0, 0)), ((-3, 1), (1, 1), (0, 0))],
)
def test_stablehlo_pad(
    kind: OperandType, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
) -> None:
    inputs = [numbers(kind, (3, 4)), numbers(kind, (), seed=1), ints(*low), ints(*high), ints(*interior)]
    expect_same(OperationType.TFLITE_STABLEHLO_PAD, inputs, result(kind), data=(0, 1))
