"""Writes functions of bytes that depend on all elements of a row, apart from reductions."""

from collections.abc import Callable
from typing import Final

from neurald.drivers.compiler.ir.expression import Expression, load, minimum
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point
from neurald.drivers.compiler.lowering.tflite.reduction.normalization import exponent_of, mantissa_of
from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.elementwise.expressions import evaluated
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import (
    REDUCTIONS,
    SUM,
    RowReduction,
    reduced,
    stored_integer,
)
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.tflite.reduction.normalization import FRACTION_BITS

_SIGNS: Final = (("signed", "sext"), ("unsigned", "zext"))
_MAX_INT32: Final = (1 << 31) - 1
#: Sums of squares, which are exact.
_SQUARES: Final = RowReduction(name="", element="i8", total="i64", start=0, combine="add")


def byte_row_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels for rows of bytes."""
    return [make(target, *each) for make in (_log_softmax, _unit_rows, _rounded_unit_rows) for each in _SIGNS]


def _log_softmax(target: Target, sign: str, extension: str) -> Unit:
    """Writes the logarithm of a softmax of rows.

    Words: elements of a row, beta times the scale of the input, the output's scale, the zero point,
    and the limits. A work item is a row.
    """
    kernel = KernelWriter(target, f"first_log_softmax_{sign}", ("out", "input"))
    length, factor, scale = kernel.word(0), kernel.word(1, "float"), kernel.word(2, "float")
    largest = next(each for each in REDUCTIONS if each.name == f"largest_{sign}")
    with kernel.each_item() as row:
        start = kernel.product(row, length)

        def given(v: Vector, index: str, start: str = start) -> str:
            return kernel.element(v, "i8", "%input", kernel.sum(start, index))

        highest = reduced(kernel, length, largest, given, Vector(kernel.code, target, target.lanes(1)))
        highest = kernel.single.cast(extension, "i8", highest, "i32")

        def exponent(v: Vector, index: str, highest: str = highest, given: Callable[..., str] = given) -> str:
            value = v.cast(extension, "i8", given(v, index), "i32")
            distance = v.binary("sub", "i32", value, v.splat("i32", highest))
            real = v.cast("sitofp", "i32", distance, "float")
            return v.binary("fmul", "float", real, v.splat("float", factor))

        def power(v: Vector, index: str, exponent: Callable[..., str] = exponent) -> str:
            return vector_math.exp(v, "float", exponent(v, index))

        total = vector_math.log(kernel.single, "float", reduced(kernel, length, SUM, power))

        def finish(
            v: Vector,
            index: str,
            start: str = start,
            total: str = total,
            exponent: Callable[..., str] = exponent,
        ) -> None:
            x = v.binary("fsub", "float", exponent(v, index), v.splat("float", total))
            x = round_away(v, "float", v.binary("fdiv", "float", x, v.splat("float", scale)))
            store(v, "i8", stored_integer(kernel, v, x, 3), "%out", kernel.sum(start, index))

        kernel.each_element(kernel.vector, "0", length, finish)
    return kernel.unit()


def _difference(kernel: KernelWriter, v: Vector, extension: str, index: str) -> str:
    """Returns the distances of elements from the zero point, which word 1 has, as i64."""
    value = v.cast(extension, "i8", kernel.element(v, "i8", "%input", index), "i64")
    return v.binary("sub", "i64", value, v.splat("i64", kernel.word(1)))


def _sum_of_squares(kernel: KernelWriter, extension: str, start: str) -> str:
    """Returns the sum of the squares of a row of distances, an i64."""

    def square(v: Vector, index: str) -> str:
        value = _difference(kernel, v, extension, kernel.sum(start, index))
        return v.binary("mul", "i64", value, value)

    lanes = Vector(kernel.code, kernel.target, kernel.target.lanes(8))
    return reduced(kernel, kernel.word(0), _SQUARES, square, lanes)


def _unit_rows(target: Target, sign: str, extension: str) -> Unit:
    """Writes the division of rows by their lengths as vectors, as Android does.

    Words: elements of a row, the zero point of the input, the output's scale, its zero point, and
    the limits. A work item is a row.
    """
    kernel = KernelWriter(target, f"first_unit_rows_{sign}", ("out", "input"))
    length, scale, s = kernel.word(0), kernel.word(2, "float"), kernel.single
    with kernel.each_item() as row:
        start = kernel.product(row, length)
        squares = s.cast("sitofp", "i64", _sum_of_squares(kernel, extension, start), "float")
        norm, least = s.call("llvm.sqrt", "float", squares), s.number("float", 1)
        norm = s.select(s.compare("olt", "float", norm, least), "float", least, norm)

        def finish(v: Vector, index: str, start: str = start, norm: str = norm) -> None:
            at = kernel.sum(start, index)
            x = v.cast("sitofp", "i64", _difference(kernel, v, extension, at), "float")
            x = v.binary("fdiv", "float", x, v.splat("float", norm))
            x = round_away(v, "float", v.binary("fdiv", "float", x, v.splat("float", scale)))
            store(v, "i8", stored_integer(kernel, v, x, 3), "%out", at)

        kernel.each_element(kernel.vector, "0", length, finish)
    return kernel.unit()


def _rounded_unit_rows(target: Target, sign: str, extension: str) -> Unit:
    """Writes the division of rows by their lengths as vectors, with TFLite's fixed-point numbers.

    Words: elements of a row, the zero point of the input, the zero point of the output, and the
    limits. A work item is a row.
    """
    kernel = KernelWriter(target, f"first_rounded_unit_rows_{sign}", ("out", "input"))
    length, s = kernel.word(0), kernel.single
    total, value = (load(Value(shape=(), type=Scalar.INT64), ()) for _ in range(2))
    mantissa, exponent = (load(Value(shape=(), type=Scalar.INT32), ()) for _ in range(2))
    # TFLite supports sums of up to 31 bits, and multiplies unsigned and signed values differently.
    squares = minimum(total, _MAX_INT32)
    before, after = (FRACTION_BITS, 0) if sign == "unsigned" else (0, FRACTION_BITS)
    result: Expression = fixed_point(value << before, mantissa, exponent + after)
    lanes = Vector(kernel.code, target, target.lanes(8))
    with kernel.each_item() as row:
        start = kernel.product(row, length)
        known: dict[Expression, str] = {total: _sum_of_squares(kernel, extension, start)}
        parts = [
            evaluated(s, each.to(Scalar.INT32), known)
            for each in (mantissa_of(squares), exponent_of(squares))
        ]

        def finish(v: Vector, index: str, start: str = start, parts: list[str] = parts) -> None:
            at = kernel.sum(start, index)
            given = {
                value: _difference(kernel, v, extension, at),
                mantissa: v.splat("i32", parts[0]),
                exponent: v.splat("i32", parts[1]),
            }
            x = v.binary("add", "i64", evaluated(v, result, given), v.splat("i64", kernel.word(2)))
            for how, number in (("smax", 3), ("smin", 4)):
                x = v.call(f"llvm.{how}", "i64", x, v.splat("i64", kernel.word(number)))
            store(v, "i8", v.cast("trunc", "i64", x, "i8"), "%out", at)

        kernel.each_element(lanes, "0", length, finish)
    return kernel.unit()
