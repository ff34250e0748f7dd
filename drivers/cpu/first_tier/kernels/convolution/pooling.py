"""Writes pooling over windows."""

import math

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.op_table import extreme
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped, size_bytes
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def pooling_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels for pooling."""
    return [
        _maximum(target, "float", "float", Scalar.FLOAT32),
        _maximum(target, "signed", "i8", Scalar.INT8),
        _maximum(target, "unsigned", "i8", Scalar.UINT8),
        _maximum(target, "short", "i16", Scalar.INT16),
        _average(target, "float"),
        _average(target, "float", of_squares=True),
        _average(target, "signed"),
        _average(target, "unsigned"),
        _average(target, "short"),
    ]


def _maximum(target: Target, kind: str, element: str, type_: Scalar) -> Unit:
    """Writes a maximum over windows. The zeros are the smallest values, which are never the result.

    Words: channels, taps, and the limits of the results. A work item is a position.
    """
    kernel = KernelWriter(target, f"first_max_{kind}", ("out", "input", "table", "zeros"))
    code = kernel.code
    channels, taps = kernel.word(0), kernel.word(1)
    low, high = kernel.word(2, element), kernel.word(3, element)

    def larger(v: Vector, one: str, other: str) -> str:
        return extreme(v, type_, element, one, other, is_minimum=False)

    first = {"float": -math.inf, "signed": -128, "unsigned": 0, "short": -(1 << 15)}[kind]
    with kernel.each_item() as position:
        begin, row = kernel.product(position, taps), kernel.product(position, channels)

        def write(v: Vector, index: str, begin: str = begin, row: str = row) -> None:
            with code.loop("0", taps, [(v.type(element), v.number(element, first))]) as loop:
                source = kernel.source(begin, loop.index, element)
                value = kernel.element(v, element, source, index)
                loop.results = [larger(v, loop.carried[0], value)]
            found = larger(v, loop.results[0], v.splat(element, low))
            found = extreme(v, type_, element, found, v.splat(element, high), is_minimum=True)
            store(v, element, found, "%out", kernel.sum(row, index))

        kernel.each_element(_widest(kernel, element), "0", channels, write)
    return kernel.unit()


def _widest(kernel: KernelWriter, element: str) -> Vector:
    return Vector(kernel.code, kernel.target, kernel.target.lanes(size_bytes(element)))


def _average(target: Target, kind: str, *, of_squares: bool = False) -> Unit:
    """Writes an average over windows; integers round to nearest, ties away from zero.

    Words: channels, taps, and the limits of the results. A work item is a position. `%counts` has
    the number of taps inside of the image.

    Args:
        target: the target.
        kind: the kind of the elements.
        of_squares: whether it is the root of the average of squares.
    """
    name = "norm" if of_squares else "average"
    kernel = KernelWriter(target, f"first_{name}_{kind}", ("out", "input", "table", "zeros", "counts"))
    code = kernel.code
    channels, taps = kernel.word(0), kernel.word(1)
    element = {"float": "float", "short": "i16"}.get(kind, "i8")
    total = "float" if kind == "float" else "i32"
    low, high = (kernel.word(number, total) for number in (2, 3))
    with kernel.each_item() as position:
        begin, row = kernel.product(position, taps), kernel.product(position, channels)
        count = kernel.element(kernel.single, "i32", "%counts", position)

        def write(v: Vector, index: str, begin: str = begin, row: str = row, count: str = count) -> None:
            with code.loop("0", taps, [(v.type(total), v.number(total, 0))]) as loop:
                value = kernel.element(v, element, kernel.source(begin, loop.index, element), index)
                if kind == "float":
                    value = v.binary("fmul", total, value, value) if of_squares else value
                    loop.results = [v.binary("fadd", total, loop.carried[0], value)]
                else:
                    value = v.cast("zext" if kind == "unsigned" else "sext", element, value, total)
                    loop.results = [v.binary("add", total, loop.carried[0], value)]
            found = loop.results[0]
            if kind == "float":
                divisor = v.splat("float", kernel.single.cast("sitofp", "i32", count, "float"))
                found = v.binary("fdiv", "float", found, divisor)
                found = v.call("llvm.sqrt", "float", found) if of_squares else found
                found = clamped(v, found, low, high)
            else:
                found = _rounded_quotient(v, found, count)
                found = v.call("llvm.smax", "i32", found, v.splat("i32", low))
                found = v.call("llvm.smin", "i32", found, v.splat("i32", high))
                found = v.cast("trunc", "i32", found, element)
            store(v, element, found, "%out", kernel.sum(row, index))

        kernel.each_element(kernel.vector, "0", channels, write)
    return kernel.unit()


def _rounded_quotient(v: Vector, total: str, count: str) -> str:
    """Returns i32 divided by a scalar, to nearest, ties away from zero.

    Quotients of integers of 32 bits as 64-bit floats are on the right side of all integers.
    """
    half = Vector(v.code, v.target, 1).binary("lshr", "i32", count, "1")
    magnitude = v.call("llvm.abs", "i32", total, flags=", i1 false")
    magnitude = v.binary("add", "i32", magnitude, v.splat("i32", half))
    divisor = v.cast("uitofp", "i32", v.splat("i32", count), "double")
    quotient = v.binary("fdiv", "double", v.cast("uitofp", "i32", magnitude, "double"), divisor)
    whole = v.cast("fptosi", "double", quotient, "i32")
    is_below = v.compare("slt", "i32", total, v.number("i32", 0))
    return v.select(is_below, "i32", v.binary("sub", "i32", v.number("i32", 0), whole), whole)
