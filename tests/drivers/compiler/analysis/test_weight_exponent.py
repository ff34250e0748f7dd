"""Exponents of a softmax are recognised if they cannot exceed 0."""

from neurald.drivers.compiler.analysis.weight_exponent import is_weight_exponent
from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, load, maximum, reduce
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

_VALUE, _OTHER = Value((4, 9), Scalar.FLOAT32), Value((4, 9), Scalar.FLOAT32)
_ROW, _AT, _ALONG = axis(4), axis(9), axis(9)


def _largest(value: Value, operation: ReductionOp = ReductionOp.MAXIMUM) -> Expression:
    return reduce(operation, (_ALONG,), load(value, (_ROW, _ALONG)))


def _element(value: Value, at: Axis = _AT) -> Expression:
    return load(value, (_ROW, at))


def test_differences_from_the_largest_element() -> None:
    difference = _element(_VALUE) - _largest(_VALUE)
    assert is_weight_exponent(difference)
    assert is_weight_exponent(difference * 0.125)
    scaled = reduce(ReductionOp.MAXIMUM, (_ALONG,), _element(_VALUE, _ALONG) * 2.0)
    assert is_weight_exponent(_element(_VALUE) * 2.0 - scaled)


def test_others_may_exceed_zero() -> None:
    difference = _element(_VALUE) - _largest(_VALUE)
    for other in (
        difference * -1.0,
        _element(_OTHER) - _largest(_VALUE),
        _element(_VALUE) - _largest(_VALUE, ReductionOp.MINIMUM),
        _largest(_VALUE) - _element(_VALUE),
        _element(_VALUE) * 2.0 - _largest(_VALUE),
        _element(_VALUE) - maximum(_largest(_VALUE), 0.0),
        _element(_VALUE),
    ):
        assert not is_weight_exponent(other)
