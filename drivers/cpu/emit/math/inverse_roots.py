"""1 / √x on AVX2, from the processor's estimate instead of a square root and a division."""

from neurald.drivers.cpu.emit.vector import Vector

_BYTES = 32
_LANES = 8
_REGISTER = "<8 x float>"
_ESTIMATE = "@llvm.x86.avx.rsqrt.ps.256"
#: The estimate takes numbers below these, the denormal ones, for 0.
_MIN_NORMAL = 2.0**-126
#: Makes denormal numbers normal; a power of 4.
_SCALE = 2.0**24


def has_inverse_roots(v: Vector, element: str) -> bool:
    """Returns True if `refined_inverse_root` supports values of this type."""
    target = v.target
    is_wide = target.vector_bytes == _BYTES and v.lanes % _LANES == 0
    return element == "float" and is_wide and target.has_fma


def refined_inverse_root(v: Vector, x: str) -> str:
    """Computes 1 / √x with an error of at most 1 ULP.

    The estimate's relative error is below 2^-11, and the refinement below leaves its third power.
    """

    def number(value: float) -> str:
        return v.number("float", value)

    is_small = v.compare("olt", "float", x, number(_MIN_NORMAL))
    x = v.binary("fmul", "float", x, v.select(is_small, "float", number(_SCALE), number(1)))
    estimate = _estimate(v, x)
    root = v.binary("fmul", "float", x, estimate)
    error = v.fma("float", v.negate("float", root), estimate, number(1))
    # 1 / √(1 - e) = 1 + e / 2 + 3 e² / 8 + …
    factor = v.fma("float", error, number(0.375), number(0.5))
    step = v.binary("fmul", "float", error, estimate)
    better = v.fma("float", factor, step, estimate)
    # For 0 and ∞ the estimate is exact, and the error is NaN.
    result = v.select(v.compare("ord", "float", error, error), "float", better, estimate)
    scale = v.select(is_small, "float", number(_SCALE**0.5), number(1))
    return v.binary("fmul", "float", result, scale)


def _estimate(v: Vector, x: str) -> str:
    v.code.declarations.add(f"declare {_REGISTER} {_ESTIMATE}({_REGISTER})")
    parts = v.parts("float", x, _LANES)
    return v.joined(
        "float", [v.code.value(f"call {_REGISTER} {_ESTIMATE}({_REGISTER} {part})") for part in parts]
    )
