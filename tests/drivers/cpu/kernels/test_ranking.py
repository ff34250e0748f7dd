"""The kernel of rankings gives what the graph computed with NumPy gives, and touches not a byte beside its memory."""

import numpy as np
import pytest
from support.compiler_graphs import GraphBuilder
from support.native import RUNNABLE, Array, compiled, run

from neurald.drivers.compiler.evaluate import evaluate
from neurald.drivers.compiler.expression import Expression, load
from neurald.drivers.compiler.fusion import fuse
from neurald.drivers.compiler.graph import Graph
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.kernels import routine_for
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}
#: Rows, elements of a row, and how many are ranked: with and without whole vectors, few and all.
SHAPES = (
    ((), 1, 1),
    ((3,), 7, 7),
    ((2, 2), 70, 3),
    ((2,), 1000, 10),
    ((), 777, 400),
    ((5,), 33, 1),
    ((), 3001, 100),
    ((2,), 2500, 40),
)

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
generator = np.random.default_rng(11)


def _rows(kind: Scalar, shape: tuple[int, ...], order: int) -> Array:
    """Elements of which some are equal, and for floats some not numbers; in any order, ascending, or descending."""
    values: Array
    if kind.is_float:
        values = generator.integers(-40, 40, shape) / 4
        values[generator.random(shape) < 0.1] = np.inf
        values[generator.random(shape) < 0.1] = -np.inf
        values[generator.random(shape) < 0.1] = np.nan
        values[generator.random(shape) < 0.1] = -0.0
    elif kind is Scalar.BOOL:
        values = generator.integers(0, 2, shape)
    else:
        info = np.iinfo(kind.value)
        values = generator.integers(info.min, info.max, shape, kind.value, endpoint=True)
        values[generator.random(shape) < 0.3] = info.max
    return (values if order == 0 else np.sort(values, axis=-1)[..., ::order]).astype(kind.dtype)


def _check(graphs: list[Graph], arrays: list[Array], target: Target) -> None:
    routines: list[Routine] = []
    for graph in graphs:
        (kernel,) = fuse(graph).kernels
        routine = routine_for(kernel, target)
        assert routine is not None
        routines.append(routine)
    functions = compiled(routines, target)
    for number, (graph, routine, array) in enumerate(zip(graphs, routines, arrays, strict=True)):
        result, status = run(
            routine,
            {graph.inputs[0]: array},
            target,
            at_start=bool(number % 2),
            splits=[routine.grains // 2],
            functions=functions,
        )
        assert not status
        (expected,) = evaluate(graph, [array])
        np.testing.assert_array_equal(result.reshape(expected.shape), expected, err_msg=routine.label)


@pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_rankings(kind: Scalar, target: Target) -> None:
    graphs, arrays = [], []
    for number, (rows, length, count) in enumerate(SHAPES):
        builder = GraphBuilder()
        source = builder.input(*rows, length, type=kind)
        places = builder.ranking(source, count, is_first_first=bool(number % 2))
        graphs.append(builder.finish(places))
        arrays.append(_rows(kind, source.shape, (number + 1) % 3 - 1))
    _check(graphs, arrays, target)


def test_what_follows_is_part_of_the_kernel(target: Target) -> None:
    builder = GraphBuilder()
    source = builder.input(3, 50)
    places = builder.ranking(source, 4, is_first_first=True)

    def body(*at: Expression) -> Expression:
        return load(places, at).to(Scalar.INT64) + 1

    graph = builder.finish(builder.compute(places.shape, body))
    _check([graph], [_rows(Scalar.FLOAT32, source.shape, 0)], target)
