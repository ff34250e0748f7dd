"""Moments of rows: what they are, and how kernels of them are recognised."""

import numpy as np
import pytest

from neurald.drivers.compiler.analysis.interpreter import evaluate_kernel
from neurald.drivers.compiler.ir.expression import axis, index
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.normalized.row_moments import (
    MOMENT_COLUMNS,
    measured_matrix,
    moments_kernel,
    row_sum,
)
from neurald.hal.records import replace


def test_moments_are_sums_of_parts_of_rows() -> None:
    matrix = Value((2, 3, 2 * MOMENT_COLUMNS), Scalar.FLOAT16)
    array = np.random.default_rng(0).standard_normal(matrix.shape).astype(np.float16)
    kernel = moments_kernel(matrix, (7,))
    assert kernel.operations == (7,)
    found = evaluate_kernel(kernel, {matrix: array})
    parts = array.astype(np.float64).reshape(6, 2, MOMENT_COLUMNS)
    expected = np.stack([parts.sum(-1), (parts**2).sum(-1)], axis=-1).swapaxes(0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    row = axis(6, "m")
    for power in (1, 2):
        summed = Kernel(
            output=Value((6,), Scalar.FLOAT32), axes=(row,), body=row_sum(kernel.output, row, power)
        )
        whole = evaluate_kernel(summed, {kernel.output: found})
        np.testing.assert_allclose(whole, expected[..., power - 1].sum(0), rtol=1e-5, atol=1e-5)


def test_kernels_of_moments_are_recognised() -> None:
    matrix = Value((3, MOMENT_COLUMNS), Scalar.FLOAT32)
    kernel = moments_kernel(matrix, ())
    assert measured_matrix(kernel) is matrix


@pytest.mark.parametrize("change", ["body", "shape", "sum"])
def test_others_are_not(change: str) -> None:
    matrix = Value((3, MOMENT_COLUMNS), Scalar.FLOAT32)
    kernel = moments_kernel(matrix, ())
    if change == "body":
        kernel = replace(kernel, body=kernel.body * 2.0)
    elif change == "shape":
        kernel = replace(kernel, output=Value((1, 6), Scalar.FLOAT32))
    else:
        kernel = Kernel(output=Value((), Scalar.FLOAT32), axes=(), body=row_sum(kernel.output, index(0), 1))
    assert measured_matrix(kernel) is None
