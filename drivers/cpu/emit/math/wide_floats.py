"""AVX-512 float instructions, on vectors of any number of registers.

They save special cases for infinities, denormals and NaN.
"""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.vector import Vector

_BYTES = 64
_LANES = 16
_REGISTER = "<16 x float>"
_ALL = "i16 -1"
#: Rounding by the current mode.
_ROUNDING = "i32 4"
#: Operand of `significand`: result in [0.75, 1.5), and NaN for negative numbers.
_FROM_THREE_QUARTERS = "i32 15"


def has_wide_floats(v: Vector, element: str) -> bool:
    """Returns True if the functions below support values of this type."""
    return element == "float" and v.target.vector_bytes == _BYTES and v.lanes % _LANES == 0


def scaled(v: Vector, x: str, exponent: str) -> str:
    """Computes x·2^n for an integral float n with a single rounding."""
    return _in_registers(
        v, "mask.scalef.ps", (x, exponent), f"{_REGISTER} zeroinitializer, {_ALL}, {_ROUNDING}"
    )


def exponent_of(v: Vector, x: str) -> str:
    """Returns the n of |x| = m·2^n with 1 ≤ m < 2, as a float; -∞ for 0, ∞ for ∞."""
    return _in_registers(v, "mask.getexp.ps", (x,), f"{_REGISTER} zeroinitializer, {_ALL}, {_ROUNDING}")


def significand(v: Vector, x: str) -> str:
    """Returns the m of x = m·2^n with 0.75 ≤ m < 1.5; 1 for 0 and ∞, NaN for negative numbers."""
    rest = f"{_FROM_THREE_QUARTERS}, {_REGISTER} zeroinitializer, {_ALL}, {_ROUNDING}"
    return _in_registers(v, "mask.getmant.ps", (x,), rest)


def inverse_root(v: Vector, x: str) -> str:
    """Computes 1 / √x with an error of at most 1 ULP."""
    estimate = _in_registers(v, "rsqrt14.ps", (x,), f"{_REGISTER} zeroinitializer, {_ALL}")
    root = v.binary("fmul", "float", x, estimate)
    error = v.fma("float", v.negate("float", root), estimate, v.number("float", 1))
    half = v.binary("fmul", "float", estimate, v.number("float", 0.5))
    better = v.fma("float", half, error, estimate)
    # For 0 and ∞ the estimate is exact, and the error is NaN.
    return v.select(v.compare("ord", "float", error, error), "float", better, estimate)


def truncated(v: Vector, x: str, *, keeps: str | None = None, others: str = "zeroinitializer") -> str:
    """Converts floats to i32 by truncation; NaN and what does not fit to -2^31.

    Args:
        v: receives the instructions.
        x: the floats.
        keeps: i1 of the lanes that are converted. None for all.
        others: what the others become, for each register: 16 lanes of i32.
    """
    integers = f"<{_LANES} x i32>"
    name = "@llvm.x86.avx512.mask.cvttps2dq.512"
    v.code.declarations.add(f"declare {integers} {name}({_REGISTER}, {integers}, i16, i32)")
    values = v.parts("float", x, _LANES)
    masks = [_ALL] * len(values)
    if keeps is not None:
        kinds = f"<{_LANES} x i1>"
        masks = [
            f"i16 {v.code.value(f'bitcast {kinds} {part} to i16')}" for part in v.parts("i1", keeps, _LANES)
        ]
    parts = [
        v.code.value(f"call {integers} {name}({_REGISTER} {part}, {integers} {others}, {mask}, {_ROUNDING})")
        for part, mask in zip(values, masks, strict=True)
    ]
    return v.joined("i32", parts)


def _in_registers(v: Vector, intrinsic: str, values: Sequence[str], rest: str) -> str:
    """Calls an intrinsic for each register.

    Args:
        v: receives the instructions.
        intrinsic: its name, without the common prefix and suffix.
        values: floats; the first operands.
        rest: the other operands, with types.
    """
    name = f"@llvm.x86.avx512.{intrinsic}.512"
    kinds = [_REGISTER] * len(values)
    kinds += [each if each.startswith("<") else each.split()[0] for each in _types(rest)]
    v.code.declarations.add(f"declare {_REGISTER} {name}({', '.join(kinds)})")
    results = []
    for parts in zip(*(v.parts("float", each, _LANES) for each in values), strict=True):
        operands = ", ".join(f"{_REGISTER} {part}" for part in parts)
        results.append(v.code.value(f"call {_REGISTER} {name}({operands}, {rest})"))
    return v.joined("float", results)


def _types(operands: str) -> list[str]:
    return [each.rpartition(" ")[0] for each in operands.split(", ")]
