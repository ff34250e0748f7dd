"""Range copies give the graph's elements and stay inside their memory."""

import numpy as np
from support.compiler.graphs import GraphBuilder, random_array
from support.cpu.native import DIFFERENT, results
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, index, load, select
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.movement import range_copy
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

each_target = sweep("target", DIFFERENT, ids=lambda target: target.name)
KINDS = (Scalar.INT8, Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT64)


def _routine(graph: Graph, target: Target) -> Routine | None:
    (kernel,) = fuse(graph).kernels
    return range_copy.routine(kernel, target)


def _shifted(kind: Scalar, rows: int, width: int) -> Graph:
    """Returns all rows except the first, followed by a new one."""
    builder = GraphBuilder(rows)
    state, row = builder.input(rows, width, type=kind), builder.input(1, width, type=kind)

    def body(i: Expression, j: Expression) -> Expression:
        return load(state, (i + 1, j), i < rows - 1, load(row, (i - (rows - 1), j), i >= rows - 1, 0))

    return builder.finish(builder.compute((rows, width), body))


def _padded(kind: Scalar, shape: tuple[int, int]) -> Graph:
    """Pads with rows before and after."""
    builder = GraphBuilder()
    source = builder.input(*shape, type=kind)

    def body(i: Expression, j: Expression) -> Expression:
        return load(source, (i - 2, j), inside((i - 2, j), shape), 3)

    return builder.finish(builder.compute((shape[0] + 5, shape[1]), body))


def _chosen(kind: Scalar) -> Graph:
    """Selects rows by a table, and a part of another value with another shape."""
    builder = GraphBuilder()
    first, second = builder.input(9, 40, type=kind), builder.input(500, type=kind)
    table = builder.constant(np.array([7, 0, 8, 8], np.int64))

    def body(i: Expression) -> Expression:
        row = load(table, (i // 40 % 4,)).to(Scalar.INDEX)
        return select(i < 160, load(first, (row, i % 40), i < 160, 0), load(second, (i - 101,), i >= 160, 0))

    return builder.finish(builder.compute((601,), body))


@each_target
def test_ranges(target: Target) -> None:
    graphs = [_shifted(kind, 7, width) for kind, width in zip(KINDS, (40, 17, 100, 9), strict=True)]
    graphs += [_padded(Scalar.INT8, (3, 50)), _padded(Scalar.FLOAT32, (90, 130)), _chosen(Scalar.FLOAT32)]
    routines = [routine for graph in graphs if (routine := _routine(graph, target)) is not None]
    assert len(routines) == len(graphs)
    assert routines[5].work_items > 1
    arrays = [
        [random_array(np.random.default_rng(number), each.shape, each.type) for each in graph.inputs]
        for number, graph in enumerate(graphs)
    ]
    calls = [
        (routine, dict(zip(graph.inputs, given, strict=True)))
        for graph, routine, given in zip(graphs, routines, arrays, strict=True)
    ]
    for graph, routine, given, result in zip(graphs, routines, arrays, results(calls, target), strict=True):
        (expected,) = evaluate(graph, given)
        np.testing.assert_array_equal(result, expected, err_msg=routine.label)


def test_the_cost_is_that_of_what_is_copied() -> None:
    """The size of a value does not matter if only a small part of it is read."""

    def cost(rows: int) -> float:
        builder = GraphBuilder()
        source = builder.input(rows, 500)
        graph = builder.finish(builder.compute((8, 500), lambda i, j: load(source, (i + 1, j))))
        routine = _routine(graph, DIFFERENT[0])
        assert routine is not None
        return routine.cost_ns

    assert cost(10) == cost(10_000)


def test_other_kernels_have_no_routine() -> None:
    target = DIFFERENT[0]
    builder = GraphBuilder()
    source, indices = builder.input(64, 64), builder.input(64, type=Scalar.INT32)

    def finish(body: object) -> Graph:
        return GraphBuilder.finish(builder, builder.compute((64, 64), body))  # type: ignore[arg-type]

    def transposed(i: Expression, j: Expression) -> Expression:
        return load(source, (j, i))

    def computed(i: Expression, j: Expression) -> Expression:
        return load(source, (i, j)) + 1.0

    def by_data(i: Expression, j: Expression) -> Expression:
        return load(source, (load(indices, (index(0),)).to(Scalar.INDEX) % 64, j))

    for body in (transposed, computed, by_data):
        builder.graph.nodes.clear()
        assert _routine(finish(body), target) is None


def test_positions_that_are_not_known_stay_open() -> None:
    """The place at which a part of a value of known shape begins may be data."""
    scope = ExtentScope([67])
    (start,) = scope.symbols
    builder = GraphBuilder()
    source = builder.input(100, 64)
    shifted = builder.compute((4, 64), lambda i, j: load(source, (i + start, j)))
    assert _routine(builder.finish(shifted), DIFFERENT[0]) is None
    builder.graph.nodes.clear()
    guarded = builder.compute((4, 64), lambda i, j: load(source, (i, j), i < start, 0))
    assert _routine(builder.finish(guarded), DIFFERENT[0]) is None
    assert not scope.pins
