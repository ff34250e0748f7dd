"""Rows beside each other in vectors give the graph's results and stay inside their memory."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.cpu.native import RUNNABLE, run

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import TARGETS, Target

every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)


def softmax(shape: tuple[int, ...], kind: Scalar = Scalar.FLOAT32) -> Graph:
    """Returns exponentials of the differences from each row's largest, divided by their sum."""
    builder = GraphBuilder()
    source = builder.input(*shape, type=kind)

    def largest(*at: Expression) -> Expression:
        along = axis(shape[-1], "r")
        return reduce(ReductionOp.MAXIMUM, (along,), load(source, (*at, along)))

    most = builder.compute(shape[:-1], largest)

    def power(*at: Expression) -> Expression:
        return apply(Op.EXP, (load(source, at) - load(most, at[:-1])).to(Scalar.FLOAT32))

    def total(*at: Expression) -> Expression:
        along = axis(shape[-1], "r")
        return reduce(ReductionOp.SUM, (along,), power(*at, along))

    sums = builder.compute(shape[:-1], total)
    return builder.finish(builder.compute(shape, lambda *at: power(*at) / load(sums, at[:-1])))


def routine_of(graph: Graph, target: Target) -> Routine:
    (kernel,) = fuse(graph, is_row_wise=is_row_by_row).kernels
    found = routine_for(kernel, target)
    assert found is not None
    return found


@every_target
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.INT32])
@pytest.mark.parametrize("shape", [(40, 2), (33, 4), (19, 8), (3, 7, 4), (5, 5, 2), (16, 8)])
def test_rows_of_powers_of_two(shape: tuple[int, ...], kind: Scalar, target: Target) -> None:
    """Also a number of rows that is not a multiple of those of a vector."""
    graph = softmax(shape, kind)
    found = routine_of(graph, target)
    assert found.label.endswith("rows at once") == (shape[-1] < target.lanes(4))
    array = (np.random.default_rng(7).normal(0, 3, shape)).astype(kind.dtype)
    split = [found.work_items // 2]
    for at_start in (False, True):
        result, status = run(found, {graph.inputs[0]: array}, target, at_start=at_start, splits=split)
        assert not status
        (expected,) = evaluate(graph, [array])
        np.testing.assert_allclose(result.reshape(shape), expected, rtol=3e-6, atol=3e-6)


@every_target
def test_nan_affects_only_its_row(target: Target) -> None:
    graph, array = softmax((24, 4)), np.random.default_rng(8).normal(0, 3, (24, 4)).astype(np.float32)
    array[5, 3] = np.nan
    result, _ = run(routine_of(graph, target), {graph.inputs[0]: array}, target)
    assert np.flatnonzero(np.isnan(result)).tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize("shape", [(40, 3), (40, 16), (3, 4)])
def test_other_rows_are_computed_one_by_one(shape: tuple[int, ...]) -> None:
    """Lengths that do not divide a vector's, that fill one, and too few rows for one."""
    assert "rows at once" not in routine_of(softmax(shape), TARGETS["avx512"]).label
