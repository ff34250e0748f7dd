"""Compares kernels of procedures with the interpreted procedures."""

from collections.abc import Callable, Sequence

import numpy as np
from support.compiler.graphs import GraphBuilder
from support.cpu.native import RUNNABLE, results

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate
from neurald.drivers.compiler.ir.algorithm import Algorithm
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}

#: A graph of one procedure, and its inputs.
Case = tuple[Graph, Sequence[Array]]


def case_of(algorithm: Algorithm, *inputs: Array, output: Shape, kind: Scalar = Scalar.INT32) -> Case:
    """Creates a procedure with these inputs."""
    builder = GraphBuilder()
    values = [builder.input(*each.shape, type=Scalar.of(each.dtype)) for each in inputs]
    return builder.finish(builder.procedure(algorithm, *values, output=output, type=kind)), inputs


def expect_same(
    cases: Sequence[Case],
    target: Target,
    compare: Callable[[Array, Array], None] = np.testing.assert_array_equal,
) -> list[Routine]:
    """Asserts that kernels give the results of the interpreter and stay in their memory."""
    routines: list[Routine] = []
    for graph, _ in cases:
        (kernel,) = fuse(graph).kernels
        routine = routine_for(kernel, target)
        assert routine is not None
        routines.append(routine)
    calls = [
        (routine, dict(zip(graph.inputs, arrays, strict=True)))
        for (graph, arrays), routine in zip(cases, routines, strict=True)
    ]
    for (graph, arrays), result in zip(cases, results(calls, target), strict=True):
        (expected,) = evaluate(graph, arrays)
        compare(result.reshape(expected.shape), expected)
    return routines
