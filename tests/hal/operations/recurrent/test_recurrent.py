"""Common parts of recurrent operations."""

import numpy as np

from neurald.hal.operations.recurrent.recurrent import dense


def test_sums_overflow_only_if_they_are_too_large() -> None:
    largest = np.finfo(np.float32).max
    weights = np.array([[2, -1], [-2, 1], [2, -2], [4, -2], [-4, 2]], np.float32)
    rows = np.array([[largest, largest], [1, 2]], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        products = dense(weights)(rows)
    assert products.dtype == np.float32
    assert products.tolist() == [[largest, -largest, 0, np.inf, -np.inf], [0, 0, -2, 0, 0]]
