"""Compares erfc with that of the standard library."""

import math

import numpy as np

from neurald.hal.operations.tflite.arithmetic.error_function import erfc


def test_equals_the_standard_library() -> None:
    values = np.concatenate(
        [np.linspace(-6, 6, 4001), np.linspace(6, 25.9, 500), [0.0, -0.0, 1e-300, 1e-9, -40.0]]
    )
    expected = np.array([math.erfc(value) for value in values])
    np.testing.assert_allclose(erfc(values), expected, rtol=1e-12)


def test_infinities_and_nan() -> None:
    assert erfc(np.array([30.0, np.inf])).max() < 1e-290
    np.testing.assert_array_equal(erfc(np.array([-30.0, -np.inf])), [2, 2])
    assert np.isnan(erfc(np.array([np.nan]))).all()
    assert erfc(np.zeros((0, 3))).shape == (0, 3)
