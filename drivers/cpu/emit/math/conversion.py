"""Conversions between types, by the rules of `neurald.drivers.compiler.ir.expression`."""

import math

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.integers import is_signed, resized
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float, saturated, to_odd_float
from neurald.drivers.cpu.emit.vector import Vector


def converted(v: Vector, expression: Apply, argument: tuple[str, str], element: str) -> str:
    """Applies a CONVERT.

    Args:
        v: receives the instructions.
        expression: the conversion.
        argument: the converted number, with its LLVM type.
        element: the LLVM type of the result.
    """
    source, kind = expression.arguments[0].type, expression.type
    width, text = argument
    if kind is Scalar.BOOL:
        if source is Scalar.BOOL:
            return text
        condition = "une" if source.is_float else "ne"
        return v.compare(condition, width, text, v.number(width, 0))
    if source.is_float:
        return _float_converted(v, expression, argument, element)
    if not kind.is_float:
        if int(width[1:]) >= int(element[1:]):
            return resized(v, argument, element)
        return v.cast("sext" if is_signed(source) else "zext", width, text, element)
    result = v.cast("sitofp" if is_signed(source) else "uitofp", width, text, element)
    return half_to_float(v, float_to_half(v, result)) if kind is Scalar.FLOAT16 else result


def _float_converted(v: Vector, expression: Apply, argument: tuple[str, str], element: str) -> str:
    kind = expression.type
    width, text = argument
    if not kind.is_float:
        bits, bounds = kind.size_bytes * 8, _bounds(expression.arguments[0])
        return saturated(v, width, text, bits, is_signed=is_signed(kind), bounds=bounds)
    if kind is Scalar.FLOAT16:
        narrow = to_odd_float(v, text) if width == "double" else text
        return half_to_float(v, float_to_half(v, narrow))
    if width == element:
        return text
    return v.cast("fpext" if element == "double" else "fptrunc", width, text, element)


def _bounds(expression: Expression) -> tuple[float, float]:
    """Returns the bounds of a float that follow from clamping, ignoring NaN."""
    low, high = -math.inf, math.inf
    while isinstance(expression, Apply) and expression.op in (Op.MINIMUM, Op.MAXIMUM):
        value, limit = expression.arguments
        if not isinstance(limit, Constant):
            break
        with np.errstate(over="ignore"):
            known = float(np.float64(limit.value).astype(limit.type.dtype))
        if expression.op is Op.MINIMUM:
            high = min(high, max(low, known))
        else:
            low = max(low, min(high, known))
        expression = value
    return low, high
