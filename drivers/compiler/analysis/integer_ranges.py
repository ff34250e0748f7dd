"""Proven bounds of integer expressions, from types, constants and operations.

A range bounds the mathematical number, never its wrapped remainder: an expression that may wrap has
no range.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from neurald.drivers.compiler.analysis.single_rounding import parts_of
from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.graph import Contraction, Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value

#: Exponents of FIXED_POINT for which its definition stays within 64 bits.
_EXPONENTS = (-32, 31)
#: The same for a single-rounding product.
_EXPONENTS_ONCE = (-31, 15)
#: Largest shift of 32 bits.
_LONGEST_SHIFT = 31

_known: "WeakKeyDictionary[Value, Range]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive bounds."""

    low: int
    high: int

    def fits(self, kind: Scalar) -> bool:
        """Returns True if an integer type can hold the whole range."""
        whole = range_of_type(kind)
        return whole.low <= self.low and self.high <= whole.high

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Range") -> "Range":
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "Range") -> "Range":
        return _around(a * b for a in (self.low, self.high) for b in (other.low, other.high))

    def __lshift__(self, other: "Range") -> "Range":
        return _around(a << b for a in (self.low, self.high) for b in (other.low, other.high))

    def __rshift__(self, other: "Range") -> "Range":
        return _around(a >> b for a in (self.low, self.high) for b in (other.low, other.high))


def _around(numbers: Iterable[int]) -> Range:
    found = list(numbers)
    return Range(min(found), max(found))


def range_of_type(kind: Scalar) -> Range:
    """Returns the range of an integer type."""
    info = np.iinfo(kind.dtype.name)
    return Range(int(info.min), int(info.max))


def range_of_value(value: Value) -> Range:
    """Returns the range of an integer value's elements; a constant is scanned once."""
    if value.constant is None or not value.constant.size:
        return range_of_type(value.type)
    if value not in _known:
        _known[value] = Range(int(value.constant.min()), int(value.constant.max()))
    return _known[value]


def range_of_sums(contraction: Contraction) -> Range:
    """Returns the range of an integer contraction's sums as stored.

    The type's whole range if they may wrap.
    """
    first, second = contraction.inputs
    if isinstance(contraction, Convolution | DepthwiseConvolution):
        zeros = contraction.input_zero, contraction.weights_zero
    else:
        zeros = contraction.left_zero, contraction.right_zero
    # The first operand's range covers its whole type, because padding may be none of its elements.
    left, right = (
        found - Range(zero, zero)
        for found, zero in zip((range_of_type(first.type), range_of_value(second)), zeros, strict=True)
    )
    each = left * right
    # Zero is included, because padding may contribute no products.
    found = Range(min(0, each.low) * contraction.depth, max(0, each.high) * contraction.depth)
    kind = contraction.output.type
    return found if found.fits(kind) else range_of_type(kind)


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


class Ranges:
    """Computes and caches the ranges of expressions.

    Args:
        sums: range of the contraction's sums, in an epilogue.
    """

    def __init__(self, sums: Range | None = None) -> None:
        self._sums = sums
        self._found: dict[Expression, Range | None] = {}

    def of(self, root: Expression) -> Range | None:
        """Returns the range of an integer; None if it may wrap or is unknown."""
        for each in walk(root):
            if each not in self._found:
                self._found[each] = self._range(each)
        return self._found[root]

    def _range(self, expression: Expression) -> Range | None:
        kind = expression.type
        if kind is Scalar.INDEX:
            return Range(expression.low, expression.high) if expression.low <= expression.high else None
        if not kind.is_integer:
            return None
        if isinstance(expression, Constant):
            return Range(int(expression.value), int(expression.value))
        if isinstance(expression, AccumulatorRef):
            return self._sums
        if isinstance(expression, Load):
            return self._loaded(expression)
        if not isinstance(expression, Apply):
            return None
        parts = parts_of(expression)
        if parts is not None:
            found = _rounded_once(*(self._found[each] for each in parts))
            return found if found is not None and found.fits(kind) else None
        operands = [self._found[each] for each in expression.operands]
        known = [each for each in operands if each is not None]
        found = _applied(expression.op, known) if len(known) == len(operands) else None
        return found if found is not None and found.fits(kind) else None

    def _loaded(self, load: Load) -> Range | None:
        found = range_of_value(load.value)
        if load.otherwise is None:
            return found
        other = self._found[load.otherwise]
        return None if other is None else Range(min(found.low, other.low), max(found.high, other.high))


def _applied(op: Op, operands: list[Range]) -> Range | None:
    if op in (Op.FIXED_POINT, Op.FIXED_POINT_UP):
        value, mantissa, exponent = operands
        return _rescaled(value, mantissa, exponent, ties_up=op is Op.FIXED_POINT_UP)
    if op in (Op.SHIFT_LEFT, Op.SHIFT_RIGHT) and not (
        operands[1].low >= 0 and operands[1].high <= _LONGEST_SHIFT
    ):
        return None
    function = _FUNCTIONS.get(op)
    return None if function is None else function(*operands)


def _rescaled(value: Range, mantissa: Range, exponent: Range, *, ties_up: bool) -> Range | None:
    """Returns the range of a product with a quantised multiplier.

    The product is monotonic in each of the three numbers, so its extremes lie at the corners.
    """
    if not value.fits(Scalar.INT32) or not mantissa.fits(Scalar.INT32) or mantissa.low < 0:
        return None
    if exponent.low < _EXPONENTS[0] or exponent.high > _EXPONENTS[1]:
        return None
    return _around(
        fixed_point(v, m, e, ties_up=ties_up)
        for v in (value.low, value.high)
        for m in (mantissa.low, mantissa.high)
        for e in (exponent.low, exponent.high)
    )


def _rounded_once(value: Range | None, mantissa: Range | None, exponent: Range | None) -> Range | None:
    """Returns the range of `rounded_once`; see `_rescaled`."""
    if value is None or mantissa is None or exponent is None or mantissa.low < 0:
        return None
    if (
        not value.fits(Scalar.INT32)
        or exponent.low < _EXPONENTS_ONCE[0]
        or exponent.high > _EXPONENTS_ONCE[1]
    ):
        return None
    return _around(
        (v * m + (1 << (30 - e))) >> (31 - e)
        for v in (value.low, value.high)
        for m in (mantissa.low, mantissa.high)
        for e in (exponent.low, exponent.high)
    )


_FUNCTIONS: Mapping[Op, Callable[..., Range]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.SHIFT_LEFT: lambda a, b: a << b,
    Op.SHIFT_RIGHT: lambda a, b: a >> b,
    Op.MINIMUM: lambda a, b: Range(min(a.low, b.low), min(a.high, b.high)),
    Op.MAXIMUM: lambda a, b: Range(max(a.low, b.low), max(a.high, b.high)),
    Op.CONVERT: lambda a: a,
}
