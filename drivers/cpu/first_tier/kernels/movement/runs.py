"""Writes copies of runs of bytes, which may be shorter than a vector."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter


def write_run(kernel: KernelWriter, place: str, source: str, length: str) -> None:
    """Writes the copy of a run of bytes, which may be short.

    Vectors, or the largest elements that fit, overlap at the end of the run.

    Args:
        kernel: the function.
        place, source: the first bytes of the run in the output and in the input.
        length: bytes of the run; nothing is copied if it is not positive.
    """
    code, widest = kernel.code, kernel.target.lanes(1)
    size = 1
    while size <= widest:
        v = Vector(code, kernel.target, size)
        fits = kernel.single.compare("sge", "i64", length, str(size))
        if size < widest:
            is_short = kernel.single.compare("slt", "i64", length, str(2 * size))
            fits = kernel.single.binary("and", "i1", fits, is_short)
        last = kernel.difference(length, str(size))

        def write(at: str, v: Vector = v) -> None:
            value = kernel.element(v, "i8", "%input", kernel.sum(source, at))
            store(v, "i8", value, "%out", kernel.sum(place, at))

        with code.when(fits):
            if size < widest:
                write("0")
                if size > 1:
                    write(last)
            else:
                with code.loop("0", length, step=size) as part:
                    write(kernel.least(part.index, last))
        size *= 2
