"""The builder gives every node the shape and type that follow from its operands."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, kinds

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.builder import broadcast, reduction_axes
from neurald.drivers.compiler.ir.expression import axis, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.scalar import Scalar

pytestmark = pytest.mark.quick


def test_a_computed_value_has_the_type_of_its_body() -> None:
    b = GraphBuilder()
    source = b.input(2, 3, type=Scalar.INT8)
    b.begin(7)
    value = b.compute((3, 2), lambda i, j: load(source, (j, i)).to(Scalar.FLOAT16))
    assert (value.shape, value.type) == ((3, 2), Scalar.FLOAT16)
    node = b.graph.nodes[0]
    assert isinstance(node, Compute)
    assert node.operations == (7,)
    assert [each.extent for each in node.axes] == [3, 2]


def test_a_scalar_value() -> None:
    b = GraphBuilder()
    source = b.input(3)
    graph = b.finish(b.compute((), lambda: load(source, (axis(1) + 2,)) * 2.0))
    (found,) = evaluate(graph, [np.array([1, 2, 3], np.float32)])
    assert found.shape == ()
    assert found == 6


def test_reshaping_to_the_same_shape_returns_the_value() -> None:
    b = GraphBuilder()
    source = b.input(2, 3)
    assert b.reshape(source, (2, 3)) is source
    assert b.graph.nodes == []
    node_output = b.reshape(source, (3, 2))
    (node,) = b.graph.nodes
    assert isinstance(node, Compute)
    assert node.aliased_input is source
    assert node.output is node_output


def test_reshaping_values_without_elements() -> None:
    b = GraphBuilder()
    source = b.input(0, 3)
    graph = b.finish(b.reshape(source, (3, 2, 0)))
    assert evaluate(graph, [np.zeros((0, 3), np.float32)])[0].shape == (3, 2, 0)


def test_constants_are_contiguous() -> None:
    b = GraphBuilder()
    turned = np.arange(6, dtype=np.int16).reshape(2, 3).T
    value = b.constant(turned, "table")
    assert (value.shape, value.type, value.name) == ((3, 2), Scalar.INT16, "table")
    assert value.constant is not None
    assert value.constant.flags.c_contiguous
    np.testing.assert_array_equal(value.constant, turned)
    assert b.constant(np.array(2, np.float32)).shape == ()
    assert b.constant(np.array(True)).type is Scalar.BOOL


def test_products_broadcast() -> None:
    b = GraphBuilder()
    assert b.matrix_product(b.input(2, 1, 3, 4), b.input(5, 6, 4)).shape == (2, 5, 3, 6)
    turned = b.matrix_product(
        b.input(4, 3), b.input(4, 6), left_transposed=True, right_transposed=True, type=Scalar.INT32
    )
    assert (turned.shape, turned.type) == ((3, 6), Scalar.INT32)


def test_convolutions() -> None:
    b = GraphBuilder()
    sums = b.convolution(b.input(1, 4, 4, 2), b.weights(3, 2, 2, 2), output=(1, 3, 3, 3))
    spread = b.depthwise_convolution(sums, b.weights(2, 2, 6), output=(1, 2, 2, 6))
    graph = b.finish(spread)
    assert kinds(graph) == ["Convolution", "DepthwiseConvolution"]
    assert [
        node.kernel for node in graph.nodes if not isinstance(node, Compute) and hasattr(node, "kernel")
    ] == [
        (2, 2),
        (2, 2),
    ]


def test_broadcast_follows_numpy() -> None:
    b = GraphBuilder()
    first, second = b.input(2, 1, 4), b.input(3, 1)
    graph = b.finish(b.compute((2, 3, 4), lambda *at: broadcast(first, at) + broadcast(second, at)))
    one, other = (b.generator.standard_normal(value.shape).astype(np.float32) for value in (first, second))
    np.testing.assert_array_equal(evaluate(graph, [one, other])[0], one + other)


def test_reduction_axes() -> None:
    found = reduction_axes((2, 3, 4), (0, 2))
    assert {dimension: each.extent for dimension, each in found.items()} == {0: 2, 2: 4}
