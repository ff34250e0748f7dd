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
    return [_bilinear(target, "float"), _bilinear(target, "signed")]


def _bilinear(target: Target, kind: str) -> Unit:
    """Writes an interpolation along lines, then along columns.

    `%table` has four numbers for each position: the first elements of the upper and the lower pixel
    on the left, and of those on the right. `%weights` has the weights of lower and of right pixels.
    Integers have weights in 1 / 2^10, and round to nearest, ties away from zero. Words: channels. A
    work item is a position.
    """
    kernel = KernelWriter(target, f"first_bilinear_{kind}", ("out", "input", "table", "weights"))
    is_float, channels = kind == "float", kernel.word(0)
    element, total = ("float", "float") if is_float else ("i8", "i32")
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
                pixels.append(value if is_float else v.cast("sext", element, value, total))
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
