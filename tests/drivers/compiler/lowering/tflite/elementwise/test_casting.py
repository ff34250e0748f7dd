import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.pointwise import label, numbers, result, rows
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

CAST, BITCAST = OperationType.TFLITE_CAST, OperationType.TFLITE_BITCAST
FLOAT = OperandType.TENSOR_FLOAT32


@sweep(("operation", "types"), rows([CAST]), ids=label)
def test_every_pair(operation: OperationType, types: dict[str, OperandType]) -> None:
    expect_same(operation, [numbers(types["T"], (3, 7))], result(types["U"]))


@sweep(("operation", "types"), rows([BITCAST]), ids=label)
def test_bits_of_every_pair(operation: OperationType, types: dict[str, OperandType]) -> None:
    source, target = (types[name].dtype.itemsize for name in "TU")
    shape = (2, 5) if source >= target else (2, 5, target // source)
    quantized = np.random.default_rng(0).integers(0, 100, (*shape, source), np.uint8)
    # Other bytes than 0 and 1 are not bools.
    stored = quantized % 2 if types["T"].dtype == np.bool_ else quantized
    values = stored.view(types["T"].dtype).reshape(shape)
    expect_same(operation, [given(types["T"], values)], result(types["U"]))


def complex_numbers() -> Array:
    parts = np.random.default_rng(0).normal(0, 100, (2, 3, 5, 2)).astype(np.float32)
    parts.reshape(-1, 2)[:9] = [
        (0, 0),
        (3e38, 0),
        (2e38, -2e38),
        (1e-38, 1e-38),
        (-np.inf, 1),
        (np.inf, np.inf),
        (np.inf, np.nan),
        (1, np.nan),
        (-0.0, -7),
    ]
    return parts.view(np.complex64)[..., 0]


@sweep("operation", [OperationType.TFLITE_COMPLEX_ABS, OperationType.TFLITE_REAL, OperationType.TFLITE_IMAG])
def test_parts_of_complex_numbers(operation: OperationType) -> None:
    source = given(OperandType.TENSOR_COMPLEX64, complex_numbers())
    expect_same(operation, [source], result(FLOAT), compare=_close)


def _close(values: Array, expected: Array) -> None:
    np.testing.assert_allclose(values, expected, rtol=3e-7)


@sweep("kind", [FLOAT, OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8])
def test_the_real_part_is_cast(kind: OperandType) -> None:
    expect_same(CAST, [given(OperandType.TENSOR_COMPLEX64, complex_numbers())], result(kind))


def test_complex_numbers_in_another_shape() -> None:
    inputs = [
        given(OperandType.TENSOR_COMPLEX64, complex_numbers()),
        given(OperandType.TENSOR_INT32, [6, -1]),
    ]
    expect_same(OperationType.TFLITE_RESHAPE, inputs, result(OperandType.TENSOR_COMPLEX64))
