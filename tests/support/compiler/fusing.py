"""Graphs to fuse, and the fusion with a check of its results."""

import numpy as np
from support.compiler.graphs import GraphBuilder, random_array

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    load,
    reduce,
)
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import IsRowWise, fuse


def exp(value: Expression) -> Expression:
    return apply(Op.EXP, value)


def pointwise(builder: GraphBuilder, source: Value) -> Value:
    """Returns an elementwise function that is too expensive to recompute."""
    return builder.compute(source.shape, lambda *at: exp(load(source, at)) + 1)


def padded(builder: GraphBuilder, source: Value, by: int = 1, otherwise: Expression | None = None) -> Value:
    shape = tuple(length + 2 * by for length in source.shape)

    def body(*at: Expression) -> Expression:
        indices = tuple(each - by for each in at)
        return load(source, indices, inside(indices, source.shape), otherwise)

    return builder.compute(shape, body)


def row_sums(builder: GraphBuilder, source: Value) -> Value:
    rows, columns = source.shape
    along = axis(columns, "r")
    return builder.compute((rows,), lambda i: reduce(ReductionOp.SUM, (along,), load(source, (i, along))))


def fused(graph: Graph, *, is_row_wise: IsRowWise | None = None) -> FusedGraph:
    """Returns the fused graph, after checking that every kind of fusion keeps the results."""
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    expected = evaluate(graph, inputs)
    for found in (fuse(graph), fuse(graph, enabled=False), fuse(graph, is_row_wise=lambda _: True)):
        assert len(set(found.outputs)) == len(graph.outputs)
        for result, wanted in zip(evaluate_fused(found, inputs), expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    return fuse(graph, is_row_wise=is_row_wise)


def only(graph: FusedGraph) -> Kernel:
    (kernel,) = graph.kernels
    return kernel
