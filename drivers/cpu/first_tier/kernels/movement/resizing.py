"""Writes interpolation between four neighbouring pixels."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Bits of the fractions of both weights of integers, which are 1 / 2^10.
_BITS = 20
_ONE = 1 << (_BITS // 2)


def resizing_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels that interpolate."""
    return [_bilinear(target, kind) for kind in ("float", "signed", "unsigned")]


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
                magnitude = v.call("llvm.abs", total, result, flags=", i1 false")
                magnitude = v.binary("add", total, magnitude, v.number(total, 1 << (_BITS - 1)))
                magnitude = v.binary("lshr", total, magnitude, v.number(total, _BITS))
                is_below = v.compare("slt", total, result, v.number(total, 0))
                negative = v.binary("sub", total, v.number(total, 0), magnitude)
                result = v.cast("trunc", total, v.select(is_below, total, negative, magnitude), element)
            store(v, element, result, "%out", kernel.sum(row, index))

        kernel.each_element(kernel.vector, "0", channels, write)
    return kernel.unit()


def _sum_of_products(v: Vector, pixels: list[str], befores: list[str], afters: list[str]) -> str:
    """Returns unsigned bytes, from floats in the order of `%table` and both pairs of weights."""
    total = v.number("float", 0)
    for number, pixel in enumerate(pixels):
        line, column = (afters if number & bit else befores for bit in (1, 2))
        part = v.binary("fmul", "float", pixel, v.splat("float", line[0]))
        part = v.binary("fmul", "float", part, v.splat("float", column[1]))
        total = v.binary("fadd", "float", total, part)
    total = v.call("llvm.floor", "float", v.binary("fadd", "float", total, v.number("float", 0.5)))
    whole = v.cast("fptosi", "float", total, "i32")
    whole = v.call("llvm.smax", "i32", whole, v.number("i32", 0))
    return v.cast("trunc", "i32", v.call("llvm.smin", "i32", whole, v.number("i32", 255)), "i8")
