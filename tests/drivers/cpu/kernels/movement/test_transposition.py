"""Transpositions give the graph's elements and stay inside their memory."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.cpu.native import DIFFERENT, results, run

from neurald.drivers.compiler.ir.expression import Expression, axis, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.movement import transposition
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Shapes of sources and the order of their axes: whole and partial blocks, few and many blocks, and
#: other axes.
SHAPES = (
    ((16, 16), (1, 0)),
    ((64, 64), (1, 0)),
    ((67, 35), (1, 0)),
    ((33, 131), (1, 0)),
    ((96, 160), (1, 0)),
    ((100, 300), (1, 0)),
    ((512, 40), (1, 0)),
    ((3, 1024, 17), (0, 2, 1)),
    ((2, 19, 21, 17), (0, 3, 1, 2)),
    ((3, 40, 18), (2, 0, 1)),
    ((2, 17, 3, 40), (0, 3, 2, 1)),
    ((5, 4, 16, 2), (3, 1, 2, 0)),
    ((2, 37, 75), (2, 1, 0)),
    ((4, 30, 70), (2, 1, 0)),
    ((8, 3, 28, 17), (3, 2, 1, 0)),
)

pytestmark = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
generator = np.random.default_rng(11)


def transposed(shape: tuple[int, ...], order: tuple[int, ...], kind: Scalar) -> tuple[Kernel, Value]:
    source = Value(shape, kind)
    output = Value(tuple(shape[each] for each in order), kind)
    axes = tuple(axis(length) for length in output.shape)
    return Kernel(output=output, axes=axes, body=load(source, _index(axes, order))), source


def _index(axes: tuple[Expression, ...], order: tuple[int, ...]) -> tuple[Expression, ...]:
    return tuple(axes[order.index(dimension)] for dimension in range(len(order)))


def _expect_transposed(
    found: Sequence[tuple[Routine, Value, tuple[int, ...]]], kind: Scalar, target: Target, first: int = 0
) -> None:
    """Asserts that routines transpose their sources from the row `first` on."""
    sources = [
        generator.integers(0, 2 if kind is Scalar.BOOL else 120, source.shape).astype(kind.dtype)
        for _, source, _ in found
    ]
    calls = [(routine, {source: values}) for (routine, source, _), values in zip(found, sources, strict=True)]
    for (routine, _, order), values, result in zip(found, sources, results(calls, target), strict=True):
        expected = values[first:].transpose(order)
        np.testing.assert_array_equal(result.reshape(expected.shape), expected, err_msg=routine.label)


@pytest.mark.parametrize("kind", [each for each in Scalar if each is not Scalar.INDEX])
def test_transpositions(kind: Scalar, target: Target) -> None:
    found = []
    for shape, order in SHAPES:
        kernel, source = transposed(shape, order, kind)
        routine = routine_for(kernel, target)
        if routine is not None:
            found.append((routine, source, order))
    assert len(found) >= 4
    _expect_transposed(found, kind, target)


def test_a_part_of_the_source(target: Target) -> None:
    """Transposes a slice, with strides along other axes."""
    source = Value((70, 40, 6), Scalar.INT16)
    output = Value((2, 32, 64), Scalar.INT16)
    at = tuple(axis(length) for length in output.shape)
    body = load(source, (at[2] + 3, at[1] + 8, at[0] * 4 + 1))
    assert routine_for(Kernel(output=output, axes=at, body=body), target) is None
    source = Value((70, 6, 40), Scalar.INT16)
    kernel = Kernel(output=output, axes=at, body=load(source, (at[2] + 3, at[0] * 4 + 1, at[1] + 8)))
    routine = routine_for(kernel, target)
    assert routine is not None
    values = generator.integers(-(2**15), 2**15, source.shape).astype(np.int16)
    result, _ = run(routine, {source: values}, target)
    expected = values[3:67, 1::4, 8:].transpose(1, 2, 0)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)


def test_other_kernels_have_no_routine(target: Target) -> None:
    kernel, source = transposed((64, 64), (1, 0), Scalar.FLOAT32)
    at = kernel.axes
    doubled = Kernel(output=kernel.output, axes=at, body=load(source, (at[1], at[0])) * 2)
    assert transposition.routine(doubled, target) is None
    assert transposition.routine(transposed((64, 3), (1, 0), Scalar.FLOAT32)[0], target) is None
    assert transposition.routine(transposed((64, 64), (0, 1), Scalar.FLOAT32)[0], target) is None


#: The same for sources whose rows are shorter than a block.
SHORT_ROWS = (
    ((3, 5, 200, 9), (1, 3, 0, 2)),
    ((70, 9), (1, 0)),
    ((2, 64, 10), (0, 2, 1)),
    ((65, 15), (1, 0)),
    ((7, 3, 16, 5), (3, 1, 0, 2)),
    ((40, 3, 4), (2, 1, 0)),
    ((129, 5, 3), (1, 2, 0)),
    ((129, 2, 5), (1, 2, 0)),
    ((65, 2, 5), (1, 2, 0)),
    ((33, 3, 4), (2, 1, 0)),
)


@pytest.mark.parametrize("kind", [Scalar.INT8, Scalar.BOOL, Scalar.INT16, Scalar.FLOAT32])
@pytest.mark.parametrize("first", [0, 1])
def test_rows_shorter_than_a_block(kind: Scalar, first: int, target: Target) -> None:
    """Reads elements around the rows, but none outside the source."""
    found = []
    for shape, order in SHORT_ROWS:
        whole = (shape[0] + first, *shape[1:])
        _, source = transposed(whole, order, kind)
        output = Value(tuple(shape[each] for each in order), kind)
        axes = tuple(axis(length) for length in output.shape)
        # The source may have a row before the first one.
        row, *others = _index(axes, order)
        kernel = Kernel(output=output, axes=axes, body=load(source, (row + first, *others)))
        routine = transposition.routine(kernel, target)
        if routine is not None:
            found.append((routine, source, order))
    assert len(found) >= 3
    _expect_transposed(found, kind, target, first)


@pytest.mark.parametrize(
    ("kind", "length"),
    [(Scalar.INT8, 2), (Scalar.BOOL, 4), (Scalar.UINT8, 8), (Scalar.INT16, 4), (Scalar.FLOAT32, 2)],
)
def test_runs_from_several_planes(kind: Scalar, length: int, target: Target) -> None:
    """The last axis of the output is shorter than a block, and moves elements between planes."""
    source = Value((length + 3, 40, 50), kind)
    output = Value((41, 33, length), kind)
    axes = tuple(axis(each) for each in output.shape)
    at = (axes[2] + 2, axes[1] + 7, axes[0] + 5)
    routine = routine_for(Kernel(output=output, axes=axes, body=load(source, at)), target)
    assert routine is not None
    assert routine.label.startswith("transposed")
    values = generator.integers(0, 2 if kind is Scalar.BOOL else 120, source.shape).astype(kind.dtype)
    result, status = run(routine, {source: values}, target, splits=[routine.work_items // 3])
    assert not status
    expected = values[2 : 2 + length, 7:40, 5:46].transpose(2, 1, 0)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)
