"""Functions of single elements are computed before a contraction's result is moved."""

import numpy as np
from support.compiler.graphs import GraphBuilder, changes, kinds

from neurald.drivers.compiler.ir.expression import Expression, load, maximum
from neurald.drivers.compiler.ir.graph import Compute, Graph
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.pointwise_hoisting import hoist_pointwise


def heads(b: GraphBuilder, value: Value) -> Value:
    """Moves columns of (6, 4) to (2, 6, 2)."""
    return b.compute((2, 6, 2), lambda h, row, k: load(value, (row, h * 2 + k)))


def projected(b: GraphBuilder) -> Value:
    return b.matrix_product(b.input(6, 5), b.input(4, 5))


def scaled(b: GraphBuilder, value: Value) -> Value:
    factor = b.constant(np.array([0.3], np.float32))
    return b.compute(value.shape, lambda *at: maximum(load(value, at), -1.0) * load(factor, (at[0] * 0,)))


def is_function_of_product(graph: Graph) -> bool:
    """Returns True if the function is computed first, and its results are only moved."""
    *_, function, move = graph.nodes
    assert isinstance(function, Compute)
    assert isinstance(move, Compute)
    return not hasattr(function.body, "index") and hasattr(move.body, "index")


def test_a_scale_after_a_transposition_comes_before_it() -> None:
    b = GraphBuilder()
    graph = b.finish(scaled(b, heads(b, projected(b))))
    assert changes(graph, hoist_pointwise)
    assert is_function_of_product(graph)
    assert not changes(graph, hoist_pointwise)


def test_several_movements_and_an_epilogue_in_between() -> None:
    b = GraphBuilder()
    product, bias = projected(b), b.input(4)
    added = b.compute((6, 4), lambda i, j: load(product, (i, j)) + load(bias, (j,)))
    flat = b.compute((24,), lambda i: load(added, (i // 4, i % 4)))
    graph = b.finish(scaled(b, heads(b, b.compute((6, 4), lambda i, j: load(flat, (i * 4 + j,))))))
    assert changes(graph, hoist_pointwise)
    assert not changes(graph, hoist_pointwise)
    functions = [
        node for node in graph.nodes if isinstance(node, Compute) and not hasattr(node.body, "index")
    ]
    assert [node.output.shape for node in functions] == [(6, 4), (6, 4)]


def unchanged(b: GraphBuilder, *outputs: Value) -> bool:
    graph = b.finish(*outputs)
    before = kinds(graph)
    return not changes(graph, hoist_pointwise) and kinds(graph) == before


def test_moved_elements_with_other_readers_stay() -> None:
    b = GraphBuilder()
    moved = heads(b, projected(b))
    assert unchanged(b, scaled(b, moved), moved)
    b = GraphBuilder()
    product = projected(b)
    assert unchanged(b, scaled(b, heads(b, product)), product)


def test_more_or_fewer_elements_than_the_product_has_stay() -> None:
    b = GraphBuilder()
    product = projected(b)
    part = b.compute((2, 6), lambda h, row: load(product, (row, h * 2)))
    assert unchanged(b, scaled(b, part))
    b = GraphBuilder()
    product = projected(b)
    twice = b.compute((2, 6, 4), lambda h, row, k: load(product, (row, k)))
    assert unchanged(b, scaled(b, twice))


def test_functions_of_the_index_or_of_several_elements_stay() -> None:
    b = GraphBuilder()
    moved, other = heads(b, projected(b)), b.input(2, 6, 2)
    assert unchanged(b, b.compute((2, 6, 2), lambda *at: load(moved, at) + load(other, at)))
    b = GraphBuilder()
    moved, factors = heads(b, projected(b)), b.constant(np.array([0.3, 0.5], np.float32))

    def by_head(*at: Expression) -> Expression:
        return load(moved, at) * load(factors, at[:1])

    assert unchanged(b, b.compute((2, 6, 2), by_head))


def test_elements_that_no_contraction_computes_stay() -> None:
    b = GraphBuilder()
    assert unchanged(b, scaled(b, heads(b, b.input(6, 4))))
    b = GraphBuilder()
    source = b.input(6, 4)
    doubled = b.compute((6, 4), lambda i, j: load(source, (i, j)) * 2.0)
    assert unchanged(b, scaled(b, heads(b, doubled)))


def test_reshaped_elements_stay_since_fusion_reads_through_them() -> None:
    b = GraphBuilder()
    product = projected(b)
    assert unchanged(b, scaled(b, b.compute((24,), lambda i: load(product, (i // 4, i % 4)))))
