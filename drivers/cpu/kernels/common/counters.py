"""Loops over grains that count in several dimensions, without a division per grain."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.cpu.emit.instructions import Instructions

#: Size of a cache line.
LINE_BYTES = 64


@contextmanager
def each_grain(code: Instructions, extents: Sequence[int]) -> Iterator[tuple[list[str], str]]:
    """Writes a loop over the grains from `%begin` to below `%end`.

    Args:
        code: receives the instructions.
        extents: of the dimensions of grains, slowest first; their product is the number of grains.

    Yields:
        The index of the grain in each dimension, and an i1 that is true for the first grain of the
        range.
    """
    digits = _digits(code, extents)
    carried = [("i64", digit) for digit, extent in zip(digits, extents, strict=True) if extent > 1]
    with code.loop("%begin", "%end", carried, may_be_empty=True) as loop:
        names = iter(loop.carried)
        position = [next(names) if extent > 1 else "0" for extent in extents]
        yield position, code.value(f"icmp eq i64 {loop.index}, %begin")
        loop.results = _successor(code, position, extents)


def _digits(code: Instructions, extents: Sequence[int]) -> list[str]:
    """Returns the index of the first grain."""
    digits = []
    for dimension, extent in enumerate(extents):
        inner, digit = math.prod(extents[dimension + 1 :]), "%begin"
        if inner > 1:
            digit = code.value(f"udiv i64 {digit}, {inner}")
        if extent > 1 and math.prod(extents[:dimension]) > 1:
            digit = code.value(f"urem i64 {digit}, {extent}")
        digits.append(digit)
    return digits


def _successor(code: Instructions, position: Sequence[str], extents: Sequence[int]) -> list[str]:
    """Returns the index of the next grain, without dimensions of length 1."""
    results: list[str] = []
    carry = "1"
    for digit, extent in reversed(list(zip(position, extents, strict=True))):
        if extent == 1:
            continue
        following = code.value(f"add i64 {digit}, {carry}")
        is_over = code.value(f"icmp eq i64 {following}, {extent}")
        results.append(code.value(f"select i1 {is_over}, i64 0, i64 {following}"))
        carry = code.value(f"zext i1 {is_over} to i64")
    return results[::-1]


def multiple(code: Instructions, name: str, factor: int) -> str:
    """Multiplies an i64 by a constant."""
    if name == "0" or factor == 0:
        return "0"
    return name if factor == 1 else code.value(f"mul i64 {name}, {factor}")


def total(code: Instructions, *names: str) -> str:
    """Adds i64 names and numbers."""
    known = sum(int(each) for each in names if not each.startswith("%"))
    variable = [each for each in names if each.startswith("%")]
    if not variable:
        return str(known)
    result = variable[0]
    for each in variable[1:]:
        result = code.value(f"add i64 {result}, {each}")
    return code.value(f"add i64 {result}, {known}") if known else result


def address(code: Instructions, base: str, *offsets: str) -> str:
    """Offsets a pointer by bytes, without hoisting."""
    offset = total(code, *offsets)
    return base if offset == "0" else code.fresh(f"getelementptr i8, ptr {base}, i64 {offset}")


def opaque(code: Instructions, pointer: str) -> str:
    """Hides a pointer's dependence on loop counters from LLVM, without hoisting.

    LLVM spends much time deciding if addresses that differ by constants from such a pointer need
    induction variables. The empty assembly generates no instruction.
    """
    return code.fresh(f'call ptr asm "", "=r,0"(ptr {pointer})')


def prefetch(code: Instructions, pointer: str, *, is_written: bool = False) -> None:
    """Prefetches a cache line, which need not be mapped.

    Args:
        code: receives the instruction.
        pointer: an address in the line.
        is_written: True if it will be written soon; else it is brought to the second-level cache
        for reading.
    """
    code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    how = "i32 1, i32 3" if is_written else "i32 0, i32 2"
    code.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, {how}, i32 1)")
