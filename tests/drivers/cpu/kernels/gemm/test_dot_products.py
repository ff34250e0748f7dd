"""Products with few channels give the graph's results and stay inside their memory."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.cpu.native import RUNNABLE, results, run
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, load, maximum
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import Target

TARGETS = {(target.vector_bytes, target.has_fma): target for target in RUNNABLE}


def _matrices(rows: int, channels: int, terms: int, *, is_constant: bool) -> Graph:
    builder = GraphBuilder(terms)
    source = builder.input(rows, terms)
    weights = builder.weights(channels, terms) if is_constant else builder.input(channels, terms)
    sums = builder.matrix_product(source, weights)
    bias = builder.weights(channels)

    def body(*at: Expression) -> Expression:
        return maximum(load(sums, at) + load(bias, at[-1:]), -1.0)

    return builder.finish(builder.compute(sums.shape, body))


def _pixels() -> Graph:
    builder = GraphBuilder()
    source = builder.input(2, 5, 6, 130)
    weights = builder.weights(1, 1, 1, 130)
    return builder.finish(builder.convolution(source, weights, output=(2, 3, 3, 1), stride=(2, 2)))


@pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_floats(target: Target) -> None:
    shapes = ((1, 1, 7104), (3, 1, 61), (1, 2, 257), (5, 3, 1000))
    graphs = [_matrices(*shape, is_constant=bool(number % 2)) for number, shape in enumerate(shapes)]
    graphs.append(_pixels())
    kernels = [fuse(graph).kernels[0] for graph in graphs]
    routines = [routine for kernel in kernels if (routine := routine_for(kernel, target)) is not None]
    assert all("terms at once" in routines[number].label for number in (0, 1, 4))
    arrays = [
        [random_array(np.random.default_rng(number), each.shape, each.type) for each in graph.inputs]
        for number, graph in enumerate(graphs)
    ]
    calls = [
        (routine, dict(zip(graph.inputs, given, strict=True)))
        for graph, routine, given in zip(graphs, routines, arrays, strict=True)
    ]
    for graph, given, result in zip(graphs, arrays, results(calls, target), strict=True):
        (expected,) = evaluate(graph, given)
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=2e-5, atol=2e-4)


@sweep("target", list(TARGETS.values()), ids=lambda target: target.name)
def test_infinite_inputs_do_not_spread(target: Target) -> None:
    """Elements that are read beside the terms of a row do not affect its result."""
    graph = _matrices(2, 1, 1001, is_constant=False)
    source, weights = np.ones((2, 1001), np.float32), np.ones((1, 1001), np.float32)
    source[1, 0] = np.inf
    (kernel,) = fuse(graph).kernels
    routine = routine_for(kernel, target)
    assert routine is not None
    result, _ = run(routine, dict(zip(graph.inputs, (source, weights), strict=True)), target)
    (expected,) = evaluate(graph, [source, weights])
    np.testing.assert_allclose(result, expected, rtol=1e-5)
