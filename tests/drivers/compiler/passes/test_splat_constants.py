"""Loads from splat constants are replaced by their scalars."""

import numpy as np
from support.compiler.graphs import GraphBuilder, changes
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Constant, Expression, Load, load, select
from neurald.drivers.compiler.ir.graph import Compute, RowLimit
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.passes.splat_constants import replace_splat_constants
from neurald.hal.records import replace


@sweep("dtype", ["float32", "float16", "int8", "uint8", "int32", "bool"])
@sweep("shape", [(), (1,), (7,), (2, 7)])
def test_splat_constants_are_not_loaded(dtype: str, shape: tuple[int, ...]) -> None:
    b = GraphBuilder()
    number = b.constant(np.full(shape, 1, dtype))
    source = b.constant(np.arange(7).astype(dtype))

    def body(i: Expression) -> Expression:
        indices = tuple(i % length for length in shape)
        return select(load(number, indices).equals(0), load(source, (i,)), 1)

    output = b.compute((7,), body)
    graph = b.finish(output)
    assert changes(graph, replace_splat_constants)
    (node,) = graph.nodes
    assert number not in node.inputs
    assert source in node.inputs
    assert not changes(graph, replace_splat_constants)


def test_positive_and_negative_zeros_are_no_splat() -> None:
    b = GraphBuilder()
    zeros = b.constant(np.array([0.0, -0.0, 0.0], np.float32))
    graph = b.finish(b.compute((3,), lambda i: load(zeros, (i,)) * 2))
    assert not changes(graph, replace_splat_constants)


@sweep("number", [0.1, -2.5, 1e6, np.inf, np.nan])
def test_other_floats_are_kept(number: float) -> None:
    b = GraphBuilder()
    numbers = b.constant(np.full(3, number, np.float32))
    graph = b.finish(b.compute((3,), lambda i: load(numbers, (i,)) * 2))
    assert not replace_splat_constants(graph)


def test_guarded_loads_become_selections() -> None:
    b = GraphBuilder()
    ones = b.constant(np.ones(4, np.float32))
    graph = b.finish(b.compute((6,), lambda i: load(ones, (i - 1,), (i >= 1) & (i < 5), 3.0)))
    assert changes(graph, replace_splat_constants)
    (node,) = graph.nodes
    assert isinstance(node, Compute)
    assert not any(isinstance(each, Load) for each in walk(node.body))
    assert {each.value for each in walk(node.body) if isinstance(each, Constant)} >= {1.0, 3.0}


def test_requirements_are_rewritten() -> None:
    b = GraphBuilder()
    ones, source = b.constant(np.ones(4, np.int32)), b.input(4)
    output = b.compute(
        (4,),
        lambda i: load(source, (i,)),
        requirements=lambda i: ((load(ones, (i,)) >= 0, "a negative number"),),
    )
    graph = b.finish(output)
    assert changes(graph, replace_splat_constants)
    assert ones not in graph.nodes[0].inputs


def test_contractions_are_not_changed() -> None:
    b = GraphBuilder()
    weights = b.constant(np.ones((3, 8), np.float32))
    graph = b.finish(b.matrix_product(b.input(2, 8), weights))
    assert not changes(graph, replace_splat_constants)


def test_a_constant_number_of_rows_changes_nothing() -> None:
    b = GraphBuilder()
    source, rows = b.input(7), b.constant(np.array(3, np.int32))
    graph = b.finish(b.compute((7,), lambda i: load(source, (i,)) + 1))
    (node,) = graph.nodes
    assert isinstance(node, Compute)
    graph.nodes = [replace(node, limit=RowLimit(count=rows, bound=7))]
    assert not changes(graph, replace_splat_constants)
