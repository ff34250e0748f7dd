"""Corrected sums of stored values equal sums of values minus their zero point."""

import numpy as np
from support.compiler.graphs import GraphBuilder
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view


@sweep("form", ["plain", "groups", "batches", "matrix"])
@sweep("has_bias", [False, True])
def test_zero_points_are_subtracted_from_sums(form: str, has_bias: bool) -> None:
    """A constant bias absorbs the correction."""
    builder = GraphBuilder()
    zero = -7
    if form in ("plain", "groups"):
        source = builder.input(2, 3, 4, 8, type=Scalar.INT8)
        groups = 2 if form == "groups" else 1
        weights = builder.weights(12, 1, 1, 8 // groups, type=Scalar.INT8)
        sums = builder.convolution(
            source, weights, output=(2, 3, 4, 12), type=Scalar.INT32, groups=groups, input_zero=zero
        )
    else:
        batch = (3,) if form == "batches" else ()
        source = builder.input(*batch, 5, 8, type=Scalar.INT8)
        weights = builder.weights(*batch, 12, 8, type=Scalar.INT8)
        sums = builder.matrix_product(source, weights, type=Scalar.INT32, left_zero=zero)
    bias = builder.weights(12, type=Scalar.INT32)

    def body(*at: Expression) -> Expression:
        total = load(sums, at)
        if not has_bias:
            return total * 3
        return (total.to(Scalar.INT64) + load(bias, at[-1:]).to(Scalar.INT64)).to(Scalar.INT32)

    graph = builder.finish(builder.compute(sums.shape, body))
    (kernel,) = fuse(graph).kernels
    product = gemm_view(kernel)
    assert product is not None
    assert weights.constant is not None
    columns = weights.constant.reshape(-1, product.columns, product.depth)
    other = corrected(kernel, product, Value(columns.shape, Scalar.INT8, columns))
    array = np.random.default_rng(0).integers(-128, 128, source.shape).astype(np.int8)
    found, expected = (
        evaluate_fused(
            FusedGraph(kernels=(each,), aliases={}, inputs=(source,), outputs=(each.output,)), [array]
        )
        for each in (other, kernel)
    )
    np.testing.assert_array_equal(found[0], expected[0])
    assert other.body is not kernel.body
    assert len(used_values(other)) == (2 if has_bias and form == "batches" else 1)
