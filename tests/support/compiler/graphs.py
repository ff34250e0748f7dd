"""Builds graphs of the kernel compiler by hand, and checks that passes preserve their results."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate, evaluate_fused
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.graph import Graph, Node
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value

_N = TypeVar("_N", bound=Node)


class GraphBuilder(Builder):
    """Builds a graph without a model; nodes are appended as by lowerings."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph(inputs=[], outputs=[])
        self.generator = np.random.default_rng(seed)
        super().__init__(self.graph, lambda index: self.graph.inputs[index])

    def input(self, *shape: int, type: Scalar = Scalar.FLOAT32) -> Value:  # noqa: A002 - the field's name
        value = Value(shape, type, name=f"input {len(self.graph.inputs)}")
        self.graph.inputs.append(value)
        return value

    def weights(self, *shape: int, type: Scalar = Scalar.FLOAT32) -> Value:  # noqa: A002 - the field's name
        return self.constant(random_array(self.generator, shape, type))

    def finish(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        verify(self.graph)
        return self.graph


def random_array(generator: np.random.Generator, shape: Shape, kind: Scalar) -> Array:
    """Returns small random numbers, of both signs if the type is signed."""
    if kind.is_float:
        return generator.standard_normal(shape).astype(kind.dtype)
    low, high = (0, 2) if kind is Scalar.BOOL else (0, 20) if kind.value.startswith("u") else (-10, 10)
    return np.asarray(generator.integers(low, high, shape)).astype(kind.dtype)


def changes(graph: Graph, transformation: Callable[[Graph], bool | None], seed: int = 0) -> bool:
    """Returns True if a pass changes the graph.

    Asserts that the graph stays valid and gives the same results, with outputs in the same order.
    """
    generator = np.random.default_rng(seed)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    before, nodes = evaluate(graph, inputs), list(graph.nodes)
    shapes = [(value.shape, value.type) for value in graph.outputs]
    is_changed = transformation(graph)
    graph.remove_unused()
    verify(graph)
    assert [(value.shape, value.type) for value in graph.outputs] == shapes
    for one, other in zip(before, evaluate(graph, inputs), strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(other, one)
    return graph.nodes != nodes if is_changed is None else is_changed


def kinds(graph: Graph) -> list[str]:
    """Returns the kinds of the nodes, in order."""
    return [type(node).__name__ for node in graph.nodes]


def node_of(graph: Graph, kind: type[_N]) -> _N:
    """Returns the only node of a kind."""
    (found,) = (node for node in graph.nodes if isinstance(node, kind))
    return found


def expect_equal_results(graph: Graph, fused: FusedGraph) -> None:
    """Asserts that fused kernels compute what the graph does."""
    generator = np.random.default_rng(3)
    arrays = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    for found, expected in zip(evaluate_fused(fused, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
