"""Writes functions of bytes and of 16-bit integers that tables give."""

from neurald.drivers.cpu.emit.byte_tables import ENTRIES, is_permuted, permuted, permuted_lanes
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace


def lookup_units(target: Target) -> list[Unit]:
    """Returns the units of all sizes of elements and results."""
    return [_lookup(target, *each) for each in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4))]


def _lookup(target: Target, size: int, result_size: int) -> Unit:
    """Writes a function of bytes, given by its 256 results, or of 16-bit integers, given by 65,536.

    Words: elements. A work item is a block of them.

    Args:
        target: the target of the code.
        size, result_size: the sizes of elements and of results in bytes.
    """
    # Processors that permute bytes have the library of those that do not; see `built_library`.
    target = replace(target, has_byte_permutes=False)
    kernel = KernelWriter(target, f"first_lookup_{size}_{result_size}", ("out", "input", "lookup"))
    code, element, result = kernel.code, f"i{8 * size}", f"i{8 * result_size}"
    first, last = kernel.blocks()
    if element == "i8" and is_permuted(target, result, ENTRIES * result_size):
        v = Vector(code, target, permuted_lanes(target))
        middle = kernel.sum(
            first, multiple(code, kernel.split(kernel.difference(last, first), str(v.lanes))[0], v.lanes)
        )
        with code.loop(first, middle, step=v.lanes, may_be_empty=True) as loop:
            places = v.cast("zext", "i8", kernel.element(v, "i8", "%input", loop.index), "i16")
            store(v, result, permuted(v, result, "%lookup", places), "%out", loop.index)
        first = middle
    with code.loop(first, last, may_be_empty=True) as loop:
        value = kernel.element(kernel.single, element, "%input", loop.index)
        entry = code.value(f"zext {element} {value} to i64")
        found = kernel.element(kernel.single, result, "%lookup", entry)
        store(kernel.single, result, found, "%out", loop.index)
    return kernel.unit()
