"""Nodes that only depend on constants become constants."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes, kinds

from neurald.drivers.compiler.ir.expression import axis, constant, index, load, minimum, reduce
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.constant_folding import fold_constants


def test_transposed_and_reshaped_weights_are_folded() -> None:
    b = GraphBuilder()
    weights = b.weights(6, 4)
    turned = b.compute((4, 6), lambda i, j: load(weights, (j, i)))
    product = b.matrix_product(b.input(3, 8), b.reshape(turned, (3, 8)))
    graph = b.finish(product)
    assert changes(graph, fold_constants)
    assert kinds(graph) == ["MatrixProduct"]
    assert graph.nodes[0].inputs[1].constant is not None
    assert not changes(graph, fold_constants)


def test_a_reshaped_constant_shares_its_elements() -> None:
    b = GraphBuilder()
    weights = b.weights(6, 4)
    output = b.reshape(weights, (24,))
    graph = b.finish(output)
    assert changes(graph, fold_constants)
    assert output.constant is not None
    assert np.shares_memory(output.constant, weights.constant)


def test_nodes_that_depend_on_an_input_are_kept() -> None:
    b = GraphBuilder()
    source, table = b.input(5), b.weights(5)
    graph = b.finish(b.compute((5,), lambda i: load(source, (i,)) + load(table, (i,))))
    assert not changes(graph, fold_constants)


def test_nodes_without_inputs_are_kept() -> None:
    b = GraphBuilder()
    graph = b.finish(b.compute((5,), lambda i: i.to(Scalar.FLOAT32)))
    assert not changes(graph, fold_constants)


def test_results_much_larger_than_their_inputs_are_not_folded() -> None:
    b = GraphBuilder()
    row = b.weights(1, 100)
    graph = b.finish(b.compute((1000, 100), lambda i, j: load(row, (index(0), j)) + i.to(Scalar.FLOAT32)))
    assert not changes(graph, fold_constants)


def test_long_computations_are_not_folded() -> None:
    b = GraphBuilder()
    row = b.weights(5000)
    along = axis(5000)
    graph = b.finish(
        b.compute((5000,), lambda i: reduce(ReductionOp.SUM, (along,), load(row, (along,)) * load(row, (i,))))
    )
    assert not fold_constants(graph)


def test_nodes_with_violated_requirements_are_kept() -> None:
    b = GraphBuilder()
    table = b.constant(np.array([1, -1], np.int32))
    b.compute(
        (2,),
        lambda i: load(table, (i,)),
        requirements=lambda i: ((load(table, (i,)) >= 0, "a negative number"),),
    )
    graph = b.finish(b.graph.nodes[0].output)
    assert not fold_constants(graph)
    assert len(graph.nodes) == 1


@pytest.mark.parametrize("use", ["element", "requirement", "reduction"])
def test_nodes_with_lengths_that_are_not_known_are_kept(use: str) -> None:
    scope = ExtentScope([9])
    (length,) = scope.symbols
    b = GraphBuilder()
    table = b.constant(np.array([0, 1, 7], np.int32))
    along, last = axis(length), constant(length - 1, Scalar.INT32)
    bodies = {
        "element": lambda i: minimum(load(table, (i,)), last),
        "requirement": lambda i: load(table, (i,)),
        "reduction": lambda i: reduce(ReductionOp.SUM, (along,), load(table, (i,))),
    }
    b.compute(
        (3,),
        bodies[use],
        requirements=lambda i: ((load(table, (i,)) <= last, "too large"),) if use == "requirement" else (),
    )
    graph = b.finish(b.graph.nodes[0].output)
    assert not fold_constants(graph)
    assert not scope.pins
