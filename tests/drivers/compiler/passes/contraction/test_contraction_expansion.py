"""Expanded contractions have the same results."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.contraction.contraction_expansion import expand_contraction
from neurald.drivers.compiler.passes.fusion.fusion import fuse

pytestmark = pytest.mark.quick


def expect_same(graph: Graph) -> None:
    """Asserts equal results after every contraction was expanded."""
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    fused = fuse(graph)
    assert any(kernel.contraction is not None for kernel in fused.kernels)
    kernels = tuple(expand_contraction(kernel) for kernel in fused.kernels)
    assert all(kernel.contraction is None and kernel.has_reduction for kernel in kernels)
    folded = FusedGraph(kernels=kernels, aliases=fused.aliases, inputs=fused.inputs, outputs=fused.outputs)
    for result, expected in zip(evaluate_fused(folded, inputs), evaluate(graph, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@sweep("kind", [Scalar.FLOAT32, Scalar.INT8])
@sweep("groups", [1, 2])
def test_convolutions(kind: Scalar, groups: int) -> None:
    builder = GraphBuilder()
    source, weights = builder.input(2, 5, 6, 4, type=kind), builder.weights(6, 3, 2, 4 // groups, type=kind)
    sums = Scalar.FLOAT32 if kind.is_float else Scalar.INT32
    input_zero, weights_zero = (0, 0) if kind.is_float else (3, -2)
    total = builder.convolution(
        source,
        weights,
        output=(2, 2, 5, 6),
        type=sums,
        stride=(2, 1),
        dilation=(2, 1),
        padding=((1, 1), (0, 0)),
        groups=groups,
        input_zero=input_zero,
        weights_zero=weights_zero,
    )
    expect_same(builder.finish(builder.compute((2, 2, 5, 6), lambda *at: load(total, at) + 1)))


@sweep("kind", [Scalar.FLOAT32, Scalar.UINT8])
def test_depthwise_convolutions(kind: Scalar) -> None:
    builder = GraphBuilder()
    source, weights = builder.input(1, 5, 5, 2, type=kind), builder.weights(3, 3, 6, type=kind)
    sums = Scalar.FLOAT32 if kind.is_float else Scalar.INT32
    input_zero, weights_zero = (0, 0) if kind.is_float else (7, 5)
    expect_same(
        builder.finish(
            builder.depthwise_convolution(
                source,
                weights,
                output=(1, 3, 3, 6),
                type=sums,
                stride=(2, 2),
                padding=((1, 1), (1, 1)),
                input_zero=input_zero,
                weights_zero=weights_zero,
            )
        )
    )


@sweep("left_transposed", [False, True])
@sweep("right_transposed", [False, True])
def test_matrix_products_whose_batches_broadcast(left_transposed: bool, right_transposed: bool) -> None:
    builder = GraphBuilder()
    left = builder.input(2, 1, *((5, 3) if left_transposed else (3, 5)), type=Scalar.INT8)
    right = builder.input(4, *((5, 2) if right_transposed else (2, 5)), type=Scalar.INT8)
    expect_same(
        builder.finish(
            builder.matrix_product(
                left,
                right,
                type=Scalar.INT64,
                left_transposed=left_transposed,
                right_transposed=right_transposed,
                left_zero=2,
                right_zero=-3,
            )
        )
    )


def test_kernels_without_a_contraction_are_not_changed() -> None:
    builder = GraphBuilder()
    source = builder.input(3)
    (kernel,) = fuse(builder.finish(builder.compute((3,), lambda i: load(source, (i,)) * 2.0))).kernels
    assert expand_contraction(kernel) is kernel
