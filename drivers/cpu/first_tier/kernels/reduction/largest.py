"""Writes the search for the largest elements of rows, in order."""

from typing import Final

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.reduction.extremes import KINDS
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import across
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, size_bytes
from neurald.drivers.cpu.kernels.row_wise import heap_top_k
from neurald.drivers.cpu.kernels.row_wise.sort_keys import key_bits, keys_at
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

_KINDS: Final = {**KINDS, Scalar.INT64: "long"}


def largest_units(target: Target) -> list[Unit]:
    """Returns the units of all searches."""
    return [_search(target, kind, position) for kind in _KINDS for position in ("i32", "i64")]


def _search(target: Target, kind: Scalar, position: str) -> Unit:
    """Writes the search for the largest elements of a row, and where they are.

    An element is a *mark*: its key, and its number or the complement of that, so that marks differ
    and have the order of the result. The best ones are a heap with the least at its root, in
    `marks`. Most elements of a long row are less, so keys are compared with it a vector at a time.

    Words: elements of a row, how many of them are wanted, and what numbers are combined with by
    XOR: 0 if the last of equal elements comes first, else -1. A work item is a row.
    """
    name, bits = f"first_largest_{_KINDS[kind]}_{position}", key_bits(kind)
    kernel = KernelWriter(target, name, ("out", "positions", "input", "marks"))
    code, single = kernel.code, kernel.single
    v, key_type, mark_type = Vector(code, target, target.lanes(bits // 8)), f"i{bits}", f"i{2 * bits}"
    code.globals.append(kernel_text(heap_top_k.__name__, "heap_top_k.ll", KERNEL=name, MARK=mark_type))
    length, count, mask = kernel.word(0), kernel.word(1), kernel.word(2, "i32")
    element, align = f"i{8 * kind.size_bytes}", 2 * bits // 8

    def mark_of(begin: str, number: str) -> str:
        low = single.binary("xor", "i32", code.value(f"trunc i64 {number} to i32"), mask)
        key = keys_at(single, kind, "%input", kernel.sum(begin, number))
        high = single.binary("shl", mark_type, single.cast("sext", key_type, key, mark_type), str(bits))
        return single.binary("or", mark_type, high, single.cast("zext", "i32", low, mark_type))

    def sift(heap: str, left: str, mark: str) -> None:
        code.effect(f"call void @{name}_sift(ptr {heap}, i64 0, i64 {left}, {mark_type} {mark})")

    def try_element(heap: str, begin: str, number: str) -> None:
        mark = mark_of(begin, number)
        with code.when(single.compare("sgt", mark_type, mark, kernel.loaded(mark_type, heap, align))):
            sift(heap, count, mark)

    with kernel.each_item() as item:
        begin, place = kernel.product(item, length), kernel.product(item, count)
        heap = kernel.at(mark_type, "%marks", place)
        with code.loop("0", count) as start:
            at = kernel.at(mark_type, heap, start.index)
            code.effect(f"store {mark_type} {-1 << 2 * bits - 1}, ptr {at}, align {align}")
        whole = kernel.product(single.binary("udiv", "i64", length, str(v.lanes)), str(v.lanes))
        with code.loop("0", whole, step=v.lanes, may_be_empty=True) as loop:
            keys = keys_at(v, kind, "%input", kernel.sum(begin, loop.index))
            best = across(v, key_type, "smax", keys)
            least = code.value(f"ashr {mark_type} {kernel.loaded(mark_type, heap, align)}, {bits}")
            # Equal keys may be better marks.
            is_wanted = single.compare(
                "sge", mark_type, single.cast("sext", key_type, best, mark_type), least
            )
            with code.when(is_wanted), code.loop("0", str(v.lanes)) as lane:
                try_element(heap, begin, kernel.sum(loop.index, lane.index))
        with code.loop(whole, length, may_be_empty=True) as rest:
            try_element(heap, begin, rest.index)
        # The least one goes to the end, and so on.
        with code.loop("1", count, may_be_empty=True) as turn:
            last = kernel.difference(count, turn.index)
            end = kernel.at(mark_type, heap, last)
            moved, least = (kernel.loaded(mark_type, each, align) for each in (end, heap))
            sift(heap, last, moved)
            code.effect(f"store {mark_type} {least}, ptr {end}, align {align}")
        with code.loop("0", count) as each:
            mark = kernel.loaded(mark_type, kernel.at(mark_type, heap, each.index), align)
            number = single.binary("xor", "i32", code.value(f"trunc {mark_type} {mark} to i32"), mask)
            where = single.cast("zext", "i32", number, "i64")
            found = kernel.element(single, element, "%input", kernel.sum(begin, where))
            at = kernel.sum(place, each.index)
            code.effect(
                f"store {element} {found}, ptr {kernel.at(element, '%out', at)}, align {kind.size_bytes}"
            )
            stored = where if position == "i64" else number
            code.effect(
                f"store {position} {stored}, ptr {kernel.at(position, '%positions', at)}, "
                f"align {size_bytes(position)}"
            )
    return kernel.unit()
