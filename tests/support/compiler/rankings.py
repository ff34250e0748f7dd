"""Inputs for top-k kernels, and a comparison of the kernels with the interpreted graph."""

import numpy as np
from support.cpu.native import Array, results

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

generator = np.random.default_rng(11)


def rows_to_rank(kind: Scalar, shape: tuple[int, ...], order: int) -> Array:
    """Returns rows with equal elements and, for floats, NaN; unordered, ascending or descending."""
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


def expect_places(graphs: list[Graph], arrays: list[Array], target: Target) -> None:
    """Asserts that kernels give the results of the interpreted graphs and stay in their memory."""
    routines: list[Routine] = []
    for graph in graphs:
        (kernel,) = fuse(graph).kernels
        routine = routine_for(kernel, target)
        assert routine is not None
        routines.append(routine)
    calls = [
        (routine, {graph.inputs[0]: array})
        for graph, routine, array in zip(graphs, routines, arrays, strict=True)
    ]
    for graph, routine, array, result in zip(graphs, routines, arrays, results(calls, target), strict=True):
        (expected,) = evaluate(graph, [array])
        np.testing.assert_array_equal(result.reshape(expected.shape), expected, err_msg=routine.label)
