"""32-bit products of factors that fit in 16 bits, by the faster pairwise multiply-add of words."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Apply
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.int64_narrowing import bounds_of
from neurald.drivers.cpu.emit.vector import Vector

#: The multiply-add instruction for 16-bit words, by register size in bytes.
_NAMES = {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd", 64: "avx512.pmaddw.d.512"}
_SHORT = (-(2**15), 2**15 - 1)


def is_short_product(v: Vector, expression: Apply) -> bool:
    """Returns True if `short_product` computes this MULTIPLY of INT32.

    One factor must fit in 16 bits, the other one in 15 bits without a sign.
    """
    if v.target.machine != "x86_64" or expression.type is not Scalar.INT32 or v.lanes < 4:
        return False
    bounds = [bounds_of(each) for each in expression.arguments]
    is_short = all(low >= _SHORT[0] and high <= _SHORT[1] for low, high in bounds)
    return is_short and any(low >= 0 for low, _ in bounds)


def short_product(v: Vector, factors: Sequence[str]) -> str:
    """Multiplies vectors of i32 by their low words, since one factor's high words are 0."""
    step = min(v.lanes, v.target.vector_bytes // 4)
    words, result = f"<{2 * step} x i16>", f"<{step} x i32>"
    name = f"@llvm.x86.{_NAMES[4 * step]}"
    v.code.declarations.add(f"declare {result} {name}({words}, {words})")
    parts = []
    for pair in zip(*(v.parts("i32", each, step) for each in factors), strict=True):
        halves = [v.code.value(f"bitcast {result} {part} to {words}") for part in pair]
        parts.append(v.code.value(f"call {result} {name}({', '.join(f'{words} {each}' for each in halves)})"))
    return v.joined("i32", parts)
