"""Columns of several registers are reduced row by row."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import axis, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.row_wise import columns
from neurald.drivers.cpu.target.target import TARGETS, Target

_RANDOM = np.random.default_rng(3)
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)


def _kernel(
    how: ReductionOp, shape: tuple[int, ...], reduced: tuple[int, ...], kind: Scalar
) -> tuple[Kernel, Value]:
    """Returns a kernel that adds 1 to reductions along some axes."""
    value, axes = Value(shape, kind), [axis(length) for length in shape]
    kept = tuple(each for position, each in enumerate(axes) if position not in reduced)
    body = reduce(how, tuple(axes[each] for each in reduced), load(value, tuple(axes)))
    output = Value(tuple(each.extent for each in kept), kind)
    return Kernel(output=output, axes=kept, body=body + 1), value


def _check(kernel: Kernel, value: Value, given: Array, target: Target) -> None:
    routine = columns.routine(kernel, target)
    assert routine is not None
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(
            routine, {value: given}, target, at_start=at_start, splits=(1, 3), functions=functions
        )
        assert not status
        np.testing.assert_array_equal(got, interpreted(kernel, {value: given}))


@sweep("kind", [Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT32])
@sweep("how", [ReductionOp.SUM, ReductionOp.MAXIMUM, ReductionOp.PRODUCT])
@sweep(
    ("shape", "reduced"),
    [
        ((33, 300), (0,)),
        ((2, 5, 7, 24), (1, 2)),
        ((3, 16, 1, 40), (1,)),
        ((17, 3, 70), (0,)),
        ((6, 3, 4, 50), (0, 2)),
        ((16, 1000), (0,)),
    ],
)
@_TARGETS
def test_reductions(
    kind: Scalar, how: ReductionOp, shape: tuple[int, ...], reduced: tuple[int, ...], target: Target
) -> None:
    kernel, value = _kernel(how, shape, reduced, kind)
    choices = [1, -1] if how is ReductionOp.PRODUCT else range(-4, 5)
    given = _RANDOM.choice(choices, shape).astype(kind.dtype)
    if kind.is_float and how is ReductionOp.MAXIMUM:
        given.reshape(-1)[[0, -1]] = np.nan
    _check(kernel, value, given, target)


@sweep("how", [ReductionOp.MINIMUM, ReductionOp.MAXIMUM])
@sweep("kind", [Scalar.FLOAT32, Scalar.FLOAT16])
@sweep(("shape", "reduced"), [((33, 300), (0,)), ((2, 5, 7, 24), (1, 2)), ((17, 3, 70), (0,))])
@_TARGETS
def test_nan_anywhere_is_the_extreme_of_its_column_only(
    how: ReductionOp, kind: Scalar, shape: tuple[int, ...], reduced: tuple[int, ...], target: Target
) -> None:
    kernel, value = _kernel(how, shape, reduced, kind)
    routine = columns.routine(kernel, target)
    assert routine is not None
    functions = compiled([routine], target)
    given = _RANDOM.normal(0, 4, shape).astype(kind.dtype)
    for place in _RANDOM.choice(given.size, 40, replace=False):
        holey = given.copy()
        holey.reshape(-1)[place] = np.nan
        got, status = run(routine, {value: holey}, target, functions=functions)
        assert not status
        assert np.isnan(got).sum() == 1
        np.testing.assert_array_equal(got, interpreted(kernel, {value: holey}))


def test_other_kernels() -> None:
    target = TARGETS["avx512"]
    for shape, reduced, kind in (
        # One register, few rows, and rows instead of columns.
        ((100, 16), (0,), Scalar.FLOAT32),
        ((15, 300), (0,), Scalar.FLOAT32),
        ((300, 40), (1,), Scalar.FLOAT32),
        # Sums of bytes and of 64 bits have kernels of their own.
        ((100, 300), (0,), Scalar.INT8),
        ((100, 300), (0,), Scalar.INT64),
    ):
        kernel, _ = _kernel(ReductionOp.SUM, shape, reduced, kind)
        assert columns.routine(kernel, target) is None


def test_threads_share_the_columns_of_long_rows() -> None:
    target = TARGETS["avx512"]
    few, many = (
        _kernel(ReductionOp.SUM, shape, (0,), Scalar.FLOAT32)[0] for shape in ((90, 300), (9000, 300))
    )
    for kernel, blocks in ((few, 1), (many, 5)):
        routine = columns.routine(kernel, target)
        assert routine is not None
        assert routine.work_items == blocks
