"""Writes the normalisation of elements by their neighbours."""

from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def local_response_units(target: Target) -> list[Unit]:
    """Returns the units for any exponent, and for square roots."""
    return [_local_response(target, is_root=each) for each in (False, True)]


def _local_response(target: Target, *, is_root: bool) -> Unit:
    """Writes the normalisation.

    Words: elements of a row, how far neighbours are away at most, then, as floats, what is added to
    their sum of squares, its factor, and the exponent. A work item is a row.

    Args:
        target: the target of the code.
        is_root: True if elements are divided by a square root, whatever the exponent is.
    """
    name = "first_local_response_root" if is_root else "first_local_response"
    kernel = KernelWriter(target, name, ("out", "input"))
    code, single = kernel.code, kernel.single
    length, radius = kernel.word(0), kernel.word(1)
    bias, factor, exponent = (kernel.word(number, "float") for number in range(2, 5))
    with kernel.each_item() as row:
        begin = kernel.product(row, length)
        with code.loop("0", length) as element:
            first = single.call("llvm.smax", "i64", kernel.difference(element.index, radius), "0")
            last = kernel.least(kernel.sum(kernel.sum(element.index, radius), "1"), length)
            with code.loop(first, last, [("float", single.number("float", 0))]) as neighbour:
                value = kernel.element(single, "float", "%input", kernel.sum(begin, neighbour.index))
                square = single.binary("fmul", "float", value, value)
                neighbour.results = [single.binary("fadd", "float", neighbour.carried[0], square)]
            store(single, "float", neighbour.results[0], "%out", kernel.sum(begin, element.index))

    def write(v: Vector, index: str) -> None:
        total = v.binary("fmul", "float", kernel.element(v, "float", "%out", index), v.splat("float", factor))
        total = v.binary("fadd", "float", total, v.splat("float", bias))
        value = kernel.element(v, "float", "%input", index)
        if is_root:
            value = v.binary("fdiv", "float", value, v.call("llvm.sqrt", "float", total))
        else:
            factor_of_value = vector_math.power(v, "float", total, v.splat("float", exponent))
            value = v.binary("fmul", "float", value, factor_of_value)
        store(v, "float", value, "%out", index)

    begin, end = (kernel.product(each, length) for each in ("%begin", "%end"))
    kernel.each_element(kernel.vector, begin, end, write)
    return kernel.unit()
