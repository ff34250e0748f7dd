"""Updates of a box give the graph's elements and stay inside their memory."""

import numpy as np
from support.compiler.graphs import GraphBuilder, random_array
from support.cpu.native import DIFFERENT, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, clamp, index, load
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.movement import box_update
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Shapes of a value and of what replaces a box of it: rows of every remainder, boxes of whole rows,
#: of parts of them, of everything and of one element, and dimensions of length 1. Long parts of
#: rows are written once, and blocks of rows with short parts are copied first.
SHAPES = [
    ((1000,), (1,)),
    ((1000,), (333,)),
    ((1000,), (1000,)),
    ((7, 301), (3, 100)),
    ((7, 301), (7, 301)),
    ((1, 4, 40, 16), (1, 4, 1, 16)),
    ((2, 3, 1, 150), (1, 2, 1, 149)),
    ((5, 33, 9), (1, 33, 9)),
    ((3, 2400), (2, 2100)),
    ((3, 5, 70, 60), (2, 3, 1, 7)),
    ((6, 20, 30), (6, 20, 1)),
    ((70, 2), (69, 1)),
]


def _updated(kind: Scalar, shape: tuple[int, ...], size: tuple[int, ...], *, beyond: int = 0) -> Graph:
    """Returns a graph that replaces a box, which may be outside by up to `beyond` elements."""
    builder = GraphBuilder()
    source, update = builder.input(*shape, type=kind), builder.input(*size, type=kind)
    start = builder.input(len(shape), type=Scalar.INT32)

    def body(*at: Expression) -> Expression:
        indexes = []
        for axis, (coordinate, length, part) in enumerate(zip(at, shape, size, strict=True)):
            begin = load(start, (index(axis),)).to(Scalar.INDEX)
            indexes.append(coordinate - clamp(begin, -beyond, length - part + beyond))
        return load(update, tuple(indexes), inside(indexes, size), load(source, at))

    return builder.finish(builder.compute(shape, body))


def _routine(graph: Graph, target: Target) -> Routine | None:
    (kernel,) = fuse(graph).kernels
    return box_update.routine(kernel, target)


@sweep("target", DIFFERENT, ids=lambda target: target.name)
def test_boxes_are_replaced(target: Target) -> None:
    kinds = (Scalar.INT8, Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT64)
    graphs = [_updated(kinds[n % len(kinds)], *shapes) for n, shapes in enumerate(SHAPES)]
    graphs += [_updated(kind, *shapes) for shapes in SHAPES for kind in (Scalar.INT8, Scalar.BOOL)]
    routines = [routine for graph in graphs if (routine := _routine(graph, target)) is not None]
    kept = [graph for graph in graphs if _routine(graph, target) is not None]
    # Those of which everything is replaced are copies.
    assert len(kept) == len(graphs) - 3 * sum(whole == part for whole, part in SHAPES)
    functions = compiled(routines, target)
    for number, (graph, routine) in enumerate(zip(kept, routines, strict=True)):
        generator = np.random.default_rng(number)
        source, update, start = graph.inputs
        for _ in range(4):
            arrays = [random_array(generator, each.shape, each.type) for each in (source, update)]
            limits = np.array(source.shape) + 2
            arrays.append(generator.integers(-2, limits, start.shape).astype(np.int32))
            splits = sorted(generator.integers(0, routine.work_items + 1, 2).tolist())
            result, status = run(
                routine,
                dict(zip(graph.inputs, arrays, strict=True)),
                target,
                at_start=bool(number % 2),
                splits=splits,
                functions=functions,
            )
            assert not status
            np.testing.assert_array_equal(result, evaluate(graph, arrays)[0])


@sweep("target", DIFFERENT[:1], ids=lambda target: target.name)
def test_boxes_that_may_be_partly_outside_have_other_kernels(target: Target) -> None:
    for shape, size in SHAPES:
        if shape != size:
            assert _routine(_updated(Scalar.INT8, shape, size), target) is not None
            assert _routine(_updated(Scalar.INT8, shape, size, beyond=1), target) is None


@sweep("target", DIFFERENT[:1], ids=lambda target: target.name)
def test_short_values_and_computed_elements_have_other_kernels(target: Target) -> None:
    assert _routine(_updated(Scalar.INT8, (9, 12), (2, 5)), target) is None
    builder = GraphBuilder()
    source, update = builder.input(900), builder.input(9)

    def body(i: Expression) -> Expression:
        return load(update, (i - 3,), inside((i - 3,), (9,)), load(source, (i,)) + 1)

    assert _routine(builder.finish(builder.compute((900,), body)), target) is None
