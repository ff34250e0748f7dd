"""Quantises floats to bytes on x86, in words instead of numbers of 32 bits as soon as possible.

With h + l the doubled inverse of the divisor c in two parts, d = x·h + x·l is almost always 2x / c
correctly rounded. Its whole part is packed to a word w, with saturation. Then the upper half of
w · (2^15 + 2), rounded by one instruction as (w · (2^14 + 1) + 2^14) / 2^15, is the nearest
integer to w / 2, with ties away from zero: the second addend is too small to matter, except that
it decides ties. Limits are those of packing.

NaN and quotients beyond 32 bits become the lowest word. A vector that has one is computed again
from limited numbers, and there a word that is doubled turns NaN to 0.
"""

from functools import lru_cache

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.quotients import (
    Floats,
    Quotient,
    clamped,
    fused,
    is_same_for,
    quotient_of,
)
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target

#: Sizes of registers that AVX2 and AVX-512 pack, each 128 bits on their own.
_REGISTER_BYTES = (32, 64)
_PACKED_BYTES = 16
#: Results are below this, so that they fit in words when they are multiplied by 4.
_MAX_INTEGER = 4096
#: The lowest word, and half of what words are multiplied by before their upper half is taken.
_LOWEST, _HALF_WORD = -(1 << 15), 1 << 14


class ByteQuotient(Struct, frozen=True, kw_only=True):
    """A quotient, plus an integer, as a byte.

    Attributes:
        quotient: the quotient.
        offset: the integer; the sum fits in the type.
        type: INT8 or UINT8.
    """

    quotient: Quotient
    offset: int
    type: Scalar


def byte_quotient_of(expression: Apply, target: Target) -> ByteQuotient | None:
    """Matches an expression that `byte_quotient` computes on a target; otherwise None."""
    is_byte = expression.op is Op.CONVERT and expression.type in (Scalar.INT8, Scalar.UINT8)
    if not is_byte or target.machine != "x86_64" or target.vector_bytes not in _REGISTER_BYTES:
        return None
    found, offset = quotient_of(expression), 0
    if found is None:
        value = expression.arguments[0]
        if isinstance(value, Apply) and value.op is Op.ADD and isinstance(value.arguments[1], Constant):
            offset, value = int(value.arguments[1].value), value.arguments[0]
        if not isinstance(value, Apply) or value.type is not Scalar.INT32:
            return None
        found = quotient_of(value)
    if found is None or max(abs(found.low), abs(found.high)) > _MAX_INTEGER:
        return None
    info = np.iinfo(expression.type.dtype.name)
    if found.low + offset < info.min or found.high + offset > info.max:
        return None
    if not _is_same(found.divisor, found.low, found.high):
        return None
    return ByteQuotient(quotient=found, offset=offset, type=expression.type)


def has_byte_quotients(v: Vector) -> bool:
    """Returns True if there are enough lanes for `byte_quotient`: two registers of floats."""
    return v.lanes >= 2 * _float_lanes(v)


def byte_quotient(v: Vector, of: ByteQuotient, x: str) -> str:
    """Computes a byte quotient in the lanes of at least two registers of floats, as i8."""
    words = _words(v, of, x)
    lanes = Vector(v.code, v.target, 2 * _float_lanes(v))
    least = words[0]
    for each in words[1:]:
        least = lanes.call("llvm.smin", "i16", least, each)
    is_rare = lanes.any_lane(lanes.compare("eq", "i16", least, lanes.number("i16", _LOWEST)))
    found = _bytes(v, of, [_rounded(lanes, of, each, packs=len(words) > 1) for each in words])

    def limited() -> str:
        # A new name, so that nothing of this is computed before the condition.
        x_again = v.code.fresh(f"freeze {v.type('float')} {x}")
        again = _words(v, of, clamped(v, of.quotient, x_again))
        return _bytes(v, of, [_rounded_number(lanes, of, each) for each in again])

    return v.code.replaced(is_rare, v.type("i8"), found, limited)


def _words(v: Vector, of: ByteQuotient, x: str) -> list[str]:
    """Returns the whole parts of doubled quotients, in registers of words."""
    high, low = _doubled_inverse(of.quotient.divisor)
    small = v.binary("fmul", "float", x, v.number("float", low))
    doubled = v.fma("float", x, v.number("float", high), small)
    floats = _float_lanes(v)
    whole = [_truncated(v, floats, part) for part in v.parts("float", doubled, floats)]
    return [
        _packed(v, "packssdw", "i32", floats, *pair) for pair in zip(whole[::2], whole[1::2], strict=True)
    ]


def _bytes(v: Vector, of: ByteQuotient, words: list[str]) -> str:
    """Returns registers of words as bytes, limited to their type, in the order of the lanes."""
    floats = _float_lanes(v)
    if len(words) == 1:
        # All are in the range of bytes already.
        return _ordered(
            v, Vector(v.code, v.target, 2 * floats).cast("trunc", "i16", words[0], "i8"), 2 * floats, 2
        )
    pack = "packsswb" if of.type is Scalar.INT8 else "packuswb"
    bytes_ = [
        _ordered(v, _packed(v, pack, "i16", 2 * floats, *pair), 4 * floats, 4)
        for pair in zip(words[::2], words[1::2], strict=True)
    ]
    return v.joined("i8", bytes_)


