"""Writes reductions, and functions that depend on all elements of a row."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.math.rounding import round_away
from neurald.drivers.cpu.emit.op_table import extreme
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import gather, store
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import requantized_by_words
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def row_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels for rows."""
    reductions = [_reduction(target, each, is_row=is_row) for each in REDUCTIONS for is_row in (True, False)]
    softmaxes = [_quantized_softmax(target, *each) for each in (("signed", "sext"), ("unsigned", "zext"))]
    normalizations = [_softmax(target, is_logarithm=each) for each in (False, True)]
    return [*reductions, *normalizations, *softmaxes, _unit_rows(target)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReduction:
    """A reduction.

    Attributes:
        name: the name of the function, without what it reduces along.
        element: the type of elements.
        total: the type in which they are reduced.
        start: identity element.
        combine: instruction, intrinsic with a dot, or `larger` or `smaller` of floats, of which NaN
            is both.
        extension: the instruction that extends smaller elements; empty if none are smaller.
        result: what becomes of the total: "" nothing, `divided`, `averaged`, `requantized` or
            `rescaled`.
    """

    name: str
    element: str
    total: str
    start: float
    combine: str
    extension: str = ""
    result: str = ""

    @property
    def is_extreme_float(self) -> bool:
        """True for the largest or smallest float, which takes several instructions that wait."""
        return self.combine in ("larger", "smaller")

    def combined(self, v: Vector, first: str, second: str) -> str:
        """Combines two vectors."""
        if self.is_extreme_float:
            return extreme_of_floats(v, first, second, is_minimum=self.combine == "smaller")
        if "." in self.combine:
            return v.call(self.combine, self.total, first, second)
        return v.binary(self.combine, self.total, first, second)


REDUCTIONS: Final = (
    RowReduction(
        name="mean_float",
        element="float",
        total="float",
        start=0,
        combine="fadd",
        result="divided",
    ),
    RowReduction(name="sum_float", element="float", total="float", start=0, combine="fadd"),
    RowReduction(name="product_float", element="float", total="float", start=1, combine="fmul"),
    RowReduction(
        name="largest_float",
        element="float",
        total="float",
        start=-math.inf,
        combine="larger",
    ),
    RowReduction(
        name="smallest_float",
        element="float",
        total="float",
        start=math.inf,
        combine="smaller",
    ),
    *(
        RowReduction(
            name=f"{name}_{kind}",
            element=f"i{size}",
            total=f"i{size}",
            start=start(size),
            combine=combine,
        )
        for kind, size in (("word", 32), ("long", 64))
        for name, combine, start in (
            ("sum", "add", lambda _: 0),
            ("product", "mul", lambda _: 1),
            ("largest", "llvm.smax", lambda size: -1 << size - 1),
            ("smallest", "llvm.smin", lambda size: (1 << size - 1) - 1),
        )
    ),
    *(
        RowReduction(
            name=f"mean_{kind}",
            element=element,
            total="i64",
            start=0,
            combine="add",
            extension=extension,
            result="averaged",
        )
        for kind, element, extension in (("word", "i32", "sext"), ("long", "i64", ""))
    ),
    *(
        RowReduction(name=f"{name}_{sign}", element="i8", total="i8", start=start, combine=f"llvm.{how}")
        for name, sign, how, start in (
            ("largest", "signed", "smax", -128),
            ("smallest", "signed", "smin", 127),
            ("largest", "unsigned", "umax", 0),
            ("smallest", "unsigned", "umin", 255),
        )
    ),
    RowReduction(
        name="largest_short",
        element="i16",
        total="i16",
        start=-(1 << 15),
        combine="llvm.smax",
    ),
    RowReduction(
        name="smallest_short",
        element="i16",
        total="i16",
        start=(1 << 15) - 1,
        combine="llvm.smin",
    ),
    RowReduction(
        name="mean_short",
        element="i16",
        total="i32",
        start=0,
        combine="add",
        extension="sext",
        result="requantized",
    ),
    *(
        RowReduction(
            name=f"{name}_{sign}",
            element="i8",
            total="i32",
            start=0,
            combine="add",
            extension=extension,
            result=result,
        )
        for name, result in (("mean", "requantized"), ("sum", "rescaled"))
        for sign, extension in (("signed", "sext"), ("unsigned", "zext"))
    ),
)


def extreme_of_floats(v: Vector, first: str, second: str, *, is_minimum: bool) -> str:
    """Returns the smaller or larger of floats; NaN if either is NaN."""
    return extreme(v, Scalar.FLOAT32, "float", first, second, is_minimum=is_minimum)


def across(v: Vector, kind: str, how: str, value: str) -> str:
    """Returns the integer that the lanes of a vector are reduced to."""
    name = f"@llvm.vector.reduce.{how}.v{v.lanes}{kind}"
    v.code.declarations.add(f"declare {kind} {name}({v.type(kind)})")
    return v.code.fresh(f"call {kind} {name}({v.type(kind)} {value})")


def reduced(
    kernel: KernelWriter,
    length: str,
    how: RowReduction,
    write: Callable[[Vector, str], str],
    v: Vector | None = None,
) -> str:
    """Writes the reduction of a row, and returns its result.

    The halves of a vector are combined, and then with a vector of that width if one is left of the
    row, and so on, so that rows of any length take few steps.

    Args:
        kernel: the function.
        length: the length of the row.
        how: the reduction.
        write: returns what is combined of the elements from a number on.
        v: writes vectors of that width.
    """
    code, single = kernel.code, kernel.single
    v = v or kernel.vector
    first, value = "0", v.number(how.total, how.start)
    while True:
        whole = single.binary("udiv", "i64", kernel.difference(length, first), str(v.lanes))
        last = kernel.sum(first, kernel.product(whole, str(v.lanes)))
        with code.loop(first, last, [(v.type(how.total), value)], step=v.lanes, may_be_empty=True) as loop:
            loop.results = [how.combined(v, loop.carried[0], write(v, loop.index))]
        first, (value,) = last, loop.results
        if v.lanes == 1:
            return value
        lower, upper = _halves(v, how.total, value)
        v = Vector(code, kernel.target, v.lanes // 2)
        value = how.combined(v, lower, upper)


def _halves(v: Vector, kind: str, value: str) -> list[str]:
    """Returns the two halves of the lanes of a vector."""
    if v.lanes > 2:
        return v.parts(kind, value, v.lanes // 2)
    return [v.code.value(f"extractelement {v.type(kind)} {value}, i64 {lane}") for lane in range(2)]


def _reduction(target: Target, how: RowReduction, *, is_row: bool) -> Unit:
    """Writes a reduction of rows, or of columns, which have neighbours.

    Words: elements that are reduced, columns, then: for `divided`, the divisor as a float; for
    `requantized`, what is added to the sum, and the parameters of requantisation; for `rescaled` a
    factor, an offset, the zero point, and the limits. A work item is a row, or a matrix of columns.
    """
    kernel = KernelWriter(target, f"first_{how.name}_{'rows' if is_row else 'columns'}", ("out", "input"))
    code = kernel.code
    length, columns = kernel.word(0), kernel.word(1)
    narrow = how.element == "i8" and how.total == "i8"
    wide = kernel.vector
    if narrow or how.is_extreme_float:
        # Four registers of floats do not wait for one another.
        wide = Vector(code, target, target.lanes(1))

    def element(v: Vector, offset: str) -> str:
        value = kernel.element(v, how.element, "%input", offset)
        return v.cast(how.extension, how.element, value, how.total) if how.extension else value

    def result(v: Vector, total: str) -> str:
        if how.result == "divided":
            return v.binary("fdiv", "float", total, v.splat("float", kernel.word(2, "float")))
        if how.result == "averaged":
            mean = v.binary("sdiv", "i64", total, v.splat("i64", length))
            return v.cast("trunc", "i64", mean, how.element) if how.extension else mean
        if how.result == "requantized":
            total = v.binary("add", "i32", total, v.splat("i32", kernel.word(2, "i32")))
            return requantized_by_words(kernel, v, total, 3, how.element)
        if how.result == "rescaled":
            real = v.cast("sitofp", "i32", total, "float")
            real = v.binary("fmul", "float", real, v.splat("float", kernel.word(2, "float")))
            real = v.binary("fadd", "float", real, v.splat("float", kernel.word(3, "float")))
            return stored_integer(kernel, v, round_away(v, "float", real), 4)
        return total

    with kernel.each_item() as item:
        start = kernel.product(kernel.product(item, length), columns)
        if is_row:
            total = reduced(kernel, length, how, lambda v, index: element(v, kernel.sum(start, index)), wide)
            store(kernel.single, how.element, result(kernel.single, total), "%out", item)
        else:
            place = kernel.product(item, columns)

            def write(v: Vector, index: str, start: str = start, place: str = place) -> None:
                first = [(v.type(how.total), v.number(how.total, how.start))]
                with code.loop("0", length, first, may_be_empty=True) as loop:
                    at = kernel.sum(kernel.sum(start, index), kernel.product(loop.index, columns))
                    loop.results = [how.combined(v, loop.carried[0], element(v, at))]
                store(v, how.element, result(v, loop.results[0]), "%out", kernel.sum(place, index))

            kernel.each_element(wide, "0", columns, write)
    return kernel.unit()


def stored_integer(
    kernel: KernelWriter, v: Vector, real: str, first: int, element: str = "float", result: str = "i8"
) -> str:
    """Returns whole floats as bytes or 16-bit integers, where NaN is 0.

    Args:
        kernel: the function.
        v: writes vectors of the width of the values.
        real: the floats.
        first: number of the first of the words: the zero point, and the limits.
        element: the type of floats.
        result: the type of integers.
    """
    # What is beyond these limits is beyond all limits of the type, for every zero point.
    beyond = 1024.0 if result == "i8" else float(1 << 17)
    for condition, limit in (("olt", -beyond), ("ogt", beyond)):
        end = v.number(element, limit)
        real = v.select(v.compare(condition, element, real, end), element, end, real)
    real = v.select(v.compare("ord", element, real, real), element, real, v.number(element, 0))
    value = v.cast("fptosi", element, real, "i32")
    zero_point, low, high = (v.splat("i32", kernel.word(first + n, "i32")) for n in range(3))
    value = v.binary("add", "i32", value, zero_point)
    value = v.call("llvm.smin", "i32", v.call("llvm.smax", "i32", value, low), high)
    return v.cast("trunc", "i32", value, result)


_LARGEST: Final = next(each for each in REDUCTIONS if each.name == "largest_float")
SUM: Final = next(each for each in REDUCTIONS if each.name == "sum_float")
_DOUBLE_SUM: Final = RowReduction(name="", element="double", total="double", start=0, combine="fadd")


def _softmax(target: Target, *, is_logarithm: bool) -> Unit:
    """Writes a softmax of rows of floats, or its logarithm.

    Words: elements of a row, beta. A work item is a row.
    """
    name = f"first_{'log_' if is_logarithm else ''}softmax"
    kernel = KernelWriter(target, name, ("out", "input"))
    length, beta = kernel.word(0), kernel.word(1, "float")
    with kernel.each_item() as row:
        start = kernel.product(row, length)

        def given(v: Vector, index: str, start: str = start) -> str:
            return kernel.element(v, "float", "%input", kernel.sum(start, index))

        highest = reduced(kernel, length, _LARGEST, given)

        def exponent(v: Vector, index: str, highest: str = highest, given: Callable[..., str] = given) -> str:
            x = v.binary("fsub", "float", given(v, index), v.splat("float", highest))
            return v.binary("fmul", "float", x, v.splat("float", beta))

        def power(v: Vector, index: str, start: str = start, exponent: Callable[..., str] = exponent) -> str:
            x = vector_math.exp(v, "float", exponent(v, index))
            if not is_logarithm:
                store(v, "float", x, "%out", kernel.sum(start, index))
            return x

        total = reduced(kernel, length, SUM, power)
        if is_logarithm:
            total = vector_math.log(kernel.single, "float", total)

        def finish(v: Vector, index: str, start: str = start, total: str = total) -> None:
            at, divisor = kernel.sum(start, index), v.splat("float", total)
            if is_logarithm:
                x = v.binary("fsub", "float", exponent(v, index), divisor)
            else:
                x = v.binary("fdiv", "float", kernel.element(v, "float", "%out", at), divisor)
            store(v, "float", x, "%out", at)

        kernel.each_element(kernel.vector, "0", length, finish)
    return kernel.unit()


def _quantized_softmax(target: Target, sign: str, extension: str) -> Unit:
    """Writes a softmax of rows of bytes.

    `%powers` has, in 64-bit floats, the powers for all distances from the largest element. Words:
    elements of a row, the output's scale, the zero point, and the limits. A work item is a row.
    """
    kernel = KernelWriter(target, f"first_softmax_{sign}", ("out", "input", "powers"))
    length, scale = kernel.word(0), kernel.word(1, "double")
    largest = next(each for each in REDUCTIONS if each.name == f"largest_{sign}")
    bytes_ = Vector(kernel.code, target, target.lanes(1))
    v = Vector(kernel.code, target, target.lanes(8))
    with kernel.each_item() as row:
        start = kernel.product(row, length)

        def given(v: Vector, index: str, start: str = start) -> str:
            return kernel.element(v, "i8", "%input", kernel.sum(start, index))

        highest = reduced(kernel, length, largest, given, bytes_)
        highest = kernel.single.cast(extension, "i8", highest, "i32")

        def power(v: Vector, index: str, highest: str = highest, given: Callable[..., str] = given) -> str:
            value = v.cast(extension, "i8", given(v, index), "i32")
            distance = v.binary("sub", "i32", v.splat("i32", highest), value)
            return gather(v, "double", "%powers", "i32", distance)

        total = reduced(kernel, length, _DOUBLE_SUM, power, v)

        def finish(
            v: Vector,
            index: str,
            start: str = start,
            total: str = total,
            power: Callable[..., str] = power,
        ) -> None:
            x = v.binary("fdiv", "double", power(v, index), v.splat("double", total))
            x = round_away(v, "double", v.binary("fdiv", "double", x, v.splat("double", scale)))
            value = stored_integer(kernel, v, x, 2, "double")
            store(v, "i8", value, "%out", kernel.sum(start, index))

        kernel.each_element(v, "0", length, finish)
    return kernel.unit()


def _unit_rows(target: Target) -> Unit:
    """Writes the division of rows by their lengths as vectors.

    Words: elements of a row, the smallest length. A work item is a row.
    """
    kernel = KernelWriter(target, "first_unit_rows", ("out", "input"))
    length, least = kernel.word(0), kernel.word(1, "float")
    with kernel.each_item() as row:
        start = kernel.product(row, length)

        def given(v: Vector, index: str, start: str = start) -> str:
            return kernel.element(v, "float", "%input", kernel.sum(start, index))

        def square(v: Vector, index: str, given: Callable[..., str] = given) -> str:
            value = given(v, index)
            return v.binary("fmul", "float", value, value)

        s = kernel.single
        norm = s.call("llvm.sqrt", "float", reduced(kernel, length, SUM, square))
        norm = s.select(s.compare("olt", "float", norm, least), "float", least, norm)

        def finish(v: Vector, index: str, start: str = start, norm: str = norm) -> None:
            x = kernel.element(v, "float", "%input", kernel.sum(start, index))
            store(
                v,
                "float",
                v.binary("fdiv", "float", x, v.splat("float", norm)),
                "%out",
                kernel.sum(start, index),
            )

        kernel.each_element(kernel.vector, "0", length, finish)
    return kernel.unit()
