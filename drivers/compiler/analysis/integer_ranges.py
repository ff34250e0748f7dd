"""Computes bounds of integer expressions from their types, constants and operations.

A range bounds the mathematical result. An expression that may wrap around has no range.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.single_rounding import match_rounded_once
from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.graph import Contraction, Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value

#: Lowest and highest exponent for which FIXED_POINT does not exceed 64 bits.
_FIXED_POINT_EXPONENTS = (-31, 31)
#: The same for `rounded_once`.
_ROUNDED_ONCE_EXPONENTS = (-31, 15)
_MAX_SHIFT = 31

_constant_ranges: "WeakKeyDictionary[Value, IntegerRange]" = WeakKeyDictionary()


class IntegerRange(Struct, frozen=True):
    """Inclusive bounds of an integer."""

    low: int
    high: int

    def fits(self, kind: Scalar) -> bool:
        """Returns True if an integer type can hold the whole range."""
        whole = range_of_type(kind)
        return whole.low <= self.low and self.high <= whole.high

    def __add__(self, other: "IntegerRange") -> "IntegerRange":
        return IntegerRange(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "IntegerRange") -> "IntegerRange":
        return IntegerRange(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "IntegerRange") -> "IntegerRange":
        return _spanning(a * b for a in (self.low, self.high) for b in (other.low, other.high))

    def __lshift__(self, other: "IntegerRange") -> "IntegerRange":
        return _spanning(a << b for a in (self.low, self.high) for b in (other.low, other.high))

    def __rshift__(self, other: "IntegerRange") -> "IntegerRange":
        return _spanning(a >> b for a in (self.low, self.high) for b in (other.low, other.high))


def _spanning(numbers: Iterable[int]) -> IntegerRange:
    """Returns the smallest range that contains these numbers."""
    values = list(numbers)
    return IntegerRange(min(values), max(values))


@cache
def range_of_type(kind: Scalar) -> IntegerRange:
    """Returns the range of an integer type."""
    info = np.iinfo(kind.dtype.name)
    return IntegerRange(int(info.min), int(info.max))


def range_of_value(value: Value) -> IntegerRange:
    """Returns the range of an integer value's elements; a constant is scanned once."""
    if value.constant is None or not value.constant.size:
        return range_of_type(value.type)
    if value not in _constant_ranges:
        _constant_ranges[value] = IntegerRange(int(value.constant.min()), int(value.constant.max()))
    return _constant_ranges[value]


def range_of_accumulator(contraction: Contraction) -> IntegerRange:
    """Returns the range of the results of an integer contraction.

    This is the whole range of their type if they may wrap around.
    """
    first, second = contraction.inputs
    if isinstance(contraction, Convolution | DepthwiseConvolution):
        zeros = contraction.input_zero, contraction.weights_zero
    else:
        zeros = contraction.left_zero, contraction.right_zero
    # The first operand gets the range of its type: padding may differ from all of its elements.
    left, right = (
        whole - IntegerRange(zero, zero)
        for whole, zero in zip((range_of_type(first.type), range_of_value(second)), zeros, strict=True)
    )
    product = left * right
    # Zero is included, because elements of the padding contribute no products.
    result = IntegerRange(min(0, product.low) * contraction.depth, max(0, product.high) * contraction.depth)
    kind = contraction.output.type
    return result if result.fits(kind) else range_of_type(kind)


def fixed_point(value: int, mantissa: int, exponent: int, *, ties_up: bool) -> int:
    """Computes FIXED_POINT (or FIXED_POINT_UP with `ties_up`) of integers."""
    right = max(-exponent, 0)
    if exponent > 0:
        whole = range_of_type(Scalar.INT32)
        value = min(max(value << exponent, whole.low), whole.high)
    product = value * mantissa + (1 << 30)
    if right:
        product += (1 << (30 + right)) - (1 << 31 if value < 0 and not ties_up else 0)
    return product >> (31 + right)


