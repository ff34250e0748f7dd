"""Sums of bytes in lanes, for which two bytes beside each other are added as one number of 16 bits.

What is above the lower byte is added separately; the rest is the sum of lower bytes. Each sum of at
most 257 bytes fits 16 bits. That takes half of the instructions of 32-bit sums, and no conversion
until such sums are complete.
"""

import math
from typing import Final

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.vector import Vector

#: Number of bytes that one sum of 16 bits holds.
MAX_ROWS: Final = 257
#: Rows that are added in one iteration of a loop.
UNROLLED: Final = 8
#: Fewer bytes are not worth the conversion of two sums.
_MIN_ROWS: Final = 16
#: Fewer bytes take less than a register.
_MIN_LANES: Final = 16
#: What makes signed bytes numbers without a sign that are larger by this.
SIGN: Final = 0x80


class ColumnSum(Struct, frozen=True, kw_only=True):
    """A sum of bytes.

    Attributes:
        source: a byte of the sum.
        bias: what is subtracted from the whole sum of unsigned numbers, modulo 2^32.
    """

    source: Load
    bias: int

    @staticmethod
    def start(v: Vector) -> tuple[str, str]:
        """Returns sums of nothing: of pairs, and of their upper bytes."""
        zero = _pairs(v).number("i16", 0)
        return zero, zero

    def added(self, v: Vector, totals: tuple[str, str], value: str) -> tuple[str, str]:
        """Adds a byte in every lane."""
        pairs = _pairs(v)
        if self.source.type is Scalar.INT8:
            value = v.binary("xor", "i8", value, v.number("i8", SIGN))
        value = v.code.value(f"bitcast {v.type('i8')} {value} to {pairs.type('i16')}")
        upper = pairs.binary("lshr", "i16", value, pairs.number("i16", 8))
        whole, uppers = totals
        return pairs.binary("add", "i16", whole, value), pairs.binary("add", "i16", uppers, upper)

    @staticmethod
    def widened(v: Vector, totals: tuple[str, str]) -> str:
        """Returns the sums in all lanes, i32."""
        pairs, (whole, uppers) = _pairs(v), totals
        above = pairs.binary("shl", "i16", uppers, pairs.number("i16", 8))
        lowers = pairs.binary("sub", "i16", whole, above)
        order = ", ".join(f"i32 {lane // 2 + lane % 2 * pairs.lanes}" for lane in range(v.lanes))
        kind = pairs.type("i16")
        both = v.code.value(f"shufflevector {kind} {lowers}, {kind} {uppers}, <{v.lanes} x i32> <{order}>")
        return v.cast("zext", "i16", both, "i32")


def _pairs(v: Vector) -> Vector:
    return Vector(v.code, v.target, v.lanes // 2)


def column_sum_of(expression: Reduce, along: Axis, lanes: int) -> ColumnSum | None:
    """Matches a sum of bytes that are contiguous along another axis; None if it is another one."""
    if expression.reduction is not ReductionOp.SUM or expression.type is not Scalar.INT32:
        return None
    if lanes < _MIN_LANES or has_extents(axis.extent for axis in expression.axes):
        return None
    body, bias = expression.body, 0
    if isinstance(body, Apply) and body.op is Op.SUBTRACT and isinstance(body.operands[1], Constant):
        bias, body = int(body.operands[1].value), body.operands[0]
    if not isinstance(body, Apply) or body.op is not Op.CONVERT:
        return None
    source: Expression = body.operands[0]
    if not isinstance(source, Load) or source.guard is not None:
        return None
    if source.type not in (Scalar.INT8, Scalar.UINT8) or stride_along(offset_of(source), along) != 1:
        return None
    count = math.prod(axis.extent for axis in expression.axes)
    if count < _MIN_ROWS:
        return None
    total, limit = (bias + (SIGN if source.type is Scalar.INT8 else 0)) * count, 1 << 32
    return ColumnSum(source=source, bias=(total + limit // 2) % limit - limit // 2)