def _float_lanes(v: Vector) -> int:
    return v.target.lanes(Scalar.FLOAT32.size_bytes)


def _truncated(v: Vector, floats: int, part: str) -> str:
    """Truncates a register of floats; NaN and what does not fit become the lowest integer."""
    kind, result = f"<{floats} x float>", f"<{floats} x i32>"
    if v.target.vector_bytes == _REGISTER_BYTES[0]:
        return _called(v, "avx.cvtt.ps2dq.256", result, (kind, part))
    current = "4"  # The rounding mode, which truncation ignores.
    arguments = (kind, part), (result, "zeroinitializer"), (f"i{floats}", "-1"), ("i32", current)
    return _called(v, "avx512.mask.cvttps2dq.512", result, *arguments)


def _packed(v: Vector, name: str, element: str, lanes: int, first: str, second: str) -> str:
    """Packs two registers to one of elements of half the size, each 128 bits on their own."""
    kind, half = f"<{lanes} x {element}>", f"i{int(element[1:]) // 2}"
    is_short = v.target.vector_bytes == _REGISTER_BYTES[0]
    full = f"avx2.{name}" if is_short else f"avx512.{name}.512"
    return _called(v, full, f"<{2 * lanes} x {half}>", (kind, first), (kind, second))


def _rounded(words: Vector, of: ByteQuotient, doubled: str, *, packs: bool) -> str:
    """Rounds halves of words to the nearest integers, adds an integer, and limits the sums."""
    kind = words.type("i16")
    is_short = words.target.vector_bytes == _REGISTER_BYTES[0]
    name = "avx2.pmul.hr.sw" if is_short else "avx512.pmul.hr.sw.512"
    factor = words.number("i16", _HALF_WORD + 1)
    total = _called(words, name, kind, (kind, doubled), (kind, factor))
    total = words.binary("add", "i16", total, words.number("i16", of.offset))
    low, high = (int(each) + of.offset for each in (of.quotient.low, of.quotient.high))
    info = np.iinfo(of.type.dtype.name)
    if packs and (low, high) == (info.min, info.max):
        return total
    total = words.call("llvm.smax", "i16", total, words.number("i16", low))
    return words.call("llvm.smin", "i16", total, words.number("i16", high))


def _rounded_number(words: Vector, of: ByteQuotient, doubled: str) -> str:
    """Rounds halves of words that are limited, and adds an integer; the lowest word becomes 0."""
    doubled = words.binary("shl", "i16", doubled, words.number("i16", 1))
    sign = words.binary("ashr", "i16", doubled, words.number("i16", 15))
    total = words.binary("add", "i16", doubled, sign)
    total = words.binary("add", "i16", total, words.number("i16", 4 * of.offset + 2))
    return words.binary("ashr", "i16", total, words.number("i16", 2))


def _ordered(v: Vector, packed: str, count: int, registers: int) -> str:
    """Orders bytes: each 128 bits of floats have four of each of the packed registers."""
    groups, parts = count // 4, v.target.vector_bytes // _PACKED_BYTES
    kind, source = f"<{groups} x i32>", f"<{count} x i8>"
    order = ", ".join(f"i32 {at % parts * registers + at // parts}" for at in range(groups))
    whole = v.code.value(f"bitcast {source} {packed} to {kind}")
    ordered = v.code.value(f"shufflevector {kind} {whole}, {kind} poison, <{groups} x i32> <{order}>")
    return v.code.value(f"bitcast {kind} {ordered} to {source}")


def _called(v: Vector, name: str, result: str, *arguments: tuple[str, str]) -> str:
    v.code.declarations.add(f"declare {result} @llvm.x86.{name}({', '.join(kind for kind, _ in arguments)})")
    given = ", ".join(f"{kind} {argument}" for kind, argument in arguments)
    return v.code.value(f"call {result} @llvm.x86.{name}({given})")


def _doubled_inverse(divisor: float) -> tuple[float, float]:
    """Returns the floats whose sum is almost 2 / divisor."""
    high = float(np.float32(2 / divisor))
    return high, float(np.float32(2 / divisor - high))


@lru_cache(maxsize=256)
def _is_same(divisor: float, low: float, high: float) -> bool:
    """Returns True if `byte_quotient` equals a division for every float."""
    first, second = map(np.float32, _doubled_inverse(divisor))

    def rounded(x: Floats) -> Floats:
        doubled = np.trunc(fused(x, first, x * second))
        result: Floats = np.sign(doubled) * np.floor((np.abs(doubled) + 1) / 2)
        return result

    return is_same_for(divisor, low, high, rounded)
