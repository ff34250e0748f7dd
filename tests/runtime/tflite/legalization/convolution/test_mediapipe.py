"""MediaPipe's custom operators, compared with direct computations."""

import contextlib
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.custom import custom_file, pool_options, pooled, results_of, transposed, unpooled

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite

SIZES = [((4, 4), (2, 2)), ((5, 7), (2, 3)), ((3, 3), (3, 3)), ((3, 4), (1, 2)), ((7, 5), (3, 2))]


def random(*shape: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@sweep("padding", [1, 2])
@sweep("window", [(2, 2), (3, 5), (1, 1)])
@sweep("strides", [(1, 1), (2, 3)])
def test_a_transposed_convolution(
    tmp_path: Path, padding: int, window: tuple[int, int], strides: tuple[int, int]
) -> None:
    file = transposed((3, 2, 4), window, strides, padding)
    weights, bias = (file.graphs[0].tensors[index].data for index in (1, 2))
    images = random(1, 3, 2, 4)
    (found,) = results_of(file, tmp_path, images)
    whole = np.zeros((2 * strides[0] + window[0], strides[1] + window[1], 5))
    for row in range(3):
        for column in range(2):
            place = np.s_[
                row * strides[0] : row * strides[0] + window[0],
                column * strides[1] : column * strides[1] + window[1],
            ]
            whole[place] += np.einsum("c,ohwc->hwo", images[0, row, column], weights)
    before = [
        max(0, side - stride) // 2 if padding == 1 else 0
        for side, stride in zip(window, strides, strict=True)
    ]
    wanted = np.zeros(found.shape[1:])
    part = whole[before[0] :, before[1] :][: wanted.shape[0], : wanted.shape[1]]
    wanted[: part.shape[0], : part.shape[1]] = part
    np.testing.assert_allclose(found[0], wanted + bias, rtol=1e-4, atol=1e-5)


@sweep("size, window", SIZES)
@sweep("padding", [1, 2])
def test_pooling_returns_positions(
    tmp_path: Path, size: tuple[int, int], window: tuple[int, int], padding: int
) -> None:
    images = random(2, *size, 3)
    values, bits = results_of(pooled(size, window, padding), tmp_path, images)
    positions = bits.view(np.int32)
    grown = [length * side for length, side in zip(values.shape[1:3], window, strict=True)]
    before = [max(0, whole - length) // 2 for whole, length in zip(grown, size, strict=True)]
    for image, row, column, channel in np.ndindex(*values.shape):
        top, left = row * window[0] - before[0], column * window[1] - before[1]
        inside = images[image, max(top, 0) : top + window[0], max(left, 0) : left + window[1], channel]
        assert values[image, row, column, channel] == inside.max()
        across, down = divmod(int(positions[image, row, column, channel]), window[0])
        place = np.clip(top + down, 0, size[0] - 1), np.clip(left + across, 0, size[1] - 1)
        assert images[image, place[0], place[1], channel] == inside.max()


@sweep("size, window", [*SIZES, ((3, 2), (20, 17))])
def test_unpooling_is_the_inverse(tmp_path: Path, size: tuple[int, int], window: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    values = random(2, *size, 3)
    positions = rng.integers(0, window[0] * window[1], values.shape).astype(np.int32)
    (found,) = results_of(unpooled(size, window), tmp_path, values, positions.view(np.float32))
    wanted = np.zeros_like(found)
    for image, row, column, channel in np.ndindex(*values.shape):
        across, down = divmod(int(positions[image, row, column, channel]), window[0])
        wanted[image, row * window[0] + down, column * window[1] + across, channel] = values[
            image, row, column, channel
        ]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("window", [(2, 3), (40, 30)])
def test_unpooling_leaves_out_positions_outside_of_windows(tmp_path: Path, window: tuple[int, int]) -> None:
    area = window[0] * window[1]
    positions = np.resize(np.array([-1, 0, area - 1, area, 2**31 - 1, -(2**31)], np.int32), (2, 2, 2, 3))
    values = np.ones(positions.shape, np.float32)
    (found,) = results_of(unpooled((2, 2), window), tmp_path, values, positions.view(np.float32))
    assert found.sum() == ((positions >= 0) & (positions < area)).sum()


def test_hostile_windows_take_no_time_and_no_memory() -> None:
    """Windows of millions of elements, and images that grow to millions of times their size."""
    huge = 1 << 29
    for file in (unpooled((2, 2), (3000, 1000)), unpooled((1, 1), (1, huge)), unpooled((1, 1), (huge, 1))):
        began = time.thread_time()
        tracemalloc.start()
        with contextlib.suppress(BadData):
            load_tflite(file.build())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4e6
        assert time.thread_time() - began < 2
    for window in ((3000, 1000), (1, huge), (huge, 1), (huge, huge)):
        with pytest.raises(BadData, match="far beyond images of 4 x 4"):
            load_tflite(pooled((4, 4), window, 1).build())


FLOATS = ((1, 2, 2, 1), "FLOAT32")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (unpooled((2, 2), (2, 2), padding=1), "VALID is expected"),
        (pooled((2, 2), (3, 3), 2), "smaller than a window"),
        (custom_file("MaxPoolingWithArgmax2D", [FLOATS], [FLOATS] * 2, b"abc"), "at least 24 are expected"),
        (
            custom_file("MaxPoolingWithArgmax2D", [FLOATS], [FLOATS] * 2, pool_options((2, 2), 2, 1)),
            "fused activation 1",
        ),
        (
            custom_file(
                "MaxPoolingWithArgmax2D", [FLOATS], [FLOATS] * 2, struct.pack("<6i", 2, 1, 1, 2, 2, 0)
            ),
            "strides equal to the size of a window",
        ),
        (
            custom_file("MaxPoolingWithArgmax2D", [FLOATS], [FLOATS] * 2, pool_options((2, 2), 7)),
            "padding 7 is unknown",
        ),
        (
            custom_file("MaxUnpooling2D", [((2, 2), "FLOAT32"), FLOATS], [FLOATS], pool_options((2, 2), 2)),
            "4 known lengths",
        ),
        (
            custom_file(
                "MaxUnpooling2D", [((1, 2, 2, 1), "INT32"), FLOATS], [FLOATS], pool_options((2, 2), 2)
            ),
            "FLOAT32 is expected",
        ),
        (transposed((2, 2, 1), (2, 2), (0, 1), 2), "at least 1 is expected"),
    ],
)
def test_what_is_refused(file: TfliteModel, words: str) -> None:
    with pytest.raises(BadData, match=words):
        load_tflite(file.build())
