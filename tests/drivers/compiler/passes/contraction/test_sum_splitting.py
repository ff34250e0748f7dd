"""Sums of products that may exceed 32 bits become sums of parts that do not."""

import numpy as np
from support.compiler.graphs import GraphBuilder, changes, kinds, node_of
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate
from neurald.drivers.compiler.ir.graph import Convolution, Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.contraction.sum_splitting import split_sums

_LARGEST = 32768 * 127


def _weights(b: GraphBuilder, *shape: int) -> Value:
    """Returns weights whose sums are as long as possible."""
    signs = b.generator.choice([-1, 1], shape)
    return b.constant((127 * signs).astype(np.int8))


def _convolution(groups: int, depth: int, channels: int = 6) -> Graph:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(2, 5, 4, groups * depth, type=Scalar.INT16),
        _weights(b, channels, 3, 2, depth),
        output=(2, 3, 4, channels),
        type=Scalar.INT64,
        stride=(2, 1),
        padding=((1, 1), (0, 1)),
        groups=groups,
    )
    return b.finish(sums)


def _largest_result(graph: Graph) -> tuple[Array, Array]:
    """Returns the results of inputs at the end of their range, before and after the pass."""
    inputs = [np.full(value.shape, -32768, np.int16) for value in graph.inputs]
    (before,) = evaluate(graph, inputs)
    assert split_sums(graph)
    graph.remove_unused()
    (after,) = evaluate(graph, inputs)
    return before, after


@sweep("groups", [1, 3])
def test_convolutions_get_more_groups(groups: int) -> None:
    graph = _convolution(groups, depth=180)
    assert changes(graph, split_sums)
    assert kinds(graph) == ["Convolution", "Compute"]
    node = node_of(graph, Convolution)
    assert node.output.type is Scalar.INT32
    # Six taps of 180 channels reach 2.1 times as far as 32 bits, and thirds of them do not.
    assert node.groups == groups * 3
    assert node.depth * _LARGEST < 1 << 31
    assert not changes(graph, split_sums)


@sweep("groups", [1, 3])
def test_sums_at_the_ends_of_their_range(groups: int) -> None:
    graph = _convolution(groups, depth=240)
    node = node_of(graph, Convolution)
    assert node.weights.constant is not None
    node.weights.constant[...] = 127
    before, after = _largest_result(graph)
    assert int(np.abs(before).max()) > 1 << 31
    np.testing.assert_array_equal(after, before)


@sweep("rows", [1, 3])
def test_products_of_matrices_become_convolutions(rows: int) -> None:
    b = GraphBuilder()
    sums = b.matrix_product(b.input(rows, 1536, type=Scalar.INT16), _weights(b, 5, 1536), type=Scalar.INT64)
    graph = b.finish(sums)
    assert changes(graph, transform)
    node = node_of(graph, Convolution)
    assert (node.groups, node.output.type) == (3, Scalar.INT32)


def test_zero_points_count() -> None:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(1, 2, 2, 66_000, type=Scalar.UINT8),
        b.constant(np.full((1, 1, 1, 66_000), 255, np.uint8)),
        output=(1, 2, 2, 1),
        type=Scalar.INT64,
        input_zero=0,
        weights_zero=0,
    )
    graph = b.finish(sums)
    assert changes(graph, split_sums)
    assert node_of(graph, Convolution).groups == 2


def test_other_sums_are_kept() -> None:
    # A prime number of channels has no equal parts.
    assert not changes(_convolution(1, depth=179), split_sums)
    b = GraphBuilder()
    variable = b.matrix_product(
        b.input(3, 1536, type=Scalar.INT16), b.input(5, 1536, type=Scalar.INT8), type=Scalar.INT64
    )
    assert not changes(b.finish(variable), split_sums)
    b = GraphBuilder()
    short = b.matrix_product(b.input(3, 100, type=Scalar.INT16), _weights(b, 5, 100), type=Scalar.INT32)
    assert not changes(b.finish(short), split_sums)
