"""Spills the accumulators of a tile to memory, so that a loop over positions computes the epilogue.

A tile ends with dozens of vectors of accumulators. Inlining the epilogue for each of them would
dominate compile time and fill the instruction cache; a store and a load per vector cost little in
comparison.
"""

from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple

#: Size of an accumulator: INT32 or FLOAT32.
_ACCUMULATOR_BYTES = 4


def spill(v: Vector, element: str, totals: Sequence[str], pointer: str) -> None:
    """Stores accumulators.

    Args:
        v: receives the instructions; as wide as vectors of accumulators.
        element: type of an accumulator: i32 or float.
        totals: names of the vectors.
        pointer: address of memory for them, aligned to a vector.
    """
    kind, size = v.type(element), v.lanes * _ACCUMULATOR_BYTES
    for number, each in enumerate(totals):
        at = address(v.code, pointer, str(number * size))
        v.code.effect(f"store {kind} {each}, ptr {at}, align {size}")


def each_spilled_position(
    v: Vector,
    element: str,
    shape: tuple[int, int],
    pointer: str,
    write: Callable[[str, Sequence[str]], None],
    *,
    together: int,
) -> None:
    """Writes a loop over positions with spilled accumulators.

    Args:
        v: receives the instructions; as wide as vectors of accumulators.
        element: type of an accumulator.
        shape: number of positions and of vectors per position; the vectors of a position are
            contiguous.
        pointer: address of the spilled accumulators.
        write: called once, with the name of a position and the accumulators of this position and
            the following ones. Its code may run more than once for a position.
        together: number of positions per iteration, at most that of all positions unless it is
            open.
    """
    code, (count, vectors) = v.code, shape
    kind, size = v.type(element), v.lanes * _ACCUMULATOR_BYTES

    def write_some(first: str, number: int) -> None:
        start = address(code, pointer, multiple(code, first, vectors * size))
        at = [address(code, start, str(each * size)) for each in range(number * vectors)]
        write(first, [code.fresh(f"load {kind}, ptr {each}, align {size}") for each in at])

    if isinstance(count, Extent) and together > 1:
        # There may be fewer than are written together.
        whole = count // together * together
        with code.loop("0", str(whole), step=together, may_be_empty=True) as loop:
            write_some(loop.index, together)
        with code.loop(str(whole), str(count), may_be_empty=True) as loop:
            write_some(loop.index, 1)
        return
    with code.loop("0", str(count), step=together) as loop:
        first = loop.index
        if count % together:
            first = Vector(code, v.target, 1).call("llvm.smin", "i64", first, str(count - together))
        write_some(first, together)
