"""Writes arithmetic on two quantised 16-bit integers."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import (
    requantized_by_words,
    rescaled_by_words,
)
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.first_tier.layout import (
    SCALES,
    SHORT_SHIFT,
)
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def short_arithmetic_units(target: Target) -> list[Unit]:
    """Returns the units of all operations on two 16-bit integers."""
    return [_arithmetic(target, name) for name in ("sum", "difference", "product")]


def _arithmetic(target: Target, operation: str) -> Unit:
    """Writes an operation on two 16-bit integers, whose zero points are 0.

    Words: those of the nest; the parameters that rescale each addend, except of `product`; and
    those that requantise the result, with the zero point and the limits.
    """
    kernel = KernelWriter(target, f"first_short_{operation}", ("out", "input", "other"))
    first = words_of_nest(2)

    def compute(v: Vector, values: list[str]) -> str:
        given = [v.cast("sext", "i16", each, "i32") for each in values]
        if operation == "product":
            return requantized_by_words(kernel, v, v.binary("mul", "i32", *given), first, "i16")
        addends = []
        for number, each in enumerate(given):
            shifted = v.binary("shl", "i32", each, v.number("i32", SHORT_SHIFT))
            wide = rescaled_by_words(kernel, v, shifted, first + number * (1 + SCALES))
            addends.append(v.cast("trunc", "i64", wide, "i32"))
        total = v.binary("add" if operation == "sum" else "sub", "i32", *addends)
        return requantized_by_words(kernel, v, total, first + 2 * (1 + SCALES), "i16")

    write_elements(kernel, kernel.vector, [("%input", "i16"), ("%other", "i16")], "i16", compute)
    return kernel.unit()
