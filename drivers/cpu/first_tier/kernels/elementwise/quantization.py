"""Writes the quantisation of floats, and its inverse."""

from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import stored_integer
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def quantization_units(target: Target) -> list[Unit]:
    """Returns the units of all types."""
    return [
        *(_quantize(target, *each) for each in (("signed", "i8"), ("unsigned", "i8"), ("short", "i16"))),
        _dequantize(target, "signed", "sext", "i8"),
        _dequantize(target, "unsigned", "zext", "i8"),
        _dequantize(target, "short", "sext", "i16"),
    ]


def _quantize(target: Target, sign: str, element: str) -> Unit:
    """Writes the quantisation of floats.

    Words: those of the nest, the scale, zero point and limits.
    """
    kernel = KernelWriter(target, f"first_quantize_{sign}", ("out", "input"))
    first = words_of_nest(1)
    scale = kernel.word(first, "float")

    def compute(v: Vector, values: list[str]) -> str:
        x = v.binary("fdiv", "float", values[0], v.splat("float", scale))
        return stored_integer(kernel, v, round_away(v, "float", x), first + 1, result=element)

    write_elements(kernel, kernel.vector, [("%input", "float")], element, compute)
    return kernel.unit()


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
