"""Converts sums of products to outputs."""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.first_tier.layout import SCALES
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES


class SumsToOutputs:
    """Converts sums to outputs, and stores them in rows of channels.

    Args:
        kernel: the function.
        kind: the kind of the products.
        channels: number of channels.
        stride: elements between rows of the output.
        first: number of the first of its words: of integers the zero point, then the limits and the
            number of channels that have parameters.
    """

    def __init__(self, kernel: KernelWriter, kind: Products, channels: str, stride: str, first: int) -> None:
        self._kernel, self._kind, self._channels, self._stride = kernel, kind, channels, stride
        if kind.is_requantized:
            self._limits = [kernel.word(first + n) for n in range(3)]
            self._padded = kernel.word(first + 3)
        else:
            self._limits = [kernel.word(first + n, "float") for n in range(2)]
            self._padded = kernel.word(first + 2)
        #: Where the batch begins in the output, the parameters, and the rows.
        self.start, self.parameters, self.rows = "0", "0", "0"

    def initial(self, v: Vector, channel: str) -> str:
        """Returns what the sums of a vector of channels begin with."""
        element = "float" if self._kind in (Products.FLOAT, Products.BLOCKS) else "i32"
        if not self._kind.starts_with_bias:
            return v.number(element, 0)
        return self._parameter(v, element, "%bias", 0, channel)

    def _parameter(self, v: Vector, element: str, pointer: str, row: int | str, channel: str) -> str:
        """Loads parameters of channels, from a row of a table with one for each."""
        kernel = self._kernel
        at = kernel.sum(kernel.product(self._padded, str(row)), kernel.sum(self.parameters, channel))
        return kernel.element(v, element, pointer, at)

    def scaled(self, v: Vector, total: str, sums: str, tap: str, channel: str) -> str:
        """Adds the integer sums of a tap, times its scales, to floats."""
        scale = self._parameter(v, "float", "%scales", tap, channel)
        real = v.cast("sitofp", "i32", sums, "float")
        return v.binary("fadd", "float", total, v.binary("fmul", "float", real, scale))

    def store(self, v: Vector, total: str, position: str, channel: str, *, is_whole: bool = False) -> None:
        """Stores a vector of sums.

        Args:
            v: writes vectors of the width of the value.
            total: the sums.
            position: number of the output's position.
            channel: number of the first channel. Channels beyond the last one are not stored.
            is_whole: True if all channels exist.
        """
        kernel = self._kernel
        row = kernel.sum(self.start, kernel.product(position, self._stride))
        mask = None if is_whole else kernel.mask(v, channel, self._channels)
        if self._kind.is_requantized:
            value = self._requantized(v, total, channel)
        else:
            value = clamped(v, self._real(v, total, position, channel), *self._limits)
        store(v, self._kind.output, value, "%out", kernel.sum(row, channel), mask)

    def _real(self, v: Vector, total: str, position: str, channel: str) -> str:
        """Returns sums as floats, without the activation."""
        kernel = self._kernel
        if self._kind is Products.FLOAT:
            return total
        if self._kind is Products.HYBRID:
            total = v.cast("sitofp", "i32", total, "float")
            total = v.binary("fmul", "float", total, self._parameter(v, "float", "%bias", 1, channel))
        scale = kernel.element(kernel.single, "float", "%rows", kernel.sum(self.rows, position))
        total = v.binary("fmul", "float", total, v.splat("float", scale))
        return v.binary("fadd", "float", total, self._parameter(v, "float", "%bias", 0, channel))

    def _requantized(self, v: Vector, total: str, channel: str) -> str:
        kernel = self._kernel
        at = kernel.sum(self._padded, kernel.sum(self.parameters, channel))
        mantissa = kernel.code.load(
            f"load {v.type('i32')}, ptr {kernel.at('i32', '%bias', at)}, align {WORD_BYTES}"
        )
        # Written beside the product, which is a shorter instruction for factors of 32 bits.
        mantissa = kernel.code.fresh(f"sext {v.type('i32')} {mantissa} to {v.type('i64')}")
        parameters = []
        for number in range(SCALES):
            row = kernel.product(self._padded, str(number))
            at = kernel.sum(row, kernel.sum(self.parameters, channel))
            pointer = kernel.at("i64", "%scales", at)
            parameters.append(kernel.code.load(f"load {v.type('i64')}, ptr {pointer}, align 8"))
        return _limited(v, rescaled(v, total, mantissa, parameters), self._limits, self._kind.output)


