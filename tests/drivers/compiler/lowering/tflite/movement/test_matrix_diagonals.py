from support.compiler.lowering_beside_reference import expect_same
from support.compiler.moved import expect_moved, kinds, several
from support.operations.pointwise import result
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType


@sweep("shape", [(3,), (2, 4), (2, 0), (0, 2), (2, 1)])
def test_diagonal(shape: tuple[int, ...]) -> None:
    expect_moved(OperationType.TFLITE_MATRIX_DIAG, shape)


@sweep("kind", kinds(OperationType.TFLITE_MATRIX_SET_DIAG))
def test_diagonal_set(kind: OperandType) -> None:
    for shape in ((3, 3), (2, 3, 5), (2, 5, 3), (2, 0, 3), (1, 1)):
        parts = several(kind, [shape, (*shape[:-2], min(shape[-2:]))])
        expect_same(OperationType.TFLITE_MATRIX_SET_DIAG, parts, result(kind), data=(0, 1))
