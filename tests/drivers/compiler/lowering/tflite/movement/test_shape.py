from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import FLOAT32, expect_moved, kinds, several
from support.operations.pointwise import numbers, result
from support.operations.single_operation import given, ints, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

INT32, INT64 = OperandType.TENSOR_INT32, OperandType.TENSOR_INT64


def test_other_shapes() -> None:
    expect_moved(OperationType.TFLITE_RESHAPE, (2, 3, 1, 2, 2), given(INT64, [4, -1]))
    expect_moved(OperationType.TFLITE_SQUEEZE, (1, 3, 1), omitted(INT32))
    expect_moved(OperationType.TFLITE_SQUEEZE, (1, 1), omitted(INT32))
    expect_moved(OperationType.TFLITE_EXPAND_DIMS, (2, 3, 1, 2, 2), *scalars(-1))


@sweep("kind", kinds(OperationType.TFLITE_CONCATENATION))
def test_concatenation_and_pack(kind: OperandType) -> None:
    parts = several(kind, [(1, 2, 1, 2, 3), (1, 2, 4, 2, 3)])
    expect_same(OperationType.TFLITE_CONCATENATION, [*parts, *scalars(2)], result(kind), data=(0, 1))
    expect_same(
        OperationType.TFLITE_PACK, [*scalars(1), *several(kind, [(2, 3)] * 2)], result(kind), data=(1, 2)
    )


@sweep(("shape", "axis", "count"), [((2, 3), 1, 3), ((3,), 0, 3), ((0, 2), -1, 2), ((1, 4), 0, 1)])
def test_unpack(shape: tuple[int, ...], axis: int, count: int) -> None:
    expect_moved(OperationType.TFLITE_UNPACK, shape, *scalars(axis), outputs=count)


def test_transpose() -> None:
    expect_moved(OperationType.TFLITE_TRANSPOSE, (2, 3, 1, 2, 4), given(INT64, [4, 0, 3, 1, 2]))


@sweep("kind", [INT32, INT64])
@sweep("shape", [(), (0, 7), (1, 2, 3)])
def test_shape_and_rank(kind: OperandType, shape: tuple[int, ...]) -> None:
    expect_same(OperationType.TFLITE_SHAPE, [numbers(FLOAT32, shape)], wanted(kind))
    expect_same(OperationType.TFLITE_RANK, [numbers(FLOAT32, shape)], wanted(INT32))


def test_narrow_index_types() -> None:
    expect_moved(
        OperationType.TFLITE_RESHAPE,
        (2, 3),
        given(OperandType.TENSOR_QUANT16_SYMM, [3, 2], 1.0),
        kind=FLOAT32,
    )
    expect_moved(OperationType.TFLITE_TRANSPOSE, (2, 3), ints(1, 0), kind=FLOAT32)
