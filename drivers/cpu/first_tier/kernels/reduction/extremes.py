"""Writes the search for the position of the largest or smallest element."""

from typing import Final

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import across
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.kernels.row_wise.sort_keys import keys_at
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

_LEAST, _LARGEST = -(1 << 31), (1 << 31) - 1
#: The part of a function's name for a type of elements.
KINDS: Final = {
    Scalar.FLOAT32: "float",
    Scalar.INT32: "word",
    Scalar.INT8: "signed",
    Scalar.UINT8: "unsigned",
}


def extreme_units(target: Target) -> list[Unit]:
    """Returns the units of all searches."""
    return [
        _search(target, kind, output, is_row=is_row)
        for kind in KINDS
        for output in ("i32", "i64")
        for is_row in (True, False)
    ]


def _search(target: Target, kind: Scalar, output: str, *, is_row: bool) -> Unit:
    """Writes the search in rows, or in columns, which have neighbours.

    The first of equal elements counts, and NaN before all others. Words: elements that are
    searched, columns, and what keys are combined with by XOR: -1 to find the smallest, else 0. A
    work item is a row, or a matrix of columns.
    """
    name = f"first_extreme_{KINDS[kind]}_{'rows' if is_row else 'columns'}_{output}"
    kernel = KernelWriter(target, name, ("out", "input"))
    code, single = kernel.code, kernel.single
    length, columns, mask = kernel.word(0), kernel.word(1), kernel.word(2, "i32")

    def keys(v: Vector, at: str) -> str:
        plain = keys_at(v, kind, "%input", at)
        found = v.binary("xor", "i32", plain, v.splat("i32", mask))
        if not kind.is_float:
            return found
        nothing = v.number("i32", _LARGEST)
        return v.select(v.compare("eq", "i32", plain, nothing), "i32", nothing, found)

    def better(v: Vector, at: str, number: str, best: str, where: str) -> list[str]:
        """Returns the best keys and where they are, with those of other elements."""
        found = keys(v, at)
        is_better = v.compare("sgt", "i32", found, best)
        return [v.select(is_better, "i32", found, best), v.select(is_better, "i32", number, where)]

    def start(v: Vector) -> list[tuple[str, str]]:
        # Without a better key, the first element is the one.
        return [(v.type("i32"), v.number("i32", _LEAST)), (v.type("i32"), v.number("i32", 0))]

    def short(number: str) -> str:
        return code.value(f"trunc i64 {number} to i32")

    def write(v: Vector, where: str, place: str) -> None:
        store(v, output, v.cast("sext", "i32", where, output) if output == "i64" else where, "%out", place)

    with kernel.each_item() as item:
        begin = kernel.product(kernel.product(item, length), columns)
        if is_row:
            v = kernel.vector
            lanes = v.numbers("i32", range(v.lanes))
            whole = kernel.product(single.binary("udiv", "i64", length, str(v.lanes)), str(v.lanes))
            with code.loop("0", whole, start(v), step=v.lanes, may_be_empty=True) as loop:
                number = v.binary("add", "i32", lanes, v.splat("i32", short(loop.index)))
                loop.results = better(v, kernel.sum(begin, loop.index), number, *loop.carried)
            best = across(v, "i32", "smax", loop.results[0])
            is_best = v.compare("eq", "i32", loop.results[0], v.splat("i32", best))
            among = v.select(is_best, "i32", loop.results[1], v.number("i32", _LARGEST))
            first = across(v, "i32", "smin", among)
            with code.loop(whole, length, [("i32", best), ("i32", first)], may_be_empty=True) as rest:
                rest.results = better(single, kernel.sum(begin, rest.index), short(rest.index), *rest.carried)
            write(single, rest.results[1], item)
        else:
            place = kernel.product(item, columns)

            def column(v: Vector, index: str, begin: str = begin, place: str = place) -> None:
                with code.loop("0", length, start(v)) as loop:
                    at = kernel.sum(kernel.sum(begin, kernel.product(loop.index, columns)), index)
                    number = v.splat("i32", short(loop.index))
                    loop.results = better(v, at, number, *loop.carried)
                write(v, loop.results[1], kernel.sum(place, index))

            kernel.each_element(kernel.vector, "0", columns, column)
    return kernel.unit()
