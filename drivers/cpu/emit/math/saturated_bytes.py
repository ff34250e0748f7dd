"""Converts floats that are limited to the range of bytes, with AVX-512 instructions that saturate.

Packing limits integers itself, so only floats above the range must be limited before: those below
it become -2^31 at most, which is packed to the lowest byte. If an integer is added to floats that
are rounded, as the zero point of quantised rows is, it is added to the packed words of two
registers instead, with saturation.
"""

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.packed_bytes import has_packed_bytes, in_order, packed_register
from neurald.drivers.cpu.emit.math.rounding import before_truncation
from neurald.drivers.cpu.emit.math.wide_floats import truncated
from neurald.drivers.cpu.emit.vector import Vector

#: Limits of bytes.
_LIMITS = {Scalar.INT8: (-128.0, 127.0), Scalar.UINT8: (0.0, 255.0)}
#: The largest word. To it, and to floats above it, a byte is added with the same result.
_MAX_WORD = 32767


class MovedByte(Struct, frozen=True, kw_only=True):
    """A FLOAT32, rounded half away from zero, plus an INT8.

    Attributes:
        value: the FLOAT32 before it is rounded.
        offset: the INT8.
    """

    value: Expression
    offset: Expression


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


def moved_byte(limited: Expression) -> MovedByte | None:
    """Matches a result of `limited_byte` that is a rounded FLOAT32 plus an INT8."""
    if not isinstance(limited, Apply) or limited.op is not Op.ADD:
        return None
    rounded, added = limited.arguments
    if not isinstance(rounded, Apply) or not isinstance(added, Apply):
        return None
    if rounded.op is not Op.ROUND_AWAY or added.op is not Op.CONVERT:
        return None
    (offset,) = added.arguments
    return MovedByte(value=rounded.arguments[0], offset=offset) if offset.type is Scalar.INT8 else None


def moved_bytes(v: Vector, x: str, offset: str, kind: Scalar) -> str:
    """Rounds floats half away from zero and adds a byte, limited to the range of bytes; NaN to 0.

    Args:
        v: receives the instructions.
        x: the floats.
        offset: the byte, an i8 that all lanes share.
        kind: INT8 or UINT8.
    """
    high = v.number("float", _MAX_WORD)
    moved = before_truncation(v, "float", x)
    # NaN stays what it is, and becomes 0 when the byte is added.
    limited = v.select(v.compare("olt", "float", high, moved), "float", high, moved)
    single = Vector(v.code, v.target, 1)
    word = single.cast("sext", "i8", offset, "i16")
    registers, words = (Vector(v.code, v.target, v.lanes // each) for each in (4, 2))
    negative = single.cast("sext", "i16", single.binary("sub", "i16", "0", word), "i32")
    is_number = v.compare("ord", "float", limited, limited)
    whole = truncated(v, limited, keeps=is_number, others=registers.splat("i32", negative))
    parts = v.parts("i32", whole, registers.lanes)
    added = words.splat("i16", word)
    packed = [
        words.call("llvm.sadd.sat", "i16", packed_register(v, "packssdw", *pair), added)
        for pair in (parts[:2], parts[2:])
    ]
    return in_order(v, packed_register(v, "packsswb" if kind is Scalar.INT8 else "packuswb", *packed))
