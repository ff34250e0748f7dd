"""Equal nodes and constants are merged."""

import numpy as np
from support.compiler.graphs import GraphBuilder, changes, kinds

from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.common_subexpressions import eliminate_common_subexpressions


def dequantized(b: GraphBuilder, value: Value, scale: float = 0.5) -> Value:
    return b.compute(value.shape, lambda *at: load(value, at).to(Scalar.FLOAT32) * scale)


def total(b: GraphBuilder, value: Value) -> Value:
    along = axis(value.shape[1], "r")
    return b.compute(
        value.shape[:1],
        lambda i: reduce(ReductionOp.SUM, (along,), load(value, (i, along))) + load(value, (i, i)),
    )


def added(b: GraphBuilder, first: Value, second: Value) -> Value:
    def body(*at: Expression) -> Expression:
        return load(first, at) + load(second, at)

    return b.compute(first.shape, body)


def test_equal_nodes_and_their_equal_readers_are_merged() -> None:
    b = GraphBuilder()
    source = b.input(4, 6, type=Scalar.UINT8)
    sums = [total(b, dequantized(b, source)) for _ in range(2)]
    graph = b.finish(added(b, *sums))
    assert changes(graph, eliminate_common_subexpressions)
    assert kinds(graph) == ["Compute"] * 3
    assert not changes(graph, eliminate_common_subexpressions)


def test_nodes_that_differ_are_kept() -> None:
    b = GraphBuilder()
    source, other = b.input(4, 6, type=Scalar.UINT8), b.input(4, 6, type=Scalar.UINT8)
    graph = b.finish(
        dequantized(b, source),
        dequantized(b, source, 0.25),
        dequantized(b, other),
        b.reshape(source, (24,)),
        b.reshape(source, (6, 4)),
    )
    assert not changes(graph, eliminate_common_subexpressions)


def test_equal_nodes_may_both_be_outputs() -> None:
    b = GraphBuilder()
    source = b.input(4, 6, type=Scalar.UINT8)
    first, second = dequantized(b, source), dequantized(b, source)
    graph = b.finish(first, source, second)
    assert changes(graph, eliminate_common_subexpressions)
    assert graph.outputs == [first, source, first]


def test_contractions_with_equal_constants_are_merged() -> None:
    b = GraphBuilder()
    source = b.input(1, 5, 5, 2)
    weights = b.weights(3, 3, 3, 2)
    assert weights.constant is not None
    again = b.constant(weights.constant.copy())
    sums = [
        b.convolution(source, each, output=(1, 3, 3, 3), stride=stride)
        for each, stride in ((weights, (1, 1)), (again, (1, 1)))
    ]
    smaller = b.convolution(source, weights, output=(1, 3, 3, 3), padding=((1, 1), (1, 1)), stride=(2, 2))
    graph = b.finish(added(b, *sums), smaller)
    assert changes(graph, eliminate_common_subexpressions)
    assert kinds(graph) == ["Convolution", "Convolution", "Compute"]


def test_the_remaining_node_has_the_operations_of_both() -> None:
    b = GraphBuilder()
    source = b.input(4, 6, type=Scalar.UINT8)
    values = []
    for operation in (3, 1):
        b.begin(operation)
        values.append(dequantized(b, source))
    graph = b.finish(*values)
    assert changes(graph, eliminate_common_subexpressions)
    assert graph.nodes[0].operations == (1, 3)


def test_positive_and_negative_zeros_are_not_merged() -> None:
    b = GraphBuilder()
    source = b.input(4)
    values = [added(b, source, b.constant(np.full(4, zero, np.float32))) for zero in (0.0, -0.0)]
    assert not changes(b.finish(*values), eliminate_common_subexpressions)
