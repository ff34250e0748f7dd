"""Writes interpolation between four neighbouring pixels: pixel by pixel, or line by line."""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import gather, store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Bits of the fractions of both weights of integers, which are 1 / 2^10.
_BITS = 20
_ONE = 1 << (_BITS // 2)


def resizing_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels that interpolate."""
    return [
        *(_bilinear(target, kind) for kind in ("float", "signed", "unsigned")),
        *(_bilinear_lines(target, kind) for kind in ("float", "signed", "unsigned", "short")),
    ]


def _bilinear(target: Target, kind: str) -> Unit:
    """Writes an interpolation along lines, then along columns.

    `%table` has four numbers for each position: the first elements of the upper and the lower pixel
    on the left, and of those on the right. `%weights` has the weights of lower and of right pixels.
    Signed integers have weights in 1 / 2^10, and round to nearest, ties away from zero. For
    unsigned ones, each pixel is multiplied by both weights, and the sum is rounded by its floor.
    Words: channels. A work item is a position.
    """
    kernel = KernelWriter(target, f"first_bilinear_{kind}", ("out", "input", "table", "weights"))
    is_float, channels = kind != "signed", kernel.word(0)
    element, total = "float" if kind == "float" else "i8", "float" if is_float else "i32"
    add, subtract, times = ("fadd", "fsub", "fmul") if is_float else ("add", "sub", "mul")
    single = kernel.single
    with kernel.each_item() as position:
        first = multiple(kernel.code, position, 4)
        offsets = [
            single.cast(
                "zext", "i32", kernel.element(single, "i32", "%table", kernel.sum(first, str(n))), "i64"
            )
            for n in range(4)
        ]
        place = multiple(kernel.code, position, 2)
        afters = [kernel.element(single, total, "%weights", kernel.sum(place, str(n))) for n in range(2)]
        one = single.number(total, 1 if is_float else _ONE)
        befores = [single.binary(subtract, total, one, each) for each in afters]
        row = kernel.product(position, channels)

        def write(
            v: Vector,
            index: str,
            offsets: list[str] = offsets,
            befores: list[str] = befores,
            afters: list[str] = afters,
            row: str = row,
        ) -> None:
            def between(one: str, other: str, axis: int) -> str:
                return v.binary(
                    add,
                    total,
                    v.binary(times, total, one, v.splat(total, befores[axis])),
                    v.binary(times, total, other, v.splat(total, afters[axis])),
                )

            pixels = []
            for offset in offsets:
                value = kernel.element(v, element, "%input", kernel.sum(offset, index))
                if kind != "float":
                    value = v.cast("sext" if kind == "signed" else "uitofp", element, value, total)
                pixels.append(value)
            if kind == "unsigned":
                store(
                    v, element, _sum_of_products(v, pixels, befores, afters), "%out", kernel.sum(row, index)
                )
                return
            left, right = between(pixels[0], pixels[1], 0), between(pixels[2], pixels[3], 0)
            result = between(left, right, 1)
            if not is_float:
                result = _rounded(v, total, result, element)
            store(v, element, result, "%out", kernel.sum(row, index))

        kernel.each_element(kernel.vector, "0", channels, write)
    return kernel.unit()


def _bilinear_lines(target: Target, kind: str) -> Unit:
    """Writes an interpolation of a line of the output: between two lines first, then along these.

    It gives the results of `_bilinear`, and takes less time if pixels have few elements. Integers
    of 16 bits have sums of 64 bits. `%rows` has two numbers for each line of the output: the first
    elements of the upper and the lower line of the input; and `%below` the weight of the lower one.
    `%columns` has the places of the left elements in a line for each element of an output's line,
    then those of the right ones; and `%beside` the weights of the right ones. `%lines` has memory
    for each work item: a line of sums; for unsigned bytes those of the upper and of the lower line.
    Words: elements of a line of the output and of the input, lines of the output, and those of a
    work item.
    """
    pointers = ("out", "input", "lines", "rows", "below", "columns", "beside")
    kernel = KernelWriter(target, f"first_bilinear_lines_{kind}", pointers)
    code, single, is_float = kernel.code, kernel.single, kind in ("float", "unsigned")
    element = {"float": "float", "short": "i16"}.get(kind, "i8")
    line, wide = "float" if is_float else "i32", {"float": "float", "short": "i64"}.get(kind, "i32")
    wide = "float" if is_float else wide
    subtract, times, add = ("fsub", "fmul", "fadd") if is_float else ("sub", "mul", "add")
    length, given, rows, per_item = (kernel.word(number) for number in range(4))
    one = single.number(line, 1 if is_float else _ONE)
    count = 2 if kind == "unsigned" else 1

    def as_sum(v: Vector, value: str) -> str:
        if kind == "float":
            return value
        return v.cast("uitofp" if kind == "unsigned" else "sext", element, value, line)

    def long(v: Vector, value: str) -> str:
        return value if wide == line else v.cast("sext", line, value, wide)

    with kernel.each_item() as item:
        memory = kernel.product(kernel.product(item, given), str(count))
        first = kernel.product(item, per_item)
        last = kernel.least(kernel.sum(first, per_item), rows)
        with code.loop(first, last, may_be_empty=True) as row:
            starts = []
            for number in range(2):
                at = kernel.sum(multiple(code, row.index, 2), str(number))
                starts.append(single.cast("zext", "i32", kernel.element(single, "i32", "%rows", at), "i64"))
            after = kernel.element(single, line, "%below", row.index)
            before = single.binary(subtract, line, one, after)
            places = [kernel.sum(memory, kernel.product(given, str(number))) for number in range(count)]

            def between_lines(
                v: Vector,
                index: str,
                starts: list[str] = starts,
                weights: tuple[str, str] = (before, after),
                places: list[str] = places,
            ) -> None:
                parts = [
                    v.binary(
                        times,
                        line,
                        as_sum(v, kernel.element(v, element, "%input", kernel.sum(start, index))),
                        v.splat(line, weight),
                    )
                    for start, weight in zip(starts, weights, strict=True)
                ]
                if len(places) == 1:
                    parts = [v.binary(add, line, *parts)]
                for place, part in zip(places, parts, strict=True):
                    store(v, line, part, "%lines", kernel.sum(place, index))

            kernel.each_element(kernel.vector, "0", given, between_lines)
            target_row = kernel.product(row.index, length)

            def along_lines(
                v: Vector, index: str, places: list[str] = places, target_row: str = target_row
            ) -> None:
                right = kernel.element(v, line, "%beside", index)
                weights = v.binary(subtract, line, v.splat(line, one), right), right
                parts = []
                for number, weight in enumerate(weights):
                    at = kernel.sum(kernel.product(length, str(number)), index)
                    offsets = kernel.element(v, "i32", "%columns", at)
                    for place in places:
                        value = gather(v, line, kernel.at(line, "%lines", place), "i32", offsets)
                        parts.append(v.binary(times, wide, long(v, value), long(v, weight)))
                if kind == "unsigned":
                    result = _nearest_byte(v, parts)
                else:
                    result = v.binary(add, wide, *parts)
                    if not is_float:
                        result = _rounded(v, wide, result, element)
                store(v, element, result, "%out", kernel.sum(target_row, index))

            kernel.each_element(kernel.vector, "0", length, along_lines)
    return kernel.unit()


def _rounded(v: Vector, total: str, value: str, element: str) -> str:
    """Returns sums of integers without their fractions, rounded with ties away from zero."""
    magnitude = v.call("llvm.abs", total, value, flags=", i1 false")
    magnitude = v.binary("add", total, magnitude, v.number(total, 1 << (_BITS - 1)))
    magnitude = v.binary("lshr", total, magnitude, v.number(total, _BITS))
    is_below = v.compare("slt", total, value, v.number(total, 0))
    negative = v.binary("sub", total, v.number(total, 0), magnitude)
    return v.cast("trunc", total, v.select(is_below, total, negative, magnitude), element)


def _sum_of_products(v: Vector, pixels: list[str], befores: list[str], afters: list[str]) -> str:
    """Returns unsigned bytes, from floats in the order of `%table` and both pairs of weights."""
    parts = []
    for number, pixel in enumerate(pixels):
        line, column = (afters if number & bit else befores for bit in (1, 2))
        part = v.binary("fmul", "float", pixel, v.splat("float", line[0]))
        parts.append(v.binary("fmul", "float", part, v.splat("float", column[1])))
    return _nearest_byte(v, parts)


def _nearest_byte(v: Vector, parts: Sequence[str]) -> str:
    """Returns the sums of floats as unsigned bytes."""
    total = v.number("float", 0)
    for part in parts:
        total = v.binary("fadd", "float", total, part)
    total = v.call("llvm.floor", "float", v.binary("fadd", "float", total, v.number("float", 0.5)))
    whole = v.cast("fptosi", "float", total, "i32")
    whole = v.call("llvm.smax", "i32", whole, v.number("i32", 0))
    return v.cast("trunc", "i32", v.call("llvm.smin", "i32", whole, v.number("i32", 255)), "i8")
