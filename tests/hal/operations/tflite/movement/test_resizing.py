import math

import numpy as np
import pytest
from support.operations.random_tensors import quantized
from support.operations.single_operation import evaluate, given, ints, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

AVERAGE, MAXIMUM = OperationType.TFLITE_AVERAGE_POOL_2D, OperationType.TFLITE_MAX_POOL_2D
BILINEAR = OperationType.TFLITE_RESIZE_BILINEAR
NEAREST = OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR
FLOAT32, INT32, BOOL8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8
QUANT8, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
SHORT = OperandType.TENSOR_QUANT16_SYMM
STORED = (QUANT8, SIGNED, SHORT)


def position(index: int, length: int, result: int, *, align: bool, half: bool) -> float:
    """Returns the coordinate of a result element, in float32."""
    if align and result > 1:
        scale = np.float32(length - 1) / np.float32(result - 1)
    else:
        scale = np.float32(length) / np.float32(result)
    return float((np.float32(index) + np.float32(0.5 * half)) * scale - np.float32(0.5 * half))


def fixed_place(index: int, length: int, result: int, *, align: bool, half: bool) -> tuple[int, int, int]:
    """Returns both neighbours and the distance from the first, in 2^-10; divides like C."""
    if align and result > 1:
        scale = (1024 * (length - 1) + (result - 1) // 2) // (result - 1)
    else:
        scale = (1024 * length + result // 2) // result
    at = index * scale + (scale // 2 - 512 if half else 0)
    lower = max(math.trunc(at / 1024), 0)
    # TFLite reads elements outside of the image here.
    lower = min(lower, length - 1)
    return lower, min(math.trunc((at + 1023) / 1024), length - 1), at - 1024 * lower


FLAGS = [(False, False), (True, False), (False, True)]
SIZES = [(1, 1), (2, 2), (4, 5), (7, 3), (9, 13)]


#: Sizes for which the rounding of the scale adds up to many elements.
LONG_SIZES = [(1414, 2), (3, 1633), (1, 3000)]


@sweep("kind", [SIGNED, SHORT])
@sweep(("align", "half"), FLAGS)
@sweep("size", [*SIZES, *LONG_SIZES])
def test_bilinear_in_fixed_point(
    kind: OperandType, size: tuple[int, int], *, align: bool, half: bool
) -> None:
    x = quantized(kind, 2, 4, 5, 1)
    inputs = (given(kind, x, 0.5), ints(*size), *scalars(align, half))
    result = evaluate(BILINEAR, inputs, wanted(kind, 0.5, rank=4))
    expected = np.empty((2, *size, 1), np.int64)
    for image, row, column in np.ndindex(2, *size):
        y0, y1, dy = fixed_place(row, 4, size[0], align=align, half=half)
        x0, x1, dx = fixed_place(column, 5, size[1], align=align, half=half)
        corners = x[image, [y0, y1, y0, y1], [x0, x0, x1, x1], 0].tolist()
        factors = ((1024 - dy) * (1024 - dx), dy * (1024 - dx), (1024 - dy) * dx, dy * dx)
        total = sum(corner * factor for corner, factor in zip(corners, factors, strict=True))
        expected[image, row, column] = math.copysign((abs(total) + (1 << 19)) >> 20, total)
    np.testing.assert_array_equal(result, expected)


@sweep(("align", "half"), FLAGS)
@sweep("size", SIZES)
def test_bilinear_of_floats_and_bytes(size: tuple[int, int], *, align: bool, half: bool) -> None:
    x = quantized(QUANT8, 2, 4, 5, 1)
    expected = np.empty((2, *size, 1))
    for row, column in np.ndindex(*size):
        ends, factors = [], []
        for index, length, result in ((row, 4, size[0]), (column, 5, size[1])):
            at = position(index, length, result, align=align, half=half)
            lower, upper = max(math.floor(at), 0), min(math.ceil(at), length - 1)
            ends.append((lower, upper))
            factors.append((1 - (at - lower), at - lower))
        expected[:, row, column, 0] = sum(
            x[:, ends[0][i], ends[1][j], 0] * factors[0][i] * factors[1][j] for i in (0, 1) for j in (0, 1)
        )
    inputs = (ints(*size), *scalars(align, half))
    floats = evaluate(BILINEAR, (given(FLOAT32, x), *inputs), wanted(FLOAT32, rank=4))
    np.testing.assert_allclose(floats, expected, rtol=1e-5, atol=1e-3)
    numbers = evaluate(BILINEAR, (given(QUANT8, x, 0.5, 3), *inputs), wanted(QUANT8, 0.5, 3, rank=4))
    # Rounding in float32 may move a sum across a tie.
    assert np.abs(numbers - (expected + 0.5)).max() <= 1
    is_clear = np.abs(expected % 1 - 0.5) > 1e-3
    np.testing.assert_array_equal(numbers[is_clear], np.floor(expected + 0.5)[is_clear])


@sweep("kind", [FLOAT32, INT32, BOOL8, *STORED])
@sweep(("align", "half"), [*FLAGS, (True, True)])
@sweep("size", SIZES)
def test_nearest(kind: OperandType, size: tuple[int, int], *, align: bool, half: bool) -> None:
    x = np.random.default_rng(2).integers(0, 2 if kind is BOOL8 else 100, (2, 4, 5, 3))
    scale = 0.5 if kind in STORED else 0.0
    inputs = (given(kind, x, scale), ints(*size), *scalars(align, half))
    result = evaluate(NEAREST, inputs, wanted(kind, scale, rank=4))
    picked = []
    for length, count in zip((4, 5), size, strict=True):
        positions = [position(i, length, count, align=align, half=half) + 0.5 * half for i in range(count)]
        whole = [math.floor(p + 0.5) if align else math.floor(p) for p in positions]
        picked.append([min(w, length - 1) for w in whole])
    np.testing.assert_array_equal(result, x[:, picked[0]][:, :, picked[1]])


@sweep("code", [BILINEAR, NEAREST])
@sweep(
    ("size", "message"), [((-1, 2), "height -1"), ((2, -1), "width -1"), ((2, 2, 2), r"\[2\] is expected")]
)
def test_refuses_sizes(code: OperationType, size: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(code, (given(FLOAT32, np.zeros((1, 2, 2, 1))), ints(*size)), wanted(FLOAT32, rank=4))


def test_flags_of_bilinear_exclude_each_other() -> None:
    inputs = (given(SIGNED, np.zeros((1, 2, 2, 1)), 1.0), ints(3, 3), *scalars(True, True))
    with pytest.raises(BadData, match="exclude each other"):
        evaluate(BILINEAR, inputs, wanted(SIGNED, 1.0, rank=4))


def test_no_images() -> None:
    for kind in (FLOAT32, *STORED):
        scale = 0.0 if kind is FLOAT32 else 1.0
        inputs = (given(kind, np.zeros((0, 2, 2, 1)), scale), ints(3, 4))
        assert evaluate(BILINEAR, inputs, wanted(kind, scale, rank=4)).shape == (0, 3, 4, 1)
