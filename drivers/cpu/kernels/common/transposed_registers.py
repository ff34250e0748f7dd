"""Transposes square matrices in vector registers."""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import vector_type


def transposed(code: Instructions, element: str, rows: Sequence[str]) -> list[str]:
    """Returns the columns of a square matrix.

    Args:
        code: receives the instructions.
        element: LLVM type of an element.
        rows: vectors, as many as each has lanes: a power of two.
    """
    count = len(rows)
    if count == 1:
        return list(rows)
    kind = vector_type(element, count)
    # Interleaving each row with the row half the matrix further rotates the bits of an element's
    # index (row bits, then column bits) by one. After half of the bits, rows have become columns.
    half = count // 2
    positions = [
        ", ".join(f"i32 {lane // 2 + lane % 2 * count + first}" for lane in range(count))
        for first in (0, half)
    ]
    for _ in range(count.bit_length() - 1):
        rows = [
            code.fresh(f"shufflevector {kind} {upper}, {kind} {lower}, <{count} x i32> <{each}>")
            for upper, lower in zip(rows[:half], rows[half:], strict=True)
            for each in positions
        ]
    return list(rows)