class RangeAnalysis:
    """Computes and caches the ranges of expressions.

    Args:
        accumulator: the range of the contraction's results, for expressions of its epilogue.
    """

    def __init__(self, accumulator: IntegerRange | None = None) -> None:
        self._accumulator = accumulator
        self._ranges: dict[Expression, IntegerRange | None] = {}

    def of(self, root: Expression) -> IntegerRange | None:
        """Returns the range of an integer expression; None if it is unknown or may wrap around."""
        if root not in self._ranges:
            for each in walk(root):
                if each not in self._ranges:
                    self._ranges[each] = self._range(each)
        return self._ranges[root]

    def _range(self, expression: Expression) -> IntegerRange | None:
        kind = expression.type
        if kind is Scalar.INDEX:
            return (
                IntegerRange(expression.low, expression.high) if expression.low <= expression.high else None
            )
        if not kind.is_integer:
            return None
        if isinstance(expression, Constant):
            return IntegerRange(int(expression.value), int(expression.value))
        if isinstance(expression, AccumulatorRef):
            return self._accumulator
        if isinstance(expression, Load):
            return self._loaded(expression)
        if not isinstance(expression, Apply):
            return None
        parts = match_rounded_once(expression)
        if parts is not None:
            result = _rounded_once_range(*(self._ranges[each] for each in parts))
            return result if result is not None and result.fits(kind) else None
        operands = [self._ranges[each] for each in expression.operands]
        known = [each for each in operands if each is not None]
        result = _applied_range(expression.op, known) if len(known) == len(operands) else None
        return result if result is not None and result.fits(kind) else None

    def _loaded(self, load: Load) -> IntegerRange | None:
        result = range_of_value(load.value)
        if load.otherwise is None:
            return result
        other = self._ranges[load.otherwise]
        return (
            None if other is None else IntegerRange(min(result.low, other.low), max(result.high, other.high))
        )


def _applied_range(op: Op, operands: list[IntegerRange]) -> IntegerRange | None:
    if op in (Op.FIXED_POINT, Op.FIXED_POINT_UP):
        value, mantissa, exponent = operands
        return _fixed_point_range(value, mantissa, exponent, ties_up=op is Op.FIXED_POINT_UP)
    if op in (Op.SHIFT_LEFT, Op.SHIFT_RIGHT) and not (
        operands[1].low >= 0 and operands[1].high <= _MAX_SHIFT
    ):
        return None
    function = _FUNCTIONS.get(op)
    return None if function is None else function(*operands)


def _fixed_point_range(
    value: IntegerRange, mantissa: IntegerRange, exponent: IntegerRange, *, ties_up: bool
) -> IntegerRange | None:
    """Returns the range of FIXED_POINT; None if it may exceed 64 bits.

    FIXED_POINT is monotonic in each of its three operands, so the bounds of the operands give the
    extremes.
    """
    if not value.fits(Scalar.INT32) or not mantissa.fits(Scalar.INT32) or mantissa.low < 0:
        return None
    if exponent.low < _FIXED_POINT_EXPONENTS[0] or exponent.high > _FIXED_POINT_EXPONENTS[1]:
        return None
    return _spanning(
        fixed_point(v, m, e, ties_up=ties_up)
        for v in (value.low, value.high)
        for m in (mantissa.low, mantissa.high)
        for e in (exponent.low, exponent.high)
    )


def _rounded_once_range(
    value: IntegerRange | None, mantissa: IntegerRange | None, exponent: IntegerRange | None
) -> IntegerRange | None:
    """Returns the range of `rounded_once`; see `_fixed_point_range`."""
    if value is None or mantissa is None or exponent is None or mantissa.low < 0:
        return None
    if (
        not value.fits(Scalar.INT32)
        or exponent.low < _ROUNDED_ONCE_EXPONENTS[0]
        or exponent.high > _ROUNDED_ONCE_EXPONENTS[1]
    ):
        return None
    return _spanning(
        (v * m + (1 << (30 - e))) >> (31 - e)
        for v in (value.low, value.high)
        for m in (mantissa.low, mantissa.high)
        for e in (exponent.low, exponent.high)
    )


_FUNCTIONS: Mapping[Op, Callable[..., IntegerRange]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.SHIFT_LEFT: lambda a, b: a << b,
    Op.SHIFT_RIGHT: lambda a, b: a >> b,
    Op.MINIMUM: lambda a, b: IntegerRange(min(a.low, b.low), min(a.high, b.high)),
    Op.MAXIMUM: lambda a, b: IntegerRange(max(a.low, b.low), max(a.high, b.high)),
    Op.CONVERT: lambda a: a,
}
