"""√x on AVX-512: the unit that divides computes every other register, multiplications the others.

A square root occupies that unit for several times as long as it takes to begin a multiplication.
From an estimate y of 1 / √x, g = x·y and h = y / 2 are refined together by Goldschmidt's iteration,
e = 1/2 - g·h, g + g·e and h + h·e, and g + (x - g²)·h is the correctly rounded root. All floats of
two adjacent exponents were compared; others differ by a power of 4, unless remainders are denormal,
for which small numbers are scaled.
"""

from neurald.drivers.cpu.emit.math.wide_floats import has_wide_floats
from neurald.drivers.cpu.emit.vector import Vector

_LANES = 16
_REGISTER = f"<{_LANES} x float>"
_ESTIMATE, _CLASSES = "@llvm.x86.avx512.rsqrt14.ps.512", "@llvm.x86.avx512.fpclass.ps.512"
#: Remainders of smaller numbers may be denormal.
_MIN_EXACT = 2.0**-76
#: Makes all numbers but 0 large enough; a power of 4.
_SCALE = 2.0**80
#: Classes of numbers: both zeros, and +∞. They are their own roots.
_OWN_ROOTS = 2 | 4 | 8


def root(v: Vector, element: str, x: str) -> str:
    """Computes √x, correctly rounded."""
    if not has_wide_floats(v, element) or v.lanes < 2 * _LANES:
        return v.call("llvm.sqrt", element, x)
    register = Vector(v.code, v.target, _LANES)
    parts = v.parts("float", x, _LANES)
    roots = [
        _refined(register, part) if number % 2 else register.call("llvm.sqrt", "float", part)
        for number, part in enumerate(parts)
    ]
    return v.joined("float", roots)


def _refined(v: Vector, given: str) -> str:
    """Computes a register of roots by multiplications."""

    def number(value: float) -> str:
        return v.number("float", value)

    is_small = v.compare("olt", "float", given, number(_MIN_EXACT))
    x = v.select(is_small, "float", v.binary("fmul", "float", given, number(_SCALE)), given)
    v.code.declarations.add(f"declare {_REGISTER} {_ESTIMATE}({_REGISTER}, {_REGISTER}, i16)")
    estimate = v.code.value(
        f"call {_REGISTER} {_ESTIMATE}({_REGISTER} {x}, {_REGISTER} zeroinitializer, i16 -1)"
    )
    near, half = (
        v.binary("fmul", "float", x, estimate),
        v.binary("fmul", "float", estimate, number(0.5)),
    )
    error = v.fma("float", v.negate("float", near), half, number(0.5))
    near, half = v.fma("float", near, error, near), v.fma("float", half, error, half)
    remainder = v.fma("float", v.negate("float", near), near, x)
    result = v.fma("float", remainder, half, near)
    scaled = v.binary("fmul", "float", result, number(_SCALE**-0.5))
    result = v.select(is_small, "float", scaled, result)
    kind = f"<{_LANES} x i1>"
    v.code.declarations.add(f"declare {kind} {_CLASSES}({_REGISTER}, i32)")
    is_own = v.code.value(f"call {kind} {_CLASSES}({_REGISTER} {given}, i32 {_OWN_ROOTS})")
    return v.select(is_own, "float", given, result)
