"""Parts of weights add up to them, have their sign, and are not 0."""

import numpy as np

from neurald.drivers.cpu.kernels.gemm.split.weights import are_divisible, weight_parts


def test_parts() -> None:
    generator = np.random.default_rng(0)
    weights = (generator.standard_normal(1000) * 10.0 ** generator.integers(-20, 20, 1000)).astype(np.float32)
    weights[:4] = 1, -0.5, 3, 0
    parts = [(part.astype(np.uint32) << 16).view(np.float32) for part in weight_parts(weights)]
    total = sum(part.astype(np.float64) for part in parts)
    np.testing.assert_allclose(total, weights, rtol=2.0**-15)
    for part in parts:
        np.testing.assert_array_equal(np.sign(part), np.sign(weights))


def test_weights_that_are_not_divided() -> None:
    assert are_divisible(np.array([1, 0, -3e20], np.float32))
    assert are_divisible(np.array([1, -60000], np.float16))
    for wrong in (np.inf, -np.inf, np.nan, 2e38):
        assert not are_divisible(np.array([1, wrong], np.float32))
