"""Writes copies of runs of bytes, which may be shorter than a vector."""

from collections.abc import Callable, Iterator

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter

#: Writes the copy of a run, whose first bytes in the output and in the input are given.
Copy = Callable[[str, str], None]


def write_run(kernel: KernelWriter, place: str, source: str, length: str) -> None:
    """Writes the copy of a run of bytes, which may be short.

    Args:
        kernel: the function.
        place, source: the first bytes of the run in the output and in the input.
        length: bytes of the run; nothing is copied if it is not positive.
    """
    for fits, copy in run_forms(kernel, length):
        with kernel.code.when(fits):
            copy(place, source)


def run_forms(kernel: KernelWriter, length: str) -> Iterator[tuple[str, Copy]]:
    """Yields the ways to copy runs by their lengths, and which of them is for a length (i1).

    Vectors, or the largest elements that fit, overlap at the end of a run.

    Args:
        kernel: the function.
        length: bytes of the runs; no way is for numbers that are not positive.
    """
    code, single, widest, size = kernel.code, kernel.single, kernel.target.lanes(1), 1
    while size <= widest:
        v = Vector(code, kernel.target, size)
        fits, last = single.compare("sge", "i64", length, str(size)), kernel.difference(length, str(size))
        if size < widest:
            is_short = single.compare("slt", "i64", length, str(2 * size))
            fits = single.binary("and", "i1", fits, is_short)

        def copy(place: str, source: str, v: Vector = v, last: str = last) -> None:
            def write(at: str) -> None:
                value = kernel.element(v, "i8", "%input", kernel.sum(source, at))
                store(v, "i8", value, "%out", kernel.sum(place, at))

            if v.lanes == widest:
                with code.loop("0", length, step=v.lanes) as part:
                    write(kernel.least(part.index, last))
                return
            write("0")
            if v.lanes > 1:
                write(last)

        yield fits, copy
        size *= 2
