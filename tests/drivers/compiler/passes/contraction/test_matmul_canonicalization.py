"""Contractions that are products of two matrices are rewritten as such."""

import numpy as np
from support.compiler.graphs import GraphBuilder, changes, kinds, node_of
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Graph, MatrixProduct, Pair
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.contraction.matmul_canonicalization import canonicalize_matrix_products


@sweep(
    ("image", "kernel", "dilation", "padding"),
    [
        ((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((3, 4), (3, 4), (1, 1), ((0, 0), (0, 0))),
        ((1, 1), (3, 3), (1, 1), ((1, 1), (1, 1))),
        ((1, 1), (3, 3), (2, 4), ((2, 2), (8, 0))),
        ((2, 1), (4, 3), (1, 1), ((1, 1), (0, 2))),
    ],
)
@sweep("kind", [Scalar.FLOAT32, Scalar.INT8])
def test_a_convolution_over_whole_images_becomes_a_product(
    image: Pair, kernel: Pair, dilation: Pair, padding: tuple[Pair, Pair], kind: Scalar
) -> None:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(5, *image, 2, type=kind),
        b.weights(3, *kernel, 2, type=kind),
        output=(5, 1, 1, 3),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        dilation=dilation,
        padding=padding,
        input_zero=0 if kind.is_float else 3,
        weights_zero=0 if kind.is_float else 2,
    )
    graph = b.finish(sums)
    assert changes(graph, canonicalize_matrix_products)
    assert changes(graph, transform)
    product = node_of(graph, MatrixProduct)
    depth = image[0] * image[1] * 2
    assert (product.left.shape, product.right.shape) == ((5, depth), (3, depth))
    assert kinds(graph) == ["Compute", "MatrixProduct", "Compute"]
    assert graph.outputs == [sums]


@sweep(
    ("image", "kernel", "output", "groups", "padding"),
    [
        ((4, 4), (1, 1), (4, 4), 1, ((0, 0), (0, 0))),
        ((1, 1), (1, 1), (1, 1), 2, ((0, 0), (0, 0))),
        ((4, 4), (3, 3), (1, 1), 1, ((0, 0), (0, 0))),
        ((1, 1), (1, 1), (1, 1), 1, ((1, 0), (0, 0))),
    ],
)
def test_other_convolutions_are_kept(
    image: Pair, kernel: Pair, output: Pair, groups: int, padding: tuple[Pair, Pair]
) -> None:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(2, *image, 4),
        b.weights(6, *kernel, 4 // groups),
        output=(2, *output, 6),
        groups=groups,
        padding=padding,
    )
    assert not changes(b.finish(sums), canonicalize_matrix_products)


def test_dilated_windows_over_whole_images_are_kept() -> None:
    b = GraphBuilder()
    sums = b.convolution(b.input(2, 3, 1, 4), b.weights(6, 2, 1, 4), output=(2, 1, 1, 6), dilation=(2, 1))
    assert not changes(b.finish(sums), canonicalize_matrix_products)


@sweep(
    ("left", "right", "flags"),
    [
        ((1, 3, 4), (1, 5, 4), (False, False)),
        ((1, 1, 4, 3), (4, 5), (True, True)),
        ((2, 3, 6, 4), (5, 4), (False, False)),
        ((2, 6, 4), (1, 1, 4, 5), (False, True)),
        ((0, 6, 4), (5, 4), (False, False)),
    ],
)
def test_batches_with_one_right_matrix_become_one_product(
    left: tuple[int, ...], right: tuple[int, ...], flags: tuple[bool, bool]
) -> None:
    b = GraphBuilder()
    product = b.matrix_product(
        b.input(*left), b.input(*right), left_transposed=flags[0], right_transposed=flags[1]
    )
    graph = b.finish(b.compute(product.shape, lambda *at: load(product, at) + 1.0), product)
    assert changes(graph, canonicalize_matrix_products)
    node = node_of(graph, MatrixProduct)
    assert len(node.left.shape) == len(node.right.shape) == len(node.output.shape) == 2
    assert (node.left_transposed, node.right_transposed) == flags
    assert not changes(graph, canonicalize_matrix_products)


@sweep(
    ("left", "right", "is_transposed"),
    [
        ((3, 4), (5, 4), False),
        ((2, 3, 4), (2, 5, 4), False),
        ((1, 3, 4), (2, 5, 4), False),
        ((2, 4, 3), (5, 4), True),
    ],
)
def test_other_products_are_kept(left: tuple[int, ...], right: tuple[int, ...], is_transposed: bool) -> None:
    b = GraphBuilder()
    product = b.matrix_product(b.input(*left), b.input(*right), left_transposed=is_transposed)
    assert not changes(b.finish(product), canonicalize_matrix_products)


@sweep(
    ("left", "right", "flags"),
    [
        ((5, 1), (3, 1), (False, False)),
        ((1, 5), (1, 3), (True, True)),
        ((2, 5, 1), (3, 1), (False, False)),
        ((2, 1, 1, 5), (4, 3, 1), (True, False)),
    ],
)
@sweep("kind", [Scalar.FLOAT32, Scalar.INT8])
def test_products_of_one_term_are_no_sums(
    left: tuple[int, ...], right: tuple[int, ...], flags: tuple[bool, bool], kind: Scalar
) -> None:
    def made() -> Graph:
        b = GraphBuilder()
        return b.finish(
            b.matrix_product(
                b.input(*left, type=kind),
                b.input(*right, type=kind),
                type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
                left_transposed=flags[0],
                right_transposed=flags[1],
                left_zero=0 if kind.is_float else 3,
                right_zero=0 if kind.is_float else -2,
            )
        )

    graph = made()
    assert changes(graph, canonicalize_matrix_products)
    assert kinds(graph) == ["Compute"]
    generator = np.random.default_rng(1)
    arrays = [generator.integers(-128, 127, shape).astype(kind.dtype) for shape in (left, right)]
    (found,), (expected,) = (evaluate(each, arrays) for each in (graph, made()))
    np.testing.assert_array_equal(found, expected)
