"""Instructions that compute addresses and prefetch from them."""

from neurald.drivers.compiler.ir.extents.extent import Extent, is_one
from neurald.drivers.cpu.emit.instructions import Instructions

#: Size of a cache line.
LINE_BYTES = 64


def multiple(code: Instructions, name: str, factor: int) -> str:
    """Multiplies an i64 by a constant."""
    if name == "0" or (not isinstance(factor, Extent) and factor == 0):
        return "0"
    return name if is_one(factor) else code.value(f"mul i64 {name}, {factor}")


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


def prefetch_lines(code: Instructions, pointer: str, count: int) -> None:
    """Prefetches consecutive cache lines for reading, see `prefetch`."""
    for line in range(count):
        prefetch(code, address(code, pointer, str(line * LINE_BYTES)))


def lines_of_step(size_bytes: int, steps: int) -> int:
    """Returns how many cache lines each step prefetches if all together prefetch this size."""
    return -(-size_bytes // (steps * LINE_BYTES))
