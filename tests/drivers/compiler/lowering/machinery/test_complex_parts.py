import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import numbers, result
from support.operations.single_operation import call_of, given, ints, scalars
from support.sweeps import sweep

from neurald.drivers.compiler.lowering.machinery.complex_parts import moves_complex
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

COMPLEX, FLOAT, BOOL = (OperandType[f"TENSOR_{name}"] for name in ("COMPLEX64", "FLOAT32", "BOOL8"))
INT32 = OperandType.TENSOR_INT32


@sweep("shape", [(1, 1), (2, 3), (0, 4), (7, 129)])
def test_parts_are_moved_alike(shape: tuple[int, ...]) -> None:
    source = numbers(COMPLEX, shape)
    expect_same(OperationType.TFLITE_TRANSPOSE, [source, ints(1, 0)], result(COMPLEX))
    pads = given(INT32, [[1, 2], [0, 3]])
    for value in (1 - 2j, complex(np.nan, np.inf)):
        inputs = [source, pads, given(COMPLEX, value)]
        for data in ((0,), (0, 2), (2,)):
            expect_same(OperationType.TFLITE_PADV2, inputs, result(COMPLEX), data=data)


def test_other_inputs_and_outputs_have_no_parts() -> None:
    condition = given(BOOL, [[True], [False]])
    inputs = [condition, numbers(COMPLEX, (2, 3)), numbers(COMPLEX, (1, 3), seed=1)]
    expect_same(OperationType.TFLITE_SELECT_V2, inputs, result(COMPLEX), data=(0, 1, 2))
    expect_same(OperationType.TFLITE_RANK, [numbers(COMPLEX, (2, 3))], result(INT32))


def test_updates_with_equal_indices_are_added() -> None:
    inputs = [given(INT32, [[1], [1], [0]]), numbers(COMPLEX, (3, 2), low=0), ints(4, 2)]
    expect_same(OperationType.TFLITE_SCATTER_ND, inputs, result(COMPLEX), data=(0, 1))


@pytest.mark.parametrize(("kind", "expected"), [(COMPLEX, True), (FLOAT, False)], ids=["complex", "real"])
def test_only_complex_numbers_have_parts(kind: OperandType, *, expected: bool) -> None:
    call = call_of(OperationType.TFLITE_TILE, [numbers(kind, (2,)), ints(3)], result(kind))
    assert moves_complex(call) is expected
    product = call_of(OperationType.TFLITE_MUL, [numbers(kind, (2,))] * 2 + [*scalars(0)], result(kind))
    assert not moves_complex(product)
