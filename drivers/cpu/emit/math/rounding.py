"""Rounding, float-to-integer conversion and float16, with and without dedicated instructions."""

from neurald.drivers.cpu.emit.math.integers import resized
from neurald.drivers.cpu.emit.math.wide_floats import has_wide_floats, truncated
from neurald.drivers.cpu.emit.vector import Vector

#: Floats from here on are integers.
_WHOLE = {"float": 2.0**23, "double": 2.0**52}
#: The largest float below one half.
BELOW_HALF = {"float": 0.5 - 2.0**-25, "double": 0.5 - 2.0**-54}


def rounded(v: Vector, element: str, x: str, mode: str) -> str:
    """Rounds a float to an integral float.

    Args:
        v: receives the instructions.
        element: float or double.
        x: the float.
        mode: floor, ceil, trunc, or rint (ties to even).
    """
    if v.target.has_fma:
        # Processors with FMA have rounding instructions; for others LLVM would call a function.
        return v.call(f"llvm.{mode}", element, x)
    magnitude = v.call("llvm.fabs", element, x)
    large = v.number(element, _WHOLE[element])
    nearest = v.binary("fsub", element, v.binary("fadd", element, magnitude, large), large)
    one = v.number(element, 1)
    if mode == "trunc":
        is_above = v.compare("ogt", element, nearest, magnitude)
        nearest = v.select(is_above, element, v.binary("fsub", element, nearest, one), nearest)
    result = v.call("llvm.copysign", element, nearest, x)
    if mode in ("floor", "ceil"):
        is_off = v.compare("ogt" if mode == "floor" else "olt", element, result, x)
        moved = v.binary("fsub" if mode == "floor" else "fadd", element, result, one)
        result = v.call("llvm.copysign", element, v.select(is_off, element, moved, result), x)
    return v.select(v.compare("olt", element, magnitude, large), element, result, x)


def round_away(v: Vector, element: str, x: str) -> str:
    """Rounds to the nearest integral float, ties away from zero."""
    return rounded(v, element, before_truncation(v, element, x), "trunc")


def before_truncation(v: Vector, element: str, x: str) -> str:
    """Moves a float away from zero, such that truncation then rounds it half away from zero."""
    half = v.call("llvm.copysign", element, v.number(element, BELOW_HALF[element]), x)
    return v.binary("fadd", element, x, half)


def saturated(
    v: Vector, element: str, x: str, bits: int, *, is_signed: bool, bounds: tuple[float, float] | None = None
) -> str:
    """Converts a float to an integer: truncates, saturates, and maps NaN to 0.

    Args:
        v: receives the instructions.
        element: float or double.
        x: the float.
        bits: size of the integer in bits.
        is_signed: True if the integer is signed.
        bounds: known bounds of `x`, unless it is NaN.
    """
    lowest = -(2 ** (bits - 1)) if is_signed else 0
    beyond = 2 ** (bits - 1) if is_signed else 2**bits
    is_inside = bounds is not None and bounds[0] >= lowest and bounds[1] < beyond
    if v.target.machine == "aarch64":
        limits = None if is_inside else (lowest, beyond - 1)
        return _saturated_by_instruction(v, element, x, bits, is_signed=is_signed, limits=limits)
    width = max(bits, 32)
    kind = f"i{width}"
    zero = v.number(element, 0.0)
    convert = "fptosi" if is_signed or bits < 32 else "fptoui"
    if is_inside:
        if bits < width and has_wide_floats(v, element):
            # NaN becomes -2^31, whose low bits are 0.
            return resized(v, (kind, truncated(v, x)), f"i{bits}")
        # NaN is replaced after the conversion, so that preceding rounding can be skipped.
        result = v.cast(convert, element, x, kind)
        result = v.select(v.compare("ord", element, x, x), kind, result, v.number(kind, 0))
    else:
        is_large = v.compare("oge", element, x, v.number(element, float(beyond)))
        is_small = v.compare("olt", element, x, v.number(element, float(lowest)))
        is_number = v.compare("ord", element, x, x)
        is_outside = v.binary("or", "i1", is_large, is_small)
        is_safe = v.select(is_outside, "i1", v.number("i1", 0), is_number)
        result = v.cast(convert, element, v.select(is_safe, element, x, zero), kind)
        result = v.select(is_large, kind, v.number(kind, beyond - 1), result)
        result = v.select(is_small, kind, v.number(kind, lowest), result)
    return result if bits == width else v.cast("trunc", kind, result, f"i{bits}")


