"""Writes the numbers of the buckets that numbers belong to."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def bucket_units(target: Target) -> list[Unit]:
    """Returns the units for all types of numbers."""
    return [_buckets(target, element) for element in ("float", "double", "i32", "i64")]


def _buckets(target: Target, element: str) -> Unit:
    """Writes how many boundaries, which are floats, are not above each number. NaN is above all.

    Integers are compared as floats. Words: numbers, and boundaries, of which there are some. A work
    item is a block of numbers.
    """
    kernel = KernelWriter(target, f"first_buckets_{element}", ("out", "input", "boundaries"))
    code, boundaries = kernel.code, kernel.word(1)
    compared = "double" if element == "double" else "float"

    def write(v: Vector, index: str) -> None:
        value = kernel.element(v, element, "%input", index)
        if element not in ("float", "double"):
            value = v.cast("sitofp", element, value, "float")
        with code.loop("0", boundaries, [(v.type("i32"), v.number("i32", 0))]) as loop:
            boundary = kernel.element(kernel.single, "float", "%boundaries", loop.index)
            if compared == "double":
                boundary = kernel.single.cast("fpext", "float", boundary, "double")
            is_reached = v.compare("uge", compared, value, v.splat(compared, boundary))
            one = v.cast("zext", "i1", is_reached, "i32")
            loop.results = [v.binary("add", "i32", loop.carried[0], one)]
        store(v, "i32", loop.results[0], "%out", index)

    kernel.each_element(kernel.vector, *kernel.blocks(), write)
    return kernel.unit()
