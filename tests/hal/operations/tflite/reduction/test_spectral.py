import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT32, INT32, COMPLEX64 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_COMPLEX64,
)
RFFT2D = OperationType.TFLITE_RFFT2D


@sweep(
    ("shape", "lengths"),
    [
        ((2, 8), (2, 8)),
        ((3, 5, 7), (4, 8)),
        ((5, 6), (4, 4)),
        ((1, 1), (1, 1)),
        ((2, 3, 4, 4), (1, 2)),
        ((0, 4, 4), (4, 4)),
    ],
)
def test_against_the_definition(shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    rows, columns = lengths
    filled = np.zeros((*shape[:-2], rows, columns))
    part = x[..., :rows, :columns]
    filled[..., : part.shape[-2], : part.shape[-1]] = part
    left = np.exp(-2j * np.pi * np.outer(np.arange(rows), np.arange(rows)) / rows)
    right = np.exp(-2j * np.pi * np.outer(np.arange(columns), np.arange(columns // 2 + 1)) / columns)
    result = evaluate(RFFT2D, (given(FLOAT32, x), given(INT32, lengths)), wanted(COMPLEX64))
    np.testing.assert_allclose(result, left @ filled @ right, atol=1e-5)
    mirrored = result.imag[..., :: max(1, rows // 2), :: max(1, columns // 2)]
    assert not mirrored.any()
    assert np.signbit(mirrored).all()


@sweep(
    ("lengths", "message"),
    [([3, 4], "power of 2"), ([4, 0], "power of 2"), ([-4, 4], "power of 2"), ([4], r"\[2\] is expected")],
)
def test_refuses_lengths(lengths: list[int], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(RFFT2D, (given(FLOAT32, np.zeros((4, 4))), given(INT32, lengths)), wanted(COMPLEX64))


def test_refuses_a_result_that_is_too_large() -> None:
    with pytest.raises(BadData, match="bytes"):
        evaluate(RFFT2D, (given(FLOAT32, np.zeros((4, 4))), given(INT32, [2**20, 2**20])), wanted(COMPLEX64))
