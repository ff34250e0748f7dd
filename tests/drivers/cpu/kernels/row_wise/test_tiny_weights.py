"""Exponents of softmax without weights that are denormal numbers."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import RUNNABLE, compiled, run

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Expression,
    apply,
    axis,
    constant,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.math.vector_math import limited_exponent
from neurald.drivers.cpu.kernels.row_wise import rows
from neurald.drivers.cpu.kernels.row_wise.tiny_weights import without_tiny_weights
from neurald.drivers.cpu.target.target import Target

_VALUE, _AT = Value((9,), Scalar.FLOAT32), axis(9)


def _power(at: Axis, scale: float) -> Expression:
    other = axis(9)
    difference = load(_VALUE, (at,)) - reduce(ReductionOp.MAXIMUM, (other,), load(_VALUE, (other,)))
    return apply(Op.EXP, difference if scale == 1 else difference * scale)


def _softmax(scale: float) -> Expression:
    other = axis(9)
    total = reduce(ReductionOp.SUM, (other,), _power(other, scale))
    return _power(_AT, scale) * (constant(1.0, Scalar.FLOAT32) / total)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_small_weights_are_zero(scale: float) -> None:
    found = without_tiny_weights(_softmax(scale), -76.0)
    given = np.array([3, 3, 0, -60, -72, -74, -90, -np.inf, -300], np.float32) / np.float32(scale)
    weights = interpreted(Kernel(output=_VALUE, axes=(_AT,), body=found), {_VALUE: given})
    expected = interpreted(Kernel(output=_VALUE, axes=(_AT,), body=_softmax(scale)), {_VALUE: given})
    np.testing.assert_array_equal(weights[:5], expected[:5])
    assert (weights[:5] > 0).all()
    np.testing.assert_array_equal(weights[5:], 0)


def test_nan_remains() -> None:
    given = np.full(9, np.nan, np.float32)
    body = without_tiny_weights(_softmax(1.0), -76.0)
    assert np.isnan(interpreted(Kernel(output=_VALUE, axes=(_AT,), body=body), {_VALUE: given})).all()


def test_other_powers_remain() -> None:
    given = np.full(9, -80, np.float32)
    body = _power(_AT, 1.0) / apply(Op.EXP, load(_VALUE, (_AT,)))
    found = without_tiny_weights(body, -76.0)
    quotients, expected = (
        interpreted(Kernel(output=_VALUE, axes=(_AT,), body=each), {_VALUE: given}) for each in (found, body)
    )
    np.testing.assert_array_equal(quotients, expected)


def test_other_expressions_are_returned() -> None:
    x = load(_VALUE, (_AT,))
    for body in (x, apply(Op.EXP, x), apply(Op.EXP, x - 3.0), x * apply(Op.EXP, x), _softmax(1.0) + 1.0):
        assert without_tiny_weights(body, -76.0) is body


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_rows_with_weights_of_every_size(target: Target) -> None:
    value = Value((40, 50), Scalar.FLOAT32)
    row, column, other, along = axis(40), axis(50), axis(50), axis(50)
    given = np.random.default_rng(2).uniform(-120, 0, value.shape).astype(np.float32)
    given[3, 7], given[5, :9], given[6] = np.nan, -np.inf, 0

    def power(at: Axis) -> Expression:
        largest = reduce(ReductionOp.MAXIMUM, (along,), load(value, (row, along)))
        return apply(Op.EXP, load(value, (row, at)) - largest)

    body = power(column) * (constant(1.0, Scalar.FLOAT32) / reduce(ReductionOp.SUM, (other,), power(other)))
    kernel = Kernel(output=Value(value.shape, value.type), axes=(row, column), body=body)
    routine = rows.routine(kernel, target)
    assert routine is not None
    found, status = run(routine, {value: given}, target, functions=compiled([routine], target))
    assert not status
    np.testing.assert_allclose(found, interpreted(kernel, {value: given}), rtol=1e-5, atol=1e-32)
    small = found[np.isfinite(found)]
    assert not ((small > 0) & (small < 1e-35)).any()


def test_exponents_with_a_limit_are_recognised() -> None:
    x = load(_VALUE, (_AT,))
    limited = select(x < -76.0, -200.0, x)
    found = apply(Op.EXP, limited)
    assert isinstance(found, Apply)
    assert limited_exponent(found) == (x < -76.0, x, -76.0)
    others = (
        select(x < -110.0, -200.0, x),
        select(x < -76.0, -50.0, x),
        select(x < -76.0, -200.0, x + 1.0),
        x,
    )
    for exponent in others:
        other = apply(Op.EXP, exponent)
        assert isinstance(other, Apply)
        assert limited_exponent(other) is None


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_errors_of_weights(target: Target) -> None:
    """Powers of a softmax are within 2.5 units in the last place, and 5 where they are tiny."""
    value = Value((3, 4000), Scalar.FLOAT32)
    row, column, along = axis(3), axis(4000), axis(4000)
    generator = np.random.default_rng(3)
    given = np.stack([generator.uniform(low, 0, 4000) for low in (-1, -20, -90)]).astype(np.float32)
    given[:, 17], given[2, 5] = 0, -1e30
    largest = reduce(ReductionOp.MAXIMUM, (along,), load(value, (row, along)))
    body = apply(Op.EXP, load(value, (row, column)) - largest)
    routine = rows.routine(
        Kernel(output=Value(value.shape, value.type), axes=(row, column), body=body), target
    )
    assert routine is not None
    found, status = run(routine, {value: given}, target, functions=compiled([routine], target))
    assert not status
    exact = np.exp(given.astype(np.float64))
    is_kept = given >= -76
    units = np.abs(found[is_kept] - exact[is_kept]) / np.spacing(exact[is_kept].astype(np.float32))
    assert units[given[is_kept] >= -20].max() <= 2.5
    assert units.max() <= 5
    assert not found[~is_kept].any()
