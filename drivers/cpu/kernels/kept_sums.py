"""Sums of a tile that are kept in memory, so that what follows them is written once, in a loop over positions.

A tile ends with dozens of vectors of sums. As many copies of what follows would take most of the time in which a kernel is
compiled, and much of the cache for instructions; a store and a load of each vector are little beside that.
"""

from collections.abc import Callable, Sequence

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.counters import address, multiple

#: Sums are numbers of four bytes.
_SUM_BYTES = 4


def keep(v: Vector, element: str, totals: Sequence[str], pointer: str) -> None:
    """Stores sums.

    Args:
        v: as wide as vectors of sums are.
        element: the type of a sum: i32 or float.
        totals: the names of the vectors.
        pointer: the name of memory for them, aligned to a vector.
    """
    kind, size = v.type(element), v.lanes * _SUM_BYTES
    for number, each in enumerate(totals):
        at = address(v.code, pointer, str(number * size))
        v.code.effect(f"store {kind} {each}, ptr {at}, align {size}")


def each_kept(
    v: Vector,
    element: str,
    shape: tuple[int, int],
    pointer: str,
    write: Callable[[str, Sequence[str]], None],
    *,
    together: int,
) -> None:
    """Writes what is done with kept sums, in a loop over positions.

    Args:
        v: as wide as vectors of sums are.
        element: the type of a sum.
        shape: how many positions there are, and how many vectors each has; those of a position are one after another.
        pointer: the name of their memory.
        write: is called once, with the name of a position and the sums of that and of those after it. What it writes may be
            executed more than once for a position.
        together: for how many positions, no more than there are.
    """
    code, (count, vectors) = v.code, shape
    kind, size = v.type(element), v.lanes * _SUM_BYTES
    with code.loop("0", str(count), step=together) as loop:
        first = loop.index
        if count % together:
            first = Vector(code, v.target, 1).call("llvm.smin", "i64", first, str(count - together))
        start = address(code, pointer, multiple(code, first, vectors * size))
        at = [address(code, start, str(each * size)) for each in range(together * vectors)]
        write(first, [code.fresh(f"load {kind}, ptr {each}, align {size}") for each in at])
