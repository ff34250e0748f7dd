"""Matrices are split into sums of two TF32; `warpgroup_pipeline`'s tests have products."""

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.gemm.warpgroup import BLOCK
from neurald.drivers.opencl.kernels.gemm.warpgroup_remainders import split


def _parts(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers and their remainders, which the instruction reads as TF32."""
    whole = split(Value(array.shape, Scalar.FLOAT32, array)).constant
    assert whole is not None
    columns = whole.shape[1] // 2
    read = (whole.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return read[:, :columns], read[:, columns:]


def test_sums_of_both_parts_have_22_bits() -> None:
    generator = np.random.default_rng(0)
    array = generator.standard_normal((2, 70, 12)).astype(np.float32)
    array *= np.exp(generator.uniform(-60, 60, array.shape)).astype(np.float32)
    first, rest = _parts(array)
    assert first.shape == rest.shape == (2, 2 * BLOCK, 12)
    total = first.astype(np.float64) + rest
    assert np.all(np.abs(total[:, :70] - array) <= np.abs(array) * 2.0**-22)
    assert not first[:, 70:].any()
    assert not rest[:, 70:].any()


def test_infinite_and_undefined_numbers_stay_so() -> None:
    array = np.array([[[np.inf, -np.inf, np.nan, 0.0]]], np.float32)
    first, _ = _parts(array)
    np.testing.assert_array_equal(first[:, :1], array)
