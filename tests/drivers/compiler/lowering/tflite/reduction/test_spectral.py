import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.single_operation import given, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, INT32, COMPLEX64 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_COMPLEX64,
)
RFFT2D = OperationType.TFLITE_RFFT2D

#: Allowed error of real and imaginary parts, relative to the sum of all magnitudes.
ERROR = 2.0**-22


def expect_transform(x: Array, lengths: tuple[int, int]) -> None:
    def expect_close(result: Array, expected: Array) -> None:
        limit = ERROR * np.abs(x).sum()
        assert np.abs(result - expected).max(initial=0) <= limit
        # The sign of an imaginary part of 0 decides the sign of the phase of a negative number.
        rows, columns = lengths
        mirrored = result.imag[..., :: max(1, rows // 2), :: max(1, columns // 2)]
        assert not mirrored.any()
        assert np.signbit(mirrored).all() or not x.size

    inputs = (given(FLOAT32, x), given(INT32, lengths))
    expect_same(RFFT2D, inputs, wanted(COMPLEX64), compare=expect_close)


@sweep("length", [1, 2, 4, 8, 32, 64, 128, 256, 2048, 4096, 8192])
def test_rows_of_every_length(length: int) -> None:
    generator = np.random.default_rng(length)
    for size in {length, max(1, length - 1), length + 3}:
        expect_transform(generator.standard_normal((2, 1, size)).astype(np.float32), (1, length))


@sweep(
    ("shape", "lengths"),
    [
        ((2, 8), (2, 8)),
        ((3, 5, 7), (4, 8)),
        ((5, 6), (4, 4)),
        ((2, 3, 4, 4), (1, 2)),
        ((130, 140), (128, 256)),
        ((3, 20), (8, 1)),
        ((0, 4, 4), (4, 4)),
        ((2, 0, 4), (4, 4)),
        ((2, 0), (1, 4)),
    ],
)
def test_matrices(shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    expect_transform(np.random.default_rng(0).standard_normal(shape).astype(np.float32), lengths)


def test_single_frequencies() -> None:
    index = np.arange(1024)
    expect_transform(np.cos(2 * np.pi * 37 / 1024 * index).astype(np.float32)[None], (1, 1024))
