"""Row-wise kernels give the graph's results and stay inside their memory."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.cpu.native import RUNNABLE, Array, results, run

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    constant,
    index,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code.
TARGETS = {target.vector_bytes: target for target in RUNNABLE}
#: Shapes of sources: rows shorter than a vector, of a few vectors, and longer, whole and partial.
SHAPES = (
    (5, 2),
    (3, 3),
    (33, 4),
    (19, 8),
    (2, 2, 7),
    (1, 8),
    (3, 17),
    (2, 21),
    (4, 64),
    (3, 65),
    (2, 3, 197),
    (2, 1001),
)

pytestmark = pytest.mark.parametrize("target", list(TARGETS.values()), ids=lambda target: target.name)
generator = np.random.default_rng(5)


def reduced(builder: GraphBuilder, source: Value, how: ReductionOp, function: Op | None = None) -> Value:
    """Reduces each row."""

    def body(*at: Expression) -> Expression:
        along = axis(source.shape[-1], "r")
        element = load(source, (*at, along))
        return reduce(how, (along,), element if function is None else apply(function, element))

    return builder.compute(source.shape[:-1], body)


def softmax(shape: tuple[int, ...]) -> Graph:
    builder = GraphBuilder()
    source = builder.input(*shape)
    largest = reduced(builder, source, ReductionOp.MAXIMUM)

    def power(*at: Expression) -> Expression:
        return apply(Op.EXP, load(source, at) - load(largest, at[:-1]))

    def total(*at: Expression) -> Expression:
        along = axis(shape[-1], "r")
        return reduce(ReductionOp.SUM, (along,), power(*at, along))

    sums = builder.compute(shape[:-1], total)
    return builder.finish(builder.compute(shape, lambda *at: power(*at) / load(sums, at[:-1])))


def repeated_softmax(shape: tuple[int, ...]) -> Graph:
    """Returns a softmax of rows with equal elements."""
    builder = GraphBuilder()
    source = builder.input(*shape[:-1], 1)
    wide = builder.compute(shape, lambda *at: load(source, (*at[:-1], index(0))))
    largest = reduced(builder, wide, ReductionOp.MAXIMUM)

    def power(*at: Expression) -> Expression:
        return apply(Op.EXP, load(wide, at) - load(largest, at[:-1]))

    def total(*at: Expression) -> Expression:
        along = axis(shape[-1], "r")
        return reduce(ReductionOp.SUM, (along,), power(*at, along))

    sums = builder.compute(shape[:-1], total)
    return builder.finish(builder.compute(shape, lambda *at: power(*at) / load(sums, at[:-1])))


def centred(shape: tuple[int, ...]) -> Graph:
    """Reduces integers, without kept elements."""
    builder = GraphBuilder()
    source = builder.input(*shape, type=Scalar.INT32)
    sums = reduced(builder, source, ReductionOp.SUM)
    return builder.finish(
        builder.compute(shape, lambda *at: load(source, at) * shape[-1] - load(sums, at[:-1]))
    )


def softmax_in_parts(shape: tuple[int, ...]) -> Graph:
    """Returns a softmax whose differences and exponentials are values of their own."""
    builder = GraphBuilder()
    source = builder.input(*shape)
    largest = reduced(builder, source, ReductionOp.MAXIMUM)
    below = builder.compute(shape, lambda *at: load(source, at) - load(largest, at[:-1]))
    powers = builder.compute(shape, lambda *at: apply(Op.EXP, load(below, at)))
    total = reduced(builder, powers, ReductionOp.SUM)
    return builder.finish(builder.compute(shape, lambda *at: load(powers, at) / load(total, at[:-1])))


def mean(builder: GraphBuilder, source: Value) -> Value:
    """Returns the mean of each row."""
    total = reduced(builder, source, ReductionOp.SUM)
    return builder.compute(total.shape, lambda *at: load(total, at) * (1 / source.shape[-1]))


def scaled(builder: GraphBuilder, centred: Value, squares: Value) -> Graph:
    """Returns centred rows, divided by the root of the mean of squares, scaled and moved."""
    variance = mean(builder, squares)
    gamma, beta = builder.weights(centred.shape[-1]), builder.weights(centred.shape[-1])

    def body(*at: Expression) -> Expression:
        root = apply(Op.RSQRT, load(variance, at[:-1]) + 1e-3)
        return load(centred, at) * (root * load(gamma, at[-1:])) + load(beta, at[-1:])

    return builder.finish(builder.compute(centred.shape, body))


def layer_norm(shape: tuple[int, ...]) -> Graph:
    """Returns a layer normalisation with squared differences, as from TensorFlow."""
    builder = GraphBuilder()
    source = builder.input(*shape)
    middle = mean(builder, source)

    def square(*at: Expression) -> Expression:
        difference = load(source, at) - load(middle, at[:-1])
        return difference * difference

    squares = builder.compute(shape, square)
    centred = builder.compute(shape, lambda *at: load(source, at) - load(middle, at[:-1]))
    return scaled(builder, centred, squares)


def layer_norm_of_centred(shape: tuple[int, ...]) -> Graph:
    """Returns a layer normalisation that squares the centred rows, as from PyTorch."""
    builder = GraphBuilder()
    source = builder.input(*shape)
    middle = mean(builder, source)
    centred = builder.compute(shape, lambda *at: load(source, at) - load(middle, at[:-1]))
    squares = builder.compute(shape, lambda *at: load(centred, at) * load(centred, at))
    return scaled(builder, centred, squares)


def rms_norm(shape: tuple[int, ...]) -> Graph:
    """Returns rows divided by the root of their mean square."""
    builder = GraphBuilder()
    source = builder.input(*shape)
    return scaled(builder, source, builder.compute(shape, lambda *at: load(source, at) * load(source, at)))


def above_root(shape: tuple[int, ...]) -> Graph:
    """Returns two independent reductions and a result of another type."""
    builder = GraphBuilder()
    source = builder.input(*shape)
    roots = reduced(builder, source, ReductionOp.SUM, Op.ABSOLUTE)
    least = reduced(builder, source, ReductionOp.MINIMUM)

    def body(*at: Expression) -> Expression:
        value = load(source, at) * shape[-1]
        return select(value > apply(Op.SQRT, load(roots, at[:-1])), value - load(least, at[:-1]), 0.0).to(
            Scalar.INT16
        )

    return builder.finish(builder.compute(shape, body))


def values(value: Value) -> Array:
    if value.type is Scalar.INT32:
        return generator.integers(-1000, 1000, value.shape, np.int32)
    return generator.normal(0, 3, value.shape).astype(np.float32)


FORMS = [
    softmax,
    softmax_in_parts,
    repeated_softmax,
    layer_norm,
    layer_norm_of_centred,
    rms_norm,
    centred,
    above_root,
]


@pytest.mark.parametrize("make", FORMS)
def test_rows(make: object, target: Target) -> None:
    assert callable(make)
    graphs: list[Graph] = [make(shape) for shape in SHAPES]
    routines = []
    for graph in graphs:
        (kernel,) = fuse(graph, is_row_wise=is_row_by_row).kernels
        routine = routine_for(kernel, target)
        assert routine is not None
        assert routine.label.startswith("rows of")
        routines.append(routine)
    arrays = [values(graph.inputs[0]) for graph in graphs]
    calls = [
        (routine, {graph.inputs[0]: array})
        for graph, routine, array in zip(graphs, routines, arrays, strict=True)
    ]
    for graph, array, result in zip(graphs, arrays, results(calls, target), strict=True):
        (expected,) = evaluate(graph, [array])
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=3e-6, atol=3e-6)


def test_nan_affects_only_its_row(target: Target) -> None:
    graph = softmax((3, 21))
    (kernel,) = fuse(graph, is_row_wise=is_row_by_row).kernels
    routine = routine_for(kernel, target)
    assert routine is not None
    array = values(graph.inputs[0])
    array[1, 20] = np.nan
    result, _ = run(routine, {graph.inputs[0]: array}, target)
    assert np.isnan(result.reshape(3, 21)).any(axis=1).tolist() == [False, True, False]
    assert np.isnan(result.reshape(3, 21)[1]).all()


def test_a_maximum_that_passes_nan_on_is_nan(target: Target) -> None:
    """Unlike in a softmax, only the maximum tells that there is NaN."""
    one = constant(1.0, Scalar.FLOAT32)
    builder = GraphBuilder()
    source = builder.input(4, 37)
    largest = reduced(builder, source, ReductionOp.MAXIMUM)
    signs = builder.compute(source.shape, lambda *at: select(load(source, at) > 0.0, one, -1.0))
    total = reduced(builder, signs, ReductionOp.SUM)

    def body(*at: Expression) -> Expression:
        sign = select(load(source, at) > 0.0, one, -1.0)
        return sign * load(largest, at[:-1]) + load(total, at[:-1])

    graph = builder.finish(builder.compute(source.shape, body))
    for place in (0, 20, 36):
        array = values(source)
        array[2, place] = np.nan
        (expected,) = evaluate(graph, [array])
        (kernel,) = fuse(graph, is_row_wise=is_row_by_row).kernels
        routine = routine_for(kernel, target)
        assert routine is not None
        result, _ = run(routine, {source: array}, target)
        np.testing.assert_allclose(result.reshape(4, 37), expected, rtol=1e-5)
        assert np.isnan(result.reshape(4, 37)[2]).all()


def test_reductions_that_are_stored_anyway_are_loaded(target: Target) -> None:
    del target
    builder = GraphBuilder()
    source = builder.input(4, 37)
    largest = reduced(builder, source, ReductionOp.MAXIMUM)
    doubled = builder.compute(largest.shape, lambda row: load(largest, (row,)) * 2.0)
    scaled_rows = builder.compute(source.shape, lambda *at: load(source, at) / load(largest, at[:-1]))
    fused = fuse(builder.finish(doubled, scaled_rows), is_row_wise=is_row_by_row)
    assert [kernel.has_reduction for kernel in fused.kernels] == [True, False, False]


def test_kept_elements_need_no_other_memory(target: Target) -> None:
    """Rows that exceed caches are kept where they are stored."""
    graph = softmax((2, 40_003))
    (kernel,) = fuse(graph, is_row_wise=is_row_by_row).kernels
    routine = routine_for(kernel, target)
    assert routine is not None
    assert routine.scratch_bytes == 0
    array = values(graph.inputs[0])
    result, _ = run(routine, {graph.inputs[0]: array}, target)
    (expected,) = evaluate(graph, [array])
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-5)


def test_longer_rows_are_shared_among_threads(target: Target) -> None:
    del target
    assert len(fuse(softmax((2, 150_000)), is_row_wise=is_row_by_row).kernels) == 3
