"""LLVM IR that computes the sizes of a step with open dimensions from the lengths of an execution.

A new length must not take longer than a small model runs: to compute its numbers with objects of
Python, or arrays of NumPy, takes several times as long.

Layouts (words of 64 bits):

    sum       number of terms; for each of them its factor, the number of atoms, and these
    program   numbers of open dimensions, divisions, guards, values, and values that must not be
              negative; the least and the greatest length of each open dimension; kind, dividend and
              divisor of each division; relation, whether it holds, and sum of each guard; the sum
              of each value; the values that must not be negative
    step      numbers of values, ports, arguments, calls, extents and sizes of scratch memory; for
              each value how many sizes it has, and these; for each port its value, or -1, its size,
              the bytes of an element, its rank and its dimensions; for each argument its value and
              the offset in it, or -1 and an offset that does not change; for each call its work
              items and the cost of one (a double); the extents; the sizes of scratch memory
    plan      bytes of the arena; the offset of each value; the bytes that it has
    sizes     bytes of scratch memory; sum of the costs (a double); for each port its offset in the
              arena, or -1, its size and its dimensions; the offset of each argument; for each call
              the last four words of its record; its cost (a double); the extents

All sizes, dimensions and so on of a step are positions among the values of the program.
"""

from enum import IntEnum
from typing import Final

from neurald.drivers.compiler.memory.extent_program import EXCESS, MAX_NUMBER, NEGATIVE, QUOTIENT
from neurald.drivers.cpu.target.executable import MAX_COST_NS, RECORD_NS, UNSHARED

#: The names of the native functions.
SIZING_FUNCTIONS: Final = ("neurald_evaluate", "neurald_size")


class SizeRefusal(IntEnum):
    """A step has no sizes: a value has more bytes than planned, or numbers are wrong."""

    NO_ROOM = 1
    OUTSIDE = 2
    WRONG_PORT = 3
    WRONG_COST = 4


def sizing_program_text() -> str:
    """Returns the IR of the functions."""
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    return kernel_text(
        __name__,
        "sizing_program.ll",
        MAX_NUMBER=MAX_NUMBER,
        QUOTIENT=QUOTIENT,
        EXCESS=EXCESS,
        NEGATIVE=NEGATIVE,
        MAX_COST=float(MAX_COST_NS),
        RECORD_NS=RECORD_NS,
        UNSHARED=UNSHARED,
        **{each.name: int(each) for each in SizeRefusal},
    )
