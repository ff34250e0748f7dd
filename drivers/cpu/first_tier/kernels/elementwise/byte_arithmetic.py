"""Writes arithmetic on two quantised bytes."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import (
    limited_by_words,
    short_requantized_by_words,
    short_rescaled_by_words,
)
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.first_tier.layout import (
    LOW_DIGIT,
    SCALES,
    ByteAddend,
    ByteOperand,
    NearSum,
)
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def byte_arithmetic_units(target: Target) -> list[Unit]:
    """Returns the units of all operations on two bytes."""
    return [_arithmetic(target, name) for name in ("sum", "product", "square", "prelu")]


def _arithmetic(target: Target, operation: str) -> Unit:
    """Writes an operation on two bytes.

    `square` squares the sum; `prelu` multiplies what is below 0.
    """
    kernel = KernelWriter(target, f"first_byte_{operation}", ("out", "input", "other"))
    arithmetic = _ByteArithmetic(kernel, operation)
    operands = [("%input", "i8"), ("%other", "i8")]
    rare = (arithmetic.is_near_half, arithmetic.exact)
    if operation == "sum":
        write_elements(kernel, kernel.vector, operands, "i8", arithmetic.rounded, rare)
    else:
        write_elements(kernel, kernel.vector, operands, "i8", arithmetic.exact)
    return kernel.unit()


class _ByteArithmetic:
    """Writes the results of vectors of bytes.

    Words of the kernel: those of the nest; `ByteOperand`s; of sums and squares, the `ByteAddend`s;
    of `sum`, a `NearSum`; the mantissa and the other parameters of requantisation, of `prelu` from
    0 on and below; the zero point, and the limits.

    Args:
        kernel: the kernel.
        operation: the operation.
    """

    def __init__(self, kernel: KernelWriter, operation: str) -> None:
        self._kernel, self._operation = kernel, operation
        self._first = words_of_nest(2)
        self._addends = self._first + 2 * len(ByteOperand._fields)
        addends = 2 * len(ByteAddend._fields) if operation in ("sum", "square") else 0
        self._near = self._addends + addends
        self._rescale = self._near + (len(NearSum._fields) if operation == "sum" else 0)

    def exact(self, v: Vector, values: list[str]) -> str:
        """Returns the results, rounded as the reference rounds."""
        kernel, rescale = self._kernel, self._rescale
        given = self._factors(v, values)
        if self._operation == "product":
            return short_requantized_by_words(kernel, v, v.binary("mul", "i32", *given), rescale)
        if self._operation == "prelu":
            below = rescale + 1 + SCALES
            value = v.select(
                v.compare("sge", "i32", given[0], v.number("i32", 0)),
                "i32",
                short_rescaled_by_words(kernel, v, given[0], rescale),
                short_rescaled_by_words(kernel, v, v.binary("mul", "i32", *given), below),
            )
            return limited_by_words(kernel, v, value, below + 1 + SCALES)
        firsts = (self._addends + number * len(ByteAddend._fields) for number in range(2))
        addends = (_addend(kernel, v, value, first) for value, first in zip(given, firsts, strict=True))
        total = v.binary("add", "i32", *addends)
        if self._operation == "square":
            total = v.binary("mul", "i32", total, total)
        return short_requantized_by_words(kernel, v, total, rescale)

    def rounded(self, v: Vector, values: list[str]) -> str:
        """Returns sums that are right unless one is nearly between two results."""
        value = v.binary("ashr", "i32", self._near_sum(v, values), self._number(v, self._near + 4))
        return limited_by_words(self._kernel, v, value, self._rescale + 1 + SCALES)

    def is_near_half(self, v: Vector, values: list[str]) -> str:
        """Returns whether a sum is nearly between two results."""
        fraction = v.binary("and", "i32", self._near_sum(v, values), self._number(v, self._near + 3))
        return v.any_lane(v.compare("eq", "i32", fraction, v.number("i32", 0)))

    def _near_sum(self, v: Vector, values: list[str]) -> str:
        one, other = (
            v.binary("mul", "i32", value, self._number(v, self._near + each))
            for each, value in enumerate(self._bytes(v, values))
        )
        return v.binary("add", "i32", v.binary("add", "i32", one, other), self._number(v, self._near + 2))

    def _factors(self, v: Vector, values: list[str]) -> list[str]:
        """Returns bytes without their zero points."""
        return [
            v.binary("sub", "i32", value, self._number(v, self._first + 1 + each * len(ByteOperand._fields)))
            for each, value in enumerate(self._bytes(v, values))
        ]

    def _bytes(self, v: Vector, values: list[str]) -> list[str]:
        """Returns bytes as the numbers from 0 on, in the order of their values."""
        flips = (
            self._number(v, self._first + each * len(ByteOperand._fields), "i8")
            for each in range(len(values))
        )
        return [
            v.cast("zext", "i8", v.binary("xor", "i8", value, flip), "i32")
            for value, flip in zip(values, flips, strict=True)
        ]

    def _number(self, v: Vector, word: int, kind: str = "i32") -> str:
        return v.splat(kind, self._kernel.word(word, kind))


def _addend(kernel: KernelWriter, v: Vector, value: str, first: int) -> str:
    """Returns bytes, without their zero point, rescaled and rounded like `rescaled`.

    Args:
        kernel: the function.
        v: writes vectors of the width of the values.
        value: the integers.
        first: number of the first of the words of a `ByteAddend`.
    """
    high, low, high_addend, low_addend, below_zero, shift, sign = (
        v.splat("i32", kernel.word(first + n, "i32")) for n in range(len(ByteAddend._fields))
    )
    lower = v.binary("add", "i32", v.binary("mul", "i32", value, low), low_addend)
    upper = v.binary("add", "i32", v.binary("mul", "i32", value, high), high_addend)
    is_below = v.binary("ashr", "i32", value, v.number("i32", 31))
    upper = v.binary("add", "i32", upper, v.binary("and", "i32", is_below, below_zero))
    upper = v.binary("add", "i32", upper, v.binary("ashr", "i32", lower, v.number("i32", LOW_DIGIT)))
    return v.binary("mul", "i32", v.binary("ashr", "i32", upper, shift), sign)
