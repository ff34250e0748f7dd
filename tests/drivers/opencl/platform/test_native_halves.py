"""Conversions give the same bits as NumPy, on every number, in every order and length."""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

from neurald.drivers.opencl.platform import native_halves
from neurald.drivers.opencl.platform.native_halves import convert, converted


@pytest.fixture(params=["native", "numpy"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs each test with machine code, and as on processors without the instructions."""
    if request.param == "native":
        yield
        return
    with patch.object(native_halves, "_compiled", [(None, None, None)]):
        yield


def expect_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Checks that bits are equal, except those of NaN."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    bits = np.dtype(f"u{found.itemsize}")
    is_nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), is_nan)
    assert np.array_equal(found[~is_nan].view(bits), expected[~is_nan].view(bits))


def narrowed(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def test_every_half_is_widened() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    expect_same(converted(halves, np.float32), halves.astype(np.float32))


@pytest.mark.filterwarnings("error")
def test_floats_are_rounded() -> None:
    """All halves, the floats beside them and between two of them, and floats of random bits."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    exact = halves[np.isfinite(halves)].astype(np.float32)
    between = (exact[:-1] + exact[1:]) / 2
    around = [np.nextafter(each, np.float32(side)) for each in (exact, between) for side in (-1e30, 1e30)]
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(np.float32)
    special = np.array([np.inf, -np.inf, np.nan, 65520.0], np.float32)
    cases: list[np.ndarray] = [exact, between, *around, random, special]
    for floats in cases:
        expect_same(converted(floats, np.float16), narrowed(floats))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 47, 1000])
def test_lengths_and_alignment(count: int) -> None:
    """Nothing is written beyond the end, wherever arrays begin."""
    memory = np.random.default_rng(count).standard_normal(count + 3).astype(np.float32)
    for source in (memory[1 : count + 1], memory.astype(np.float16)[1 : count + 1]):
        other = np.dtype(np.float16 if source.itemsize == 4 else np.float32)
        bytes_ = np.full((count + 2) * other.itemsize + 1, 0xA5, np.uint8)
        target = bytes_[1 : 1 + count * other.itemsize].view(other)
        convert(target, source)
        expect_same(target, narrowed(source) if other.itemsize == 2 else source.astype(other))
        assert (bytes_[1 + count * other.itemsize :] == 0xA5).all()


@pytest.mark.parametrize("shape", [(), (1,), (5, 7), (3, 4, 20), (2, 0)])
def test_orders(shape: tuple[int, ...]) -> None:
    """Arrays keep the order in memory; arrays with gaps and between different orders work, too."""
    floats = np.asarray(np.random.default_rng(0).standard_normal(shape), np.float32)
    for source in (floats, floats.T, floats[..., ::2] if shape else floats):
        found = converted(source, np.float16)
        expect_same(found, narrowed(source))
        assert found.strides == narrowed(source).strides
        turned = np.zeros(source.shape[::-1], np.float16).T
        convert(turned, source)
        expect_same(turned, narrowed(source))


def test_other_types() -> None:
    """Numbers of other types are converted as NumPy does it."""
    doubles = np.linspace(-1, 1, 33)
    expect_same(converted(doubles, np.float16), doubles.astype(np.float16))
    swapped = doubles.astype(">f4")
    expect_same(converted(swapped, np.float16), swapped.astype(np.float16))
