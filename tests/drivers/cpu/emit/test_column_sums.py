"""Sums of bytes in lanes are those of the interpreter, on every target."""

import numpy as np
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Axis, Expression, Reduce, axis, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.emit.column_sums import MAX_ROWS, column_sum_of
from neurald.drivers.cpu.target.target import Target

_KINDS = (Scalar.INT8, Scalar.UINT8)
#: Rows, further rows, and columns: whole blocks and parts of them, of one and of two axes.
_SHAPES = (
    (16, 1, 64),
    (49, 1, 96),
    (MAX_ROWS, 1, 32),
    (MAX_ROWS + 1, 1, 33),
    (1031, 1, 16),
    (9, 40, 48),
    (3, 300, 64),
)


def _column_sum(shape: tuple[int, ...], kind: Scalar, bias: int) -> tuple[Kernel, Value]:
    rows, more, columns = shape
    value = Value((rows + 1, more + 2, columns), kind)
    first, second, column = axis(rows), axis(more), axis(columns)
    element = load(value, (first, second, column)).to(Scalar.INT32) - bias
    body = reduce(ReductionOp.SUM, (first, second), element)
    return Kernel(output=Value((columns,), Scalar.INT32), axes=(column,), body=body), value


@sweep("target", DIFFERENT, ids=lambda target: target.name)
def test_sums(target: Target) -> None:
    """Sums of the greatest and of the smallest bytes fit, too."""
    generator = np.random.default_rng(3)
    kernels, inputs = [], []
    for number, shape in enumerate(_SHAPES):
        for kind in _KINDS:
            kernel, value = _column_sum(shape, kind, 5 * (number % 3 - 1))
            limits = np.iinfo(kind.dtype.name)
            numbers: Array = generator.integers(limits.min, limits.max + 1, value.shape).astype(kind.dtype)
            numbers[..., 0], numbers[..., 1], numbers[..., 5] = limits.max, limits.min, limits.max
            kernels.append(kernel)
            inputs.append({value: numbers})
    routines = [render(kernel, target) for kernel in kernels]
    if target.vector_bytes > 16:
        assert all("lshr <" in routine.text for routine in routines)
    functions = compiled(routines, target)
    for kernel, given, routine in zip(kernels, inputs, routines, strict=True):
        for at_start in (False, True):
            found, status = run(routine, given, target, at_start=at_start, functions=functions)
            assert not status
            np.testing.assert_array_equal(found, interpreted(kernel, given))


def test_other_reductions_are_left_alone() -> None:
    value, short = Value((100, 100), Scalar.INT8), Value((100, 100), Scalar.INT16)
    row, column = axis(100), axis(100)

    def matched(fold: Expression, along: Axis = column, lanes: int = 32) -> bool:
        assert isinstance(fold, Reduce)
        return column_sum_of(fold, along, lanes) is not None

    element = load(value, (row, column)).to(Scalar.INT32)
    assert matched(reduce(ReductionOp.SUM, (row,), element))
    assert matched(reduce(ReductionOp.SUM, (row,), element - 3))
    assert not matched(reduce(ReductionOp.SUM, (row,), element), lanes=8)
    assert not matched(reduce(ReductionOp.SUM, (row,), element), row)
    assert not matched(reduce(ReductionOp.MAXIMUM, (row,), element))
    assert not matched(reduce(ReductionOp.SUM, (row,), element * 3))
    assert not matched(reduce(ReductionOp.SUM, (axis(9),), load(value, (row, column)).to(Scalar.INT32)))
    assert not matched(reduce(ReductionOp.SUM, (row,), load(short, (row, column)).to(Scalar.INT32)))
    guarded = load(value, (row, column), row > 3, 0).to(Scalar.INT32)
    assert not matched(reduce(ReductionOp.SUM, (row,), guarded))
