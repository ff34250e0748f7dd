"""Exponents of softmax without weights that are denormal numbers."""

import numpy as np
import pytest
from support.compiler.elementwise import interpreted

from neurald.drivers.compiler.ir.expression import Axis, Expression, apply, axis, constant, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.row_wise.tiny_weights import without_tiny_weights

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


def test_other_expressions_are_returned() -> None:
    x = load(_VALUE, (_AT,))
    for body in (x, apply(Op.EXP, x), apply(Op.EXP, x - 3.0), x * apply(Op.EXP, x), _softmax(1.0) + 1.0):
        assert without_tiny_weights(body, -76.0) is body
