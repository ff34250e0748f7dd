"""Writes kernels that write rows or marks at places that numbers in memory give."""

from typing import Final

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import REDUCTIONS, RowReduction
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Sums of integers of a type, which wrap around; any is a sum of booleans.
_OTHER_SUMS: Final = (
    RowReduction(name="sum_byte", element="i8", total="i8", start=0, combine="add"),
    RowReduction(name="sum_short", element="i16", total="i16", start=0, combine="add"),
    RowReduction(name="sum_bool", element="i8", total="i8", start=0, combine="or"),
)


def scattering_units(target: Target) -> list[Unit]:
    """Returns the units of all kernels that scatter rows, or mark places."""
    reductions = [each for each in REDUCTIONS if each.element in ("float", "i32", "i64") and not each.result]
    added = [each for each in reductions if each.name.startswith("sum_")]
    segments = [each for each in reductions if each.element != "i64" and each not in added]
    sums = (*added, *_OTHER_SUMS)
    return [
        *(_scatter(target, each, "i32") for each in (*sums, *segments)),
        *(_scatter(target, each, "i64") for each in sums),
        *(_one_hot(target, size, index) for size in (1, 4) for index in ("i32", "i64")),
    ]


def _scatter(target: Target, how: RowReduction, index: str) -> Unit:
    """Writes the reduction of rows whose places in the output are in memory, one after another.

    `%axes` has the length of each axis that an index is for, and rows from one of its positions to
    the next. Words: elements of a row, rows of the output and of the input, the number of axes,
    whether rows with negative indexes are left out, and what the reduction starts with. A work item
    is a block of the elements of all rows.
    """
    kernel = KernelWriter(target, f"first_scatter_{how.name}_{index}", ("out", "updates", "index", "axes"))
    code, single, v, element = kernel.code, kernel.single, kernel.vector, how.element
    run, rows, count, depth = (kernel.word(number) for number in range(4))
    leaves_out = single.compare("ne", "i64", kernel.word(4), "0")
    start = kernel.word(5, element)
    with kernel.each_item() as item:
        first = multiple(code, item, BLOCK)
        last = kernel.least(kernel.sum(first, str(BLOCK)), run)
        with code.loop("0", rows) as row:
            place = kernel.product(row.index, run)

            def begin(v: Vector, at: str, place: str = place) -> None:
                store(v, element, v.splat(element, start), "%out", kernel.sum(place, at))

            kernel.each_element(v, first, last, begin)
        with code.loop("0", count) as update:
            indexes = kernel.product(update.index, depth)
            with code.loop("0", depth, [("i64", "0"), ("i1", "true")]) as axis:
                at = multiple(code, axis.index, 2)
                length = kernel.element(single, "i64", "%axes", at)
                step = kernel.element(single, "i64", "%axes", kernel.sum(at, "1"))
                number = kernel.element(single, index, "%index", kernel.sum(indexes, axis.index))
                number = number if index == "i64" else single.cast("sext", index, number, "i64")
                is_inside = single.compare("ult", "i64", number, length)
                is_skipped = single.binary("and", "i1", leaves_out, single.compare("slt", "i64", number, "0"))
                is_wrong = single.binary(
                    "xor", "i1", single.binary("or", "i1", is_inside, is_skipped), "true"
                )
                with code.when(is_wrong):
                    code.effect(f"store i32 1, ptr %status, align {WORD_BYTES}")
                axis.results = [
                    kernel.sum(axis.carried[0], kernel.product(number, step)),
                    single.binary("and", "i1", axis.carried[1], is_inside),
                ]
            place, source = (kernel.product(each, run) for each in (axis.results[0], update.index))
            with code.when(axis.results[1]):

                def combine(v: Vector, at: str, place: str = place, source: str = source) -> None:
                    where = kernel.sum(place, at)
                    before = kernel.element(v, element, "%out", where)
                    value = kernel.element(v, element, "%updates", kernel.sum(source, at))
                    store(v, element, how.combined(v, before, value), "%out", where)

                kernel.each_element(v, first, last, combine)
    return kernel.unit()


def _one_hot(target: Target, size: int, index: str) -> Unit:
    """Writes one of two values, depending on whether an index is the position along a new axis.

    Words: elements after the new axis, and its length. A work item is a position along it.
    """
    kernel = KernelWriter(target, f"first_one_hot_{size}_{index}", ("out", "index", "on", "off"))
    code, single, element = kernel.code, kernel.single, f"i{8 * size}"
    v = Vector(code, target, target.lanes(8 if index == "i64" else WORD_BYTES))
    inner, depth = kernel.word(0), kernel.word(1)
    on, off = (kernel.element(single, element, pointer, "0") for pointer in ("%on", "%off"))
    with kernel.each_item() as item:
        outer, position = kernel.split(item, depth)
        source, place = kernel.product(outer, inner), kernel.product(item, inner)
        wanted = position if index == "i64" else code.value(f"trunc i64 {position} to {index}")

        def write(v: Vector, at: str, source: str = source, place: str = place, wanted: str = wanted) -> None:
            number = kernel.element(v, index, "%index", kernel.sum(source, at))
            is_on = v.compare("eq", index, number, v.splat(index, wanted))
            value = v.select(is_on, element, v.splat(element, on), v.splat(element, off))
            store(v, element, value, "%out", kernel.sum(place, at))

        kernel.each_element(v, "0", inner, write)
    return kernel.unit()
