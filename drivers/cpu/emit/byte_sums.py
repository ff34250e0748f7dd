"""Sums of bytes by dot products with ones, each of which adds four bytes to each 32-bit sum."""

import math
from typing import Final

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target

#: Bytes that a dot product adds to each sum.
_GROUP: Final = 4
#: Maximum number of independent sums, which hides the latency of a dot product.
_REGISTERS: Final = 4
#: Bytes of the registers that the instruction takes.
_REGISTER_BYTES: Final = 64
_BITS: Final = 32


class ByteSum(Struct, frozen=True, kw_only=True):
    """A sum of bytes.

    Attributes:
        source: a byte of the sum.
        bias: what is subtracted from the whole sum, modulo 2^32.
        lanes: number of bytes that are added together.
    """

    source: Load
    bias: int
    lanes: int

    def sums(self, v: Vector) -> Vector:
        """Returns the lanes of the 32-bit sums."""
        return Vector(v.code, v.target, self.lanes // _GROUP)

    def added(self, v: Vector, total: str, value: str) -> str:
        """Adds bytes to the sums."""
        sums, width = self.sums(v), _REGISTER_BYTES // _GROUP
        one = Vector(v.code, v.target, width)
        whole, bytes_ = one.type("i32"), f"<{_REGISTER_BYTES} x i8>"
        name = "@llvm.x86.avx512.vpdpbusd.512"
        v.code.declarations.add(f"declare {whole} {name}({whole}, {bytes_}, {bytes_})")
        parts = []
        for first in range(0, self.lanes, _REGISTER_BYTES):
            known = _part(sums, "i32", total, first // _GROUP, width)
            found = _part(v, "i8", value, first, _REGISTER_BYTES)
            # The first factor is unsigned, the second one signed.
            factors = [found, "splat (i8 1)"]
            if self.source.type is Scalar.INT8:
                factors.reverse()
            arguments = ", ".join(f"{bytes_} {each}" for each in factors)
            parts.append(v.code.fresh(f"call {whole} {name}({whole} {known}, {arguments})"))
        while len(parts) > 1:
            kind = f"<{width} x i32>"
            order = ", ".join(f"i32 {lane}" for lane in range(2 * width))
            parts = [
                v.code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{2 * width} x i32> <{order}>")
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]


def byte_sum_of(expression: Reduce, along: Axis, target: Target) -> ByteSum | None:
    """Matches a sum of contiguous bytes; None if it is another reduction, or of few."""
    if expression.reduction is not ReductionOp.SUM or expression.type is not Scalar.INT32:
        return None
    can_add = target.has_byte_dots and target.vector_bytes == _REGISTER_BYTES
    if not can_add or has_extents(axis.extent for axis in expression.axes):
        return None
    body, bias = expression.body, 0
    if isinstance(body, Apply) and body.op is Op.SUBTRACT and isinstance(body.operands[1], Constant):
        count = math.prod(axis.extent for axis in expression.axes)
        bias, body = int(body.operands[1].value) * count, body.operands[0]
    if not isinstance(body, Apply) or body.op is not Op.CONVERT:
        return None
    source: Expression = body.operands[0]
    if not isinstance(source, Load) or source.guard is not None:
        return None
    is_contiguous = stride_along(offset_of(source), along) == 1
    if source.type not in (Scalar.INT8, Scalar.UINT8) or not is_contiguous:
        return None
    registers = _REGISTERS
    while registers > 1 and registers * _REGISTER_BYTES > along.extent:
        registers //= 2
    if along.extent < _REGISTER_BYTES:
        return None
    limit = 1 << _BITS
    return ByteSum(
        source=source,
        bias=(bias + limit // 2) % limit - limit // 2,
        lanes=registers * _REGISTER_BYTES,
    )


def _part(v: Vector, element: str, name: str, first: int, count: int) -> str:
    """Returns some consecutive lanes of a vector."""
    if v.lanes == count:
        return name
    order = ", ".join(f"i32 {first + lane}" for lane in range(count))
    kind = v.type(element)
    return v.code.fresh(f"shufflevector {kind} {name}, {kind} poison, <{count} x i32> <{order}>")
