import numpy as np
import pytest
from support.models.whole_model import run_references
from support.operations.windows import convolution_sums, transposed_sums
from support.tflite.operator import VALID, Load, fixed, random, shaped


@pytest.mark.parametrize("has_bias", [False, True])
def test_convolution_3d(load: Load, *, has_bias: bool) -> None:
    x, weights, bias = random(2, 3, 4, 5, 2), random(2, 1, 3, 2, 3, seed=1), random(3, seed=2)
    steps = {"StrideD": 1, "StrideH": 2, "StrideW": 1, "DilationDFactor": 2, "Padding": VALID}
    tail = (fixed(bias),) if has_bias else ()
    offsets = bias if has_bias else 0
    model = load("CONV_3D", (shaped(*x.shape), fixed(weights), *tail), shaped(0), "Conv3DOptions", **steps)
    sums = convolution_sums(x, weights, 2, (1, 2, 1), (2, 1, 1)) + offsets
    (result,) = run_references(model, x)
    np.testing.assert_allclose(result, sums, rtol=1e-4, atol=1e-3)
    back = fixed(weights.swapaxes(3, 4))
    lengths, y = (5, 7, 7), random(2, 3, 4, 5, 2)
    model = load(
        "CONV_3D_TRANSPOSE",
        (fixed([2, *lengths, 3], "INT32"), back, shaped(*y.shape), *tail),
        shaped(0),
        "Conv3DOptions",
        **steps,
    )
    sums = transposed_sums(y, weights, lengths, 2, (1, 2, 1), (2, 1, 1)) + offsets
    np.testing.assert_allclose(run_references(model, y)[0], sums, rtol=1e-4, atol=1e-3)
