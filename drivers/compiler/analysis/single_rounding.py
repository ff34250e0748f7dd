"""Builds and recognises products with quantised multipliers that are rounded once."""

from neurald.drivers.compiler.ir.expression import Apply, Expression, constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar

#: The value is split here, because the whole product may need more than 63 bits.
_LOW_BITS = 16


def rounded_once(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
    """Rounds value × mantissa × 2^(exponent - 31) to nearest, ties upwards.

    Args:
        value: INT64, with a magnitude below 2^47.
        mantissa: INT32.
        exponent: INT32, from -33 to 15.

    Returns:
        The product as INT64.
    """
    factor, power = mantissa.to(Scalar.INT64), exponent.to(Scalar.INT64)
    low = (value & 0xFFFF) * factor + (constant(1, Scalar.INT64) << (30 - power))
    return ((value >> _LOW_BITS) * factor + (low >> _LOW_BITS)) >> (15 - power)


def match_rounded_once(expression: Expression) -> tuple[Expression, Expression, Expression] | None:
    """Returns the value, mantissa and exponent of a `rounded_once` expression, or None."""
    total, amount = _operands(expression, Op.SHIFT_RIGHT)
    high, _ = _operands(total, Op.ADD)
    upper, factor = _operands(high, Op.MULTIPLY)
    value, _ = _operands(upper, Op.SHIFT_RIGHT)
    _, power = _operands(amount, Op.SUBTRACT)
    if value is None or factor is None or power is None:
        return None
    if not _is_widened(factor) or not _is_widened(power):
        return None
    mantissa, exponent = factor.operands[0], power.operands[0]
    # Interning makes equal expressions the same object.
    return (value, mantissa, exponent) if rounded_once(value, mantissa, exponent) is expression else None


def _operands(expression: Expression | None, op: Op) -> tuple[Expression, Expression] | tuple[None, None]:
    if not isinstance(expression, Apply) or expression.op is not op or expression.type is not Scalar.INT64:
        return None, None
    first, second = expression.arguments
    return first, second


def _is_widened(expression: Expression) -> bool:
    """Returns True for an INT32 converted to INT64."""
    is_converted = isinstance(expression, Apply) and expression.op is Op.CONVERT
    return is_converted and expression.operands[0].type is Scalar.INT32
