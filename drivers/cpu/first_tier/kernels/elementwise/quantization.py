"""Writes the quantisation of floats, and its inverse."""

from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import stored_integer
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def quantization_units(target: Target) -> list[Unit]:
    """Returns the units of all types."""
    return [
        _quantize(target, "signed"),
        _quantize(target, "unsigned"),
        _quantize_to_short(target),
        _dequantize(target, "signed", "sext", "i8"),
        _dequantize(target, "unsigned", "zext", "i8"),
        _dequantize(target, "short", "sext", "i16"),
    ]


def _quantize(target: Target, sign: str) -> Unit:
    """Writes the quantisation of floats to bytes.

    A product with the inverse of the scale is rounded by adding a large number, whose last bits
    have the sum. Quotients that are NaN or nearly halfway between two integers are divided.

    Words: those of the nest, the scale, zero point and limits; the inverse of the scale, the floats
    of the limits, the large number plus the zero point, and the distance to the nearest integer
    from which on quotients are divided.
    """
    kernel = KernelWriter(target, f"first_quantize_{sign}", ("out", "input"))
    first = words_of_nest(1)
    inverse, low, high, magic, safe = (kernel.word(first + n, "float") for n in range(4, 9))

    def moved(v: Vector, value: str) -> tuple[str, str]:
        """Returns a clamped float, and its rounded quotient plus the large number."""
        x = clamped(v, value, low, high)
        return x, v.fma("float", x, v.splat("float", inverse), v.splat("float", magic))

    def compute(v: Vector, values: list[str]) -> str:
        return v.cast("trunc", "i32", v.bitcast("float", moved(v, values[0])[1], "i32"), "i8")

    def is_uncertain(v: Vector, values: list[str]) -> str:
        x, total = moved(v, values[0])
        rounded = v.binary("fsub", "float", total, v.splat("float", magic))
        left = v.fma("float", x, v.splat("float", inverse), v.negate("float", rounded))
        distance = v.call("llvm.fabs", "float", left)
        return v.any_lane(v.compare("uge", "float", distance, v.splat("float", safe)))

    def divided(v: Vector, values: list[str]) -> str:
        return _divided(kernel, v, values[0])

    wide = Vector(kernel.code, target, 4 * kernel.vector.lanes)
    write_elements(kernel, wide, [("%input", "float")], "i8", compute, (is_uncertain, divided))
    return kernel.unit()


def _quantize_to_short(target: Target) -> Unit:
    """Writes the quantisation of floats to 16 bits.

    Words: those of the nest, the scale, zero point and limits.
    """
    kernel = KernelWriter(target, "first_quantize_short", ("out", "input"))

    def compute(v: Vector, values: list[str]) -> str:
        return _divided(kernel, v, values[0], "i16")

    write_elements(kernel, kernel.vector, [("%input", "float")], "i16", compute)
    return kernel.unit()


def _divided(kernel: KernelWriter, v: Vector, value: str, element: str = "i8") -> str:
    """Returns floats divided by the scale, rounded and with the zero point."""
    first = words_of_nest(1)
    x = v.binary("fdiv", "float", value, v.splat("float", kernel.word(first, "float")))
    return stored_integer(kernel, v, round_away(v, "float", x), first + 1, result=element)


def _dequantize(target: Target, sign: str, extension: str, element: str) -> Unit:
    """Writes the conversion of integers to floats.

    Words: those of the nest, the zero point, the scale.
    """
    kernel = KernelWriter(target, f"first_dequantize_{sign}", ("out", "input"))
    first = words_of_nest(1)
    zero_point, scale = kernel.word(first, "i32"), kernel.word(first + 1, "float")

    def compute(v: Vector, values: list[str]) -> str:
        value = v.cast(extension, element, values[0], "i32")
        value = v.binary("sub", "i32", value, v.splat("i32", zero_point))
        return v.binary("fmul", "float", v.cast("sitofp", "i32", value, "float"), v.splat("float", scale))

    write_elements(kernel, kernel.vector, [("%input", element)], "float", compute)
    return kernel.unit()
