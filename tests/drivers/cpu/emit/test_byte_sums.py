"""Sums of contiguous bytes are those of the interpreter, on every target."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import RUNNABLE, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce, axis, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.emit.byte_sums import byte_sum_of
from neurald.drivers.cpu.target.target import TARGETS, Target

_TARGET = TARGETS["avx512vnni"]
_KINDS = (Scalar.INT8, Scalar.UINT8)


def _sum(value: Value, at: tuple[Axis, ...], reduced: tuple[Axis, ...], bias: int) -> Expression:
    element = load(value, at).to(Scalar.INT32)
    return reduce(ReductionOp.SUM, reduced, element - bias if bias else element)


def _extremes(value: Value) -> Array:
    limits = np.iinfo(value.type.dtype.name)
    numbers = np.random.default_rng(5).choice(
        [limits.min, limits.max, 0, 1], value.shape, p=[0.4, 0.4, 0.1, 0.1]
    )
    return numbers.astype(value.type.dtype)


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_sums(target: Target) -> None:
    """Rows shorter than a register, of all remainders, and several of them."""
    kernels, inputs = [], []
    for number, shape in enumerate(((3, 63), (3, 64), (2, 191), (2, 255), (1, 256), (5, 1003), (2, 3, 130))):
        value = Value(shape, _KINDS[number % 2])
        at = tuple(axis(length) for length in shape)
        body = _sum(value, at, at[1:], 7 * (number % 3 - 1))
        kernels.append(Kernel(output=Value(shape[:1], Scalar.INT32), axes=at[:1], body=body))
        inputs.append({value: _extremes(value)})
    routines = [render(kernel, target) for kernel in kernels]
    functions = compiled(routines, target)
    for kernel, given, routine in zip(kernels, inputs, routines, strict=True):
        for at_start in (False, True):
            found, status = run(routine, given, target, at_start=at_start, functions=functions)
            assert not status
            np.testing.assert_array_equal(found, interpreted(kernel, given))


@sweep("kind", _KINDS)
def test_long_rows_have_several_registers(kind: Scalar) -> None:
    for length, lanes in ((64, 64), (127, 64), (128, 128), (255, 128), (256, 256), (9999, 256)):
        value, at = Value((length,), kind), axis(length)
        fold = _sum(value, (at,), (at,), 3)
        assert isinstance(fold, Reduce)
        found = byte_sum_of(fold, at, _TARGET)
        assert found is not None
        assert isinstance(found.source, Load)
        assert (found.lanes, found.bias) == (lanes, 3 * length)


def test_other_reductions_are_left_alone() -> None:
    value, short = Value((100, 100), Scalar.INT8), Value((100, 100), Scalar.INT16)
    row, column = axis(100), axis(100)

    def matched(fold: Expression, along: Axis, target: Target = _TARGET) -> bool:
        assert isinstance(fold, Reduce)
        return byte_sum_of(fold, along, target) is not None

    element = load(value, (row, column)).to(Scalar.INT32)
    assert matched(reduce(ReductionOp.SUM, (column,), element), column)
    assert not matched(reduce(ReductionOp.SUM, (column,), element), column, TARGETS["avx2"])
    assert not matched(reduce(ReductionOp.SUM, (row,), element), row)
    assert not matched(reduce(ReductionOp.MAXIMUM, (column,), element), column)
    assert not matched(reduce(ReductionOp.SUM, (column,), element * 3), column)
    assert not matched(reduce(ReductionOp.SUM, (column,), load(value, (row, column))), column)
    words = load(short, (row, column)).to(Scalar.INT32)
    assert not matched(reduce(ReductionOp.SUM, (column,), words), column)