def _saturated_by_instruction(
    v: Vector, element: str, x: str, bits: int, *, is_signed: bool, limits: tuple[int, int] | None
) -> str:
    """Converts as `saturated` does, with NEON's conversions to integers as wide as the float.

    Args:
        v, element, x, bits, is_signed: see `saturated`.
        limits: the range of the integer; None if `x` does not exceed it.
    """
    if element == "float" and bits > 32:
        element, x = "double", v.cast("fpext", "float", x, "double")
    width = 32 if element == "float" else 64
    kind, is_wide = f"i{width}", bits == width
    prefix = "fptosi" if is_signed or not is_wide else "fptoui"
    shape = "" if v.lanes == 1 else f"v{v.lanes}"
    name = f"@llvm.{prefix}.sat.{shape}{kind}.{shape}{'f32' if element == 'float' else 'f64'}"
    v.code.declarations.add(f"declare {v.type(kind)} {name}({v.type(element)})")
    result = v.code.value(f"call {v.type(kind)} {name}({v.type(element)} {x})")
    if is_wide:
        return result
    if limits is not None:
        result = v.call("llvm.smax", kind, result, v.number(kind, limits[0]))
        result = v.call("llvm.smin", kind, result, v.number(kind, limits[1]))
    return v.cast("trunc", kind, result, f"i{bits}")


def half_to_float(v: Vector, bits: str) -> str:
    """Converts float16, given by its bits, to float."""
    if v.target.has_half:
        return v.cast("fpext", "half", v.bitcast("i16", bits, "half"), "float")
    wide = v.cast("zext", "i16", bits, "i32")
    magnitude = v.binary("and", "i32", wide, v.number("i32", 0x7FFF))
    sign = v.binary("shl", "i32", v.binary("and", "i32", wide, v.number("i32", 0x8000)), v.number("i32", 16))
    shifted = v.binary("shl", "i32", magnitude, v.number("i32", 13))
    # Corrects for the difference of the exponent biases.
    scaled = v.binary("fmul", "float", v.bitcast("i32", shifted, "float"), v.number("float", 2.0**112))
    is_finite = v.compare("ult", "i32", magnitude, v.number("i32", 0x7C00))
    other = v.binary("or", "i32", shifted, v.number("i32", 0x7F800000))
    result = v.select(is_finite, "i32", v.bitcast("float", scaled, "i32"), other)
    return v.bitcast("i32", v.binary("or", "i32", result, sign), "float")


def float_to_half(v: Vector, x: str) -> str:
    """Converts a float to the bits of the nearest float16, ties to even."""
    if v.target.has_half:
        return v.bitcast("half", v.cast("fptrunc", "float", x, "half"), "i16")
    bits = v.bitcast("float", x, "i32")
    magnitude = v.binary("and", "i32", bits, v.number("i32", 0x7FFFFFFF))
    absolute = v.bitcast("i32", magnitude, "float")
    # Rounds denormal results by an addition whose last bit is that of denormal float16.
    nudged = v.bitcast("float", v.binary("fadd", "float", absolute, v.number("float", 0.5)), "i32")
    small = v.binary("sub", "i32", nudged, v.number("i32", 0x3F000000))
    odd = v.binary("and", "i32", v.binary("lshr", "i32", magnitude, v.number("i32", 13)), v.number("i32", 1))
    moved = v.binary("add", "i32", magnitude, v.number("i32", 0xFFF - (112 << 23)))
    normal = v.binary("lshr", "i32", v.binary("add", "i32", moved, odd), v.number("i32", 13))
    is_small = v.compare("ult", "i32", magnitude, v.number("i32", 113 << 23))
    result = v.select(is_small, "i32", small, normal)
    is_large = v.compare("uge", "i32", magnitude, v.number("i32", 0x477FF000))
    result = v.select(is_large, "i32", v.number("i32", 0x7C00), result)
    is_nan = v.compare("ugt", "i32", magnitude, v.number("i32", 0x7F800000))
    result = v.select(is_nan, "i32", v.number("i32", 0x7E00), result)
    sign = v.binary("and", "i32", v.binary("lshr", "i32", bits, v.number("i32", 16)), v.number("i32", 0x8000))
    return v.cast("trunc", "i32", v.binary("or", "i32", result, sign), "i16")


def to_odd_float(v: Vector, x: str) -> str:
    """Converts a double to a float that rounds to the same float16: round to odd."""
    bits = v.bitcast("double", x, "i64")
    dropped = v.binary("and", "i64", bits, v.number("i64", (1 << 29) - 1))
    is_odd = v.compare("ne", "i64", dropped, v.number("i64", 0))
    kept = v.binary("sub", "i64", bits, dropped)
    odd = v.binary("or", "i64", kept, v.number("i64", 1 << 29))
    return v.cast(
        "fptrunc", "double", v.bitcast("i64", v.select(is_odd, "i64", odd, kept), "double"), "float"
    )
