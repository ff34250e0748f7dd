"""Writes sums of all elements before one."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def scan_units(target: Target) -> list[Unit]:
    """Returns the units of all cumulative sums."""
    return [_cumulative(target, element) for element in ("float", "i32", "i64")]


def _cumulative(target: Target, element: str) -> Unit:
    """Writes the cumulative sum along an axis.

    Words: its length, elements after the axis, the number of the first element that is added, the
    distance to the next one, and whether an element is not part of its own sum. A work item is an
    index before the axis.
    """
    kernel = KernelWriter(target, f"first_cumulative_{element}", ("out", "input"))
    length, inner, first, step = (kernel.word(number) for number in range(4))
    is_exclusive = kernel.single.compare("ne", "i64", kernel.word(4), "0")
    with kernel.each_item() as item:
        begin = kernel.sum(kernel.product(kernel.product(item, length), inner), first)

        def write(v: Vector, index: str, begin: str = begin) -> None:
            start = [(v.type(element), v.number(element, 0))]
            with kernel.code.loop("0", length, start) as position:
                at = kernel.sum(kernel.sum(begin, index), kernel.product(position.index, step))
                (before,) = position.carried
                operation = "fadd" if element == "float" else "add"
                after = v.binary(operation, element, before, kernel.element(v, element, "%input", at))
                store(v, element, v.select(v.splat("i1", is_exclusive), element, before, after), "%out", at)
                position.results = [after]

        kernel.each_element(kernel.vector, "0", inner, write)
    return kernel.unit()
