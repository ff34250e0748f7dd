"""Converts floats that are limited to the range of bytes, with AVX-512 instructions that saturate.

Packing limits integers itself, so only floats above the range must be limited before: those below
it become -2^31 at most, which is packed to the lowest byte.
"""

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.packed_bytes import has_packed_bytes, in_order, packed_register
from neurald.drivers.cpu.emit.math.wide_floats import truncated
from neurald.drivers.cpu.emit.vector import Vector

#: Limits of bytes.
_LIMITS = {Scalar.INT8: (-128.0, 127.0), Scalar.UINT8: (0.0, 255.0)}


def limited_byte(expression: Apply) -> Expression | None:
    """Matches a conversion to a byte of a FLOAT32 that is clamped to its whole range.

    Returns:
        The FLOAT32 before it is clamped, or None.
    """
    limits = _LIMITS.get(expression.type)
    if expression.op is not Op.CONVERT or limits is None:
        return None
    value = expression.arguments[0]
    for op, limit in zip((Op.MINIMUM, Op.MAXIMUM), reversed(limits), strict=True):
        if not isinstance(value, Apply) or value.op is not op or value.type is not Scalar.FLOAT32:
            return None
        value, bound = value.arguments
        if not isinstance(bound, Constant) or bound.value != limit:
            return None
    return value


def has_saturated_bytes(v: Vector) -> bool:
    """Returns True if there is a lane for each byte of a register, as `saturated_bytes` needs."""
    return has_packed_bytes(v.target) and v.lanes == v.target.vector_bytes


def saturated_bytes(v: Vector, x: str, kind: Scalar) -> str:
    """Converts floats to bytes by truncation, limited to their range; NaN to 0.

    Args:
        v: receives the instructions.
        x: the floats.
        kind: INT8 or UINT8.
    """
    high = v.number("float", _LIMITS[kind][1])
    # NaN stays what it is.
    limited = v.select(v.compare("olt", "float", high, x), "float", high, x)
    is_signed = kind is Scalar.INT8
    # -2^31, which NaN becomes otherwise, is 0 as an unsigned byte.
    whole = truncated(v, limited, keeps=v.compare("ord", "float", limited, limited) if is_signed else None)
    parts = v.parts("i32", whole, v.lanes // 4)
    words = [packed_register(v, "packssdw", *pair) for pair in (parts[:2], parts[2:])]
    return in_order(v, packed_register(v, "packsswb" if is_signed else "packuswb", *words))
