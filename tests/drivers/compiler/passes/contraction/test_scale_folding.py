"""Factors per channel are folded into the weights."""

from collections.abc import Callable

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, changes
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, constant, index, load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.scale_folding import fold_scaling

pytestmark = pytest.mark.quick

#: Returns an element of the output, given that of the contraction, its index, factors and bias.
Epilogue = Callable[[Expression, tuple[Expression, ...], Value, Value], Expression]


def contraction(b: GraphBuilder, kind: str) -> Value:
    """Returns a contraction with 3 output channels."""
    if kind == "convolution":
        return b.convolution(b.input(2, 5, 5, 2), b.weights(3, 2, 2, 2), output=(2, 4, 4, 3))
    if kind == "depthwise":
        return b.depthwise_convolution(b.input(2, 5, 5, 3), b.weights(2, 2, 3), output=(2, 4, 4, 3))
    if kind == "product":
        return b.matrix_product(b.input(2, 5), b.weights(3, 5))
    return b.matrix_product(b.input(2, 5), b.weights(5, 3), right_transposed=True)


def graph_of(b: GraphBuilder, sums: Value, epilogue: Epilogue) -> Graph:
    factors, bias = b.weights(3), b.weights(1, 3)
    return b.finish(b.compute(sums.shape, lambda *at: epilogue(load(sums, at), at, factors, bias)))


@sweep("kind", ["convolution", "depthwise", "product", "transposed"])
@sweep(
    "epilogue",
    [
        lambda total, at, factors, _: total * load(factors, (at[-1],)),
        lambda total, at, factors, bias: load(factors, (at[-1],)) * total + load(bias, (index(0), at[-1])),
        lambda total, at, factors, bias: constant(0.25, Scalar.FLOAT32) * total,
    ],
)
def test_factors_per_channel_or_for_all_channels_are_folded(kind: str, epilogue: Epilogue) -> None:
    b = GraphBuilder()
    graph = graph_of(b, contraction(b, kind), epilogue)
    weights = graph.nodes[0].inputs[1]
    assert changes(graph, fold_scaling)
    assert graph.nodes[0].inputs[1] is not weights
    assert not changes(graph, fold_scaling)


@sweep(
    "epilogue",
    [
        lambda total, at, factors, bias: (total + 1.0) * load(factors, (at[-1],)),
        lambda total, at, factors, bias: total * load(factors, (at[-1],)) + total,
        lambda total, at, factors, bias: total * total,
        lambda total, at, factors, bias: total * load(factors, (2 - at[-1],)),
        lambda total, at, factors, bias: total * load(factors, (at[0],)),
        lambda total, at, factors, bias: total + load(factors, (at[-1],)),
        lambda total, at, factors, bias: total,
        lambda total, at, factors, bias: total * 0.0,
        lambda total, at, factors, bias: total * 1e-38,
    ],
)
def test_other_uses_of_the_result_are_kept(epilogue: Epilogue) -> None:
    b = GraphBuilder()
    assert not changes(graph_of(b, contraction(b, "convolution"), epilogue), fold_scaling)


def test_results_with_two_readers_or_that_are_outputs_are_kept() -> None:
    for others in (1, 0):
        b = GraphBuilder()
        sums = contraction(b, "convolution")
        scaled = b.compute(sums.shape, lambda *at, v=sums: load(v, at) * 2.0)
        outputs = [b.compute(sums.shape, lambda *at, v=sums: load(v, at) + 1.0)] if others else [sums]
        assert not changes(b.finish(scaled, *outputs), fold_scaling)


def test_integers_and_variable_weights_are_kept() -> None:
    b = GraphBuilder()
    sums = b.matrix_product(
        b.input(2, 5, type=Scalar.INT8), b.weights(3, 5, type=Scalar.INT8), type=Scalar.INT32
    )
    dynamic = b.matrix_product(b.input(2, 5), b.input(3, 5))
    graph = b.finish(
        b.compute((2, 3), lambda i, j: load(sums, (i, j)) * 2),
        b.compute((2, 3), lambda i, j: load(dynamic, (i, j)) * 2.0),
    )
    assert not changes(graph, fold_scaling)


def test_shared_weights_are_not_changed() -> None:
    b = GraphBuilder()
    weights = b.weights(3, 5)
    first, second = b.matrix_product(b.input(2, 5), weights), b.matrix_product(b.input(4, 5), weights)
    graph = b.finish(b.compute((2, 3), lambda i, j: load(first, (i, j)) * 2.0), second)
    assert changes(graph, fold_scaling)
    assert graph.nodes[1].inputs[1] is weights


def test_one_reader_of_two_contractions() -> None:
    b = GraphBuilder()
    first, second = b.matrix_product(b.input(2, 5), b.weights(3, 5)), contraction(b, "product")
    factors = b.constant(np.array([[1, 2, 3]], np.float32))

    def body(i: Expression, j: Expression) -> Expression:
        return load(first, (i, j)) * load(factors, (index(0), j)) + load(second, (i, j)) * 3.0

    graph = b.finish(b.compute((2, 3), body))
    assert changes(graph, fold_scaling)
    assert graph.nodes[-1].inputs == (first, second)
