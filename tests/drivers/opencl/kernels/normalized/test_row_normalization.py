"""Kernels that normalise rows are found, with the numbers by which they do."""

import numpy as np
import pytest
from support.compiler.graphs import random_array
from support.opencl.normalized import FORMS, Network

from neurald.drivers.compiler.analysis.interpreter import evaluate_kernel
from neurald.drivers.compiler.ir.expression import apply
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.normalized.row_moments import moments_kernel
from neurald.drivers.opencl.kernels.normalized.row_normalization import RowNormalization, row_normalization
from neurald.hal.records import replace


def kernel_of(network: Network) -> Kernel:
    (kernel,) = (each for each in network.fused().kernels if each.row_axes is not None)
    return kernel


def found_in(kernel: Kernel) -> tuple[Value, Kernel, RowNormalization | None]:
    (matrix,) = (value for value in kernel.inputs if value.constant is None)
    moments = moments_kernel(matrix, ())
    return matrix, moments, row_normalization(kernel, {matrix: moments.output})


@pytest.mark.parametrize("form", FORMS)
def test_terms_and_elements(form: str) -> None:
    kernel = kernel_of(Network(form=form))
    matrix, moments, found = found_in(kernel)
    assert found is not None
    assert found.scaled.has_element
    # RMS norms have no mean, and a norm without parameters has no shift.
    rows = [each.row is not None for each in found.others]
    assert sorted(rows) == {"rms": [], "without parameters": [True]}.get(form, [False, True])
    given = random_array(np.random.default_rng(1), matrix.shape, matrix.type)
    constants = {value: value.constant for value in kernel.inputs if value.constant is not None}
    expected = evaluate_kernel(kernel, {**constants, matrix: given})
    *leading, column = kernel.axes
    row = leading[0] * kernel.shape[1] + leading[1]
    element = found.element(row, (*leading, column)).to(Scalar.FLOAT16)
    other = replace(kernel, body=element)
    sums = evaluate_kernel(moments, {matrix: given})
    result = evaluate_kernel(other, {**constants, matrix: given, moments.output: sums})
    np.testing.assert_allclose(result, expected, rtol=2e-3, atol=4e-3)


@pytest.mark.parametrize("change", ["tanh", "type", "unknown matrix"])
def test_other_kernels(change: str) -> None:
    """A function of normalised elements is not a sum of products."""
    kernel = kernel_of(Network())
    if change == "tanh":
        kernel = replace(kernel, body=apply(Op.TANH, kernel.body.to(Scalar.FLOAT32)).to(Scalar.FLOAT16))
    elif change == "type":
        output = Value(kernel.output.shape, Scalar.FLOAT32)
        kernel = replace(kernel, output=output, body=kernel.body.to(Scalar.FLOAT32))
    elif change == "unknown matrix":
        assert row_normalization(kernel, {}) is None
        return
    assert found_in(kernel)[2] is None
