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

SHAPES = [(40, 2), (33, 4), (19, 8), (3, 7, 4), (5, 5, 2), (16, 8), (12, 16)]
#: Lengths that do not divide a vector's.
SHAPES += [(40, 3), (7, 3, 3), (33, 5), (9, 6), (23, 7), (5, 9), (20, 10), (8, 15)]

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
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_side_by_side(shape: tuple[int, ...], kind: Scalar, target: Target) -> None:
    """Also a number of rows that is not a multiple of those of a vector."""
    graph = softmax(shape, kind)
    found = routine_of(graph, target)
    lanes, length = target.lanes(4) * (2 if target.registers == 32 else 1), shape[-1]
    is_filled = lanes % length == 0 or target.vector_bytes == 64
    assert found.label.endswith("rows at once") == (length <= lanes // 2 and is_filled)
    array = (np.random.default_rng(7).normal(0, 3, shape)).astype(kind.dtype)
    split = [found.work_items // 2]
    for at_start in (False, True):
        result, status = run(found, {graph.inputs[0]: array}, target, at_start=at_start, splits=split)
        assert not status
        (expected,) = evaluate(graph, [array])
        np.testing.assert_allclose(result.reshape(shape), expected, rtol=3e-6, atol=3e-6)


@every_target
def test_nan_affects_only_its_row(target: Target) -> None:
    for length in (4, 5):
        graph, shape = softmax((24, length)), (24, length)
        array = np.random.default_rng(8).normal(0, 3, shape).astype(np.float32)
        array[5, 3] = np.nan
        result, _ = run(routine_of(graph, target), {graph.inputs[0]: array}, target)
        assert np.flatnonzero(np.isnan(result)).tolist() == list(range(5 * length, 6 * length))


@pytest.mark.parametrize(
    ("shape", "target"), [((40, 3), "avx2"), ((40, 8), "avx2"), ((40, 17), "avx512"), ((3, 4), "avx512")]
)
def test_other_rows_are_computed_one_by_one(shape: tuple[int, ...], target: str) -> None:
    """Lengths that do not fill a register, of which a vector has one, and too few rows for one."""
    assert "rows at once" not in routine_of(softmax(shape), TARGETS[target]).label
