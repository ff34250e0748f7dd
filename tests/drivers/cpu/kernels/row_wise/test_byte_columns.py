"""Bytes in columns of rows that fill no register are added a period of registers at a time."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import axis, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.row_wise import byte_columns
from neurald.drivers.cpu.target.target import TARGETS, Target

_RANDOM = np.random.default_rng(5)
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)


def _kernel(
    shape: tuple[int, ...],
    reduced: tuple[int, ...],
    kind: Scalar,
    how: ReductionOp = ReductionOp.SUM,
    zero_point: int = 7,
) -> tuple[Kernel, Value]:
    """Returns a kernel that doubles sums of bytes less a zero point along some axes."""
    value, axes = Value(shape, kind), [axis(length) for length in shape]
    kept = tuple(each for position, each in enumerate(axes) if position not in reduced)
    byte = load(value, tuple(axes)).to(Scalar.INT32) - zero_point
    body = reduce(how, tuple(axes[each] for each in reduced), byte) * 2
    output = Value(tuple(each.extent for each in kept), Scalar.INT32)
    return Kernel(output=output, axes=kept, body=body), value


@sweep("kind", [Scalar.INT8, Scalar.UINT8])
@sweep(
    ("shape", "reduced"),
    [
        # Whole periods, and rows behind the last one.
        ((4096, 3), (0,)),
        ((2001, 24), (0,)),
        ((2, 40, 41, 5), (1, 2)),
        ((3, 300, 40), (1,)),
        ((2, 2, 500, 24), (2,)),
        # More periods than short sums hold.
        ((100_001, 3), (0,)),
        ((9000, 8), (0,)),
    ],
)
@_TARGETS
def test_sums(kind: Scalar, shape: tuple[int, ...], reduced: tuple[int, ...], target: Target) -> None:
    kernel, value = _kernel(shape, reduced, kind)
    routine = byte_columns.routine(kernel, target)
    assert routine is not None
    limits = np.iinfo(kind.dtype.name)
    given = _RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(kind.dtype)
    # All bytes of a column have the largest value, which sums of 16 bits must hold.
    given[..., 0] = limits.max
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(
            routine, {value: given}, target, at_start=at_start, splits=(1,), functions=functions
        )
        assert not status
        np.testing.assert_array_equal(got, interpreted(kernel, {value: given}))


def test_other_kernels() -> None:
    target = TARGETS["avx512"]
    for shape, reduced, kind, how in (
        # Rows that fill registers, few rows, long periods, rows apart, rows, and other reductions.
        ((1000, 64), (0,), Scalar.INT8, ReductionOp.SUM),
        ((100, 24), (0,), Scalar.INT8, ReductionOp.SUM),
        ((9000, 33), (0,), Scalar.INT8, ReductionOp.SUM),
        ((900, 5, 24), (0,), Scalar.INT8, ReductionOp.SUM),
        ((24, 3000), (1,), Scalar.INT8, ReductionOp.SUM),
        ((3000, 24), (0,), Scalar.INT8, ReductionOp.MAXIMUM),
        ((3000, 24), (0,), Scalar.INT16, ReductionOp.SUM),
    ):
        kernel, _ = _kernel(shape, reduced, kind, how)
        assert byte_columns.routine(kernel, target) is None
