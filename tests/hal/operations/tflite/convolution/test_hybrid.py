import math

import numpy as np
from support.sweeps import sweep

from neurald.hal.operations.arithmetic.row_quantization import quantize_rows
from neurald.hal.operations.machinery.call import Array


def away(value: float) -> int:
    """Returns the nearest integer, ties away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def symmetric(row: Array) -> tuple[list[int], float, int]:
    largest = np.float32(max(map(abs, row.tolist()), default=0))
    if largest == 0:
        return [0] * len(row), 1.0, 0
    inverse = np.float32(127) / largest
    quantized = [max(-127, min(127, away(float(v * inverse)))) for v in row]
    return quantized, float(largest / np.float32(127)), 0


def asymmetric(row: Array) -> tuple[list[int], float, int]:
    low, high = min([0.0, *row.tolist()]), max([0.0, *row.tolist()])
    if low == high:
        return [0] * len(row), 1.0, 0
    low, high = np.float32(low), np.float32(high)
    scale = (high - low) / np.float32(255)
    is_from_low = 128 + abs(low / scale) < 127 + abs(high / scale)
    zero_point = max(-128, min(127, away(float(-128 - low / scale if is_from_low else 127 - high / scale))))
    inverse = np.float32(1) / scale
    quantized = [max(-128, min(127, away(float(np.float32(v * inverse))) + zero_point)) for v in row]
    return quantized, float(scale), zero_point


@sweep("is_asymmetric", [False, True])
@sweep(("low", "high"), [(-1, 1), (0, 3), (-5, 0), (-1, 1e3), (2, 3), (-4, -1), (-1e30, 1e30)])
def test_rows_are_quantized_separately(low: float, high: float, *, is_asymmetric: bool) -> None:
    rows = np.random.default_rng(1).uniform(low, high, (9, 13)).astype(np.float32)
    rows[4] = 0
    rows[5, 1:] = 0
    quantized, scales, zero_points = quantize_rows(rows, asymmetric=is_asymmetric)
    assert (quantized.dtype.name, scales.dtype.name) == ("int8", "float32")
    oracle = asymmetric if is_asymmetric else symmetric
    for row, numbers, scale, zero_point in zip(rows, quantized, scales, zero_points, strict=True):
        assert (numbers.tolist(), float(scale), int(zero_point)) == oracle(row)


@sweep("is_asymmetric", [False, True])
@sweep("shape", [(0, 5), (3, 0), (0, 0)])
def test_empty_rows(shape: tuple[int, int], *, is_asymmetric: bool) -> None:
    quantized, scales, zero_points = quantize_rows(np.zeros(shape, np.float32), asymmetric=is_asymmetric)
    assert quantized.shape == shape
    assert scales.tolist() == [1] * shape[0]
    assert zero_points.tolist() == [0] * shape[0]


@sweep("is_asymmetric", [False, True])
@sweep("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_do_not_affect_other_rows(value: float, *, is_asymmetric: bool) -> None:
    rows = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    expected = quantize_rows(rows, asymmetric=is_asymmetric)
    rows[1, 2] = value
    found = quantize_rows(rows, asymmetric=is_asymmetric)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part[[0, 2]], other[[0, 2]])


def test_the_zero_point_is_added_to_what_is_rounded() -> None:
    # Scaled, the first number is just above 7.5; with the zero point, it is rounded to -120.5.
    row = np.array([[0.044675678, 1.5189722776412964]], np.float32)
    quantized, _, zero_points = quantize_rows(row, asymmetric=True)
    assert zero_points.tolist() == [-128]
    assert quantized.tolist() == [[-120, 127]]