def rescaled(v: Vector, total: str, mantissa: str, parameters: Sequence[str]) -> str:
    """Returns rescaled 32-bit sums, as i64; see `neurald.hal.operations.arithmetic.fixed_point`.

    Args:
        v: writes vectors of the width of the values.
        total: the sums.
        mantissa: the mantissa of the multipliers.
        parameters: what is added, what is added below zero, and the shift.
    """
    addend, below_zero, shift = parameters
    wide = v.binary("mul", "i64", v.cast("sext", "i32", total, "i64"), mantissa)
    is_below = v.binary("ashr", "i64", wide, v.number("i64", 63))
    wide = v.binary("add", "i64", wide, addend)
    wide = v.binary("add", "i64", wide, v.binary("and", "i64", is_below, below_zero))
    return v.binary("ashr", "i64", wide, shift)


def _limited(v: Vector, value: str, limits: Sequence[str], element: str, given: str = "i64") -> str:
    """Returns smaller integers.

    Args:
        v: writes vectors of the width of the values.
        value: the integers.
        limits: scalars: the zero point, which is added, the lower and the upper limit.
        element: the type of the result.
        given: the type of the integers.
    """
    zero_point, low, high = (v.splat(given, each) for each in limits)
    value = v.binary("add", given, value, zero_point)
    value = v.call("llvm.smin", given, v.call("llvm.smax", given, value, low), high)
    return v.cast("trunc", given, value, element)


def rescaled_by_words(kernel: KernelWriter, v: Vector, total: str, first: int) -> str:
    """Returns rescaled 32-bit sums, as i64, with parameters from words, the mantissa first."""
    # See `_requantized`.
    mantissa = kernel.code.fresh(f"sext i32 {kernel.word(first, 'i32')} to i64")
    parameters = [v.splat("i64", kernel.word(first + 1 + n)) for n in range(SCALES)]
    return rescaled(v, total, v.splat("i64", mantissa), parameters)


def requantized_by_words(kernel: KernelWriter, v: Vector, total: str, first: int, element: str = "i8") -> str:
    """Returns 32-bit sums as smaller integers, with parameters from words.

    Args:
        kernel: the function.
        v: writes vectors of the width of the values.
        total: the sums.
        first: number of the first of the words: the mantissa, the other parameters, the zero point
            and the limits.
        element: the type of the result.
    """
    limits = [kernel.word(first + 1 + SCALES + n) for n in range(3)]
    return _limited(v, rescaled_by_words(kernel, v, total, first), limits, element)


def short_rescaled_by_words(kernel: KernelWriter, v: Vector, total: str, first: int) -> str:
    """Returns rescaled 32-bit sums that have 32 bits, see `rescaled_by_words`."""
    return v.cast("trunc", "i64", rescaled_by_words(kernel, v, total, first), "i32")


def short_requantized_by_words(kernel: KernelWriter, v: Vector, total: str, first: int) -> str:
    """Returns 32-bit sums, whose rescaled values have 32 bits, as bytes.

    Args:
        kernel, v, total, first: see `requantized_by_words`.
    """
    return limited_by_words(kernel, v, short_rescaled_by_words(kernel, v, total, first), first + 1 + SCALES)


def limited_by_words(kernel: KernelWriter, v: Vector, value: str, first: int) -> str:
    """Returns 32-bit integers as bytes.

    Args:
        kernel: the function.
        v: writes vectors of the width of the values.
        value: the integers.
        first: number of the first of the words: the zero point, which is added, and the limits.
    """
    return _limited(v, value, [kernel.word(first + n, "i32") for n in range(3)], "i8", "i32")
