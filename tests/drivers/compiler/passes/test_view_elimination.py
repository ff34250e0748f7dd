"""Identities are removed, and reshapes of reshapes read the original value."""

from support.compiler.graphs import GraphBuilder, changes, kinds

from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.view_elimination import eliminate_views


def same(b: GraphBuilder, value: Value) -> Value:
    return b.compute(value.shape, lambda *at: load(value, at))


def doubled(b: GraphBuilder, value: Value) -> Value:
    return b.compute(value.shape, lambda *at: load(value, at) * 2.0)


def test_an_identity_is_removed() -> None:
    b = GraphBuilder()
    middle = doubled(b, b.input(3, 4))
    graph = b.finish(doubled(b, same(b, same(b, middle))), doubled(b, same(b, middle)))
    assert changes(graph, eliminate_views)
    assert kinds(graph) == ["Compute"] * 3
    assert all(node.inputs == (middle,) for node in graph.nodes[1:])
    assert not changes(graph, eliminate_views)


def test_an_identity_that_is_an_output_is_kept() -> None:
    b = GraphBuilder()
    source = b.input(3, 4)
    output = same(b, source)
    graph = b.finish(output, doubled(b, output))
    assert not changes(graph, eliminate_views)
    assert graph.outputs[0] is output


def test_contractions_read_the_original_value() -> None:
    b = GraphBuilder()
    source, weights = b.input(1, 4, 4, 2), b.input(3, 2, 2, 2)
    sums = b.convolution(same(b, source), same(b, weights), output=(1, 3, 3, 3))
    spread = b.depthwise_convolution(same(b, sums), same(b, b.input(2, 2, 3)), output=(1, 2, 2, 3))
    rows = b.reshape(same(b, spread), (4, 3))
    graph = b.finish(b.matrix_product(same(b, rows), same(b, rows)))
    assert changes(graph, eliminate_views)
    assert kinds(graph) == ["Convolution", "DepthwiseConvolution", "Compute", "MatrixProduct"]


def test_a_reshape_of_a_reshape_reads_the_original_value() -> None:
    b = GraphBuilder()
    source = b.input(3, 4)
    flat = b.reshape(source, (12,))
    other = b.reshape(flat, (2, 6))
    back = b.reshape(other, (3, 4))
    graph = b.finish(doubled(b, back), doubled(b, other))
    assert changes(graph, eliminate_views)
    viewed = [node.aliased_input for node in graph.nodes if isinstance(node, Compute)]
    assert viewed == [source, None, None]
    assert graph.nodes[1].inputs == (source,)
    assert not changes(graph, eliminate_views)


def test_slices_transpositions_and_conversions_are_kept() -> None:
    b = GraphBuilder()
    source = b.input(4, 4)
    outputs = [
        b.compute((3, 4), lambda i, j: load(source, (i, j))),
        b.compute((4, 4), lambda i, j: load(source, (j, i))),
        b.compute((4, 4), lambda i, j: load(source, (i, j), i < 3)),
        b.compute((4, 4), lambda i, j: load(source, (i, j)).to(Scalar.FLOAT16)),
    ]
    graph = b.finish(*(b.compute(each.shape, lambda *at, v=each: load(v, at) + 1.0) for each in outputs))
    assert not changes(graph, eliminate_views)
