"""Arrays are copied as NumPy copies them, whatever their size and order."""

import numpy as np
import pytest

from neurald.drivers.compiler.memory.array_copies import copy_arrays


@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 1, 5, 7), (0, 4), (1, 1 << 21), (7, 3, 1 << 17)])
def test_arrays_are_reordered_and_converted(shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    same, turned = np.full(shape, 9, np.float32), np.full(shape[::-1], 9, np.float16)
    copy_arrays([(same, source), (turned, source.T)])
    assert np.array_equal(same, source)
    assert np.array_equal(turned, source.T.astype(np.float16))


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_the_range_become_infinite() -> None:
    target = np.zeros((2, 1 << 21), np.float16)
    copy_arrays([(target, np.full(target.shape, -1e6, np.float32))])
    assert np.isneginf(target).all()


def test_nothing_is_copied() -> None:
    copy_arrays([])
