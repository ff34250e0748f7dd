"""Copies and fills of long blocks by the processor's string instructions.

Such an instruction need not read the cache lines that it will overwrite as a whole, which a loop of
stores does. Beyond the second-level cache it takes four fifths of a loop's time.
"""

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.target.target import Target

#: Blocks from which on the instructions are faster than a loop, and the longest part of a block
#: that one instruction writes. Longer ones pass by the second-level cache even if it would hold
#: them.
MIN_BLOCK_BYTES, _PART_BYTES = 4096, 1 << 16
#: Registers of this size imply fast string instructions.
_REGISTER_BYTES = 32
_LINE_BYTES = 64
#: Instructions that fill with patterns of this many bytes.
_FILLS = {1: "stosb", 2: "stosw", 4: "stosl", 8: "stosq"}


def has_block_moves(target: Target) -> bool:
    """Returns True if a target has fast string instructions."""
    return target.machine == "x86_64" and target.vector_bytes >= _REGISTER_BYTES


def copy_block(code: Instructions, source: str, to: str, size_bytes: str) -> None:
    """Copies a block that does not overlap its destination.

    Args:
        code: receives the instructions.
        source, to: pointers.
        size_bytes: name of the size, i64, or a number; at least that of a cache line.
    """
    kind = f"<{_LINE_BYTES} x i8>"
    line = code.fresh(f"load {kind}, ptr {source}, align 1")
    skipped = _written_line(code, f"{kind} {line}", to)
    with code.loop(skipped, size_bytes, step=_PART_BYTES, may_be_empty=True) as part:
        count = _part(code, part.index, size_bytes)
        at, begin = (code.fresh(f"getelementptr i8, ptr {each}, i64 {part.index}") for each in (to, source))
        code.effect(
            'call { ptr, ptr, i64 } asm sideeffect "rep movsb", "={di},={si},={cx},0,1,2,~{memory}"'
            f"(ptr {at}, ptr {begin}, i64 {count})"
        )


def fill_block(code: Instructions, value: str, element_bytes: int, to: str, size_bytes: str) -> None:
    """Fills a block with an element.

    Args:
        code: receives the instructions.
        value: name of the element, an integer of its size.
        element_bytes: size of the element, of which addresses are multiples.
        to: pointer to the block.
        size_bytes: name of the size of the block, i64, or a number; at least that of a cache line.
    """
    lanes, integer = _LINE_BYTES // element_bytes, f"i{8 * element_bytes}"
    kind = f"<{lanes} x {integer}>"
    one = code.value(f"insertelement {kind} poison, {integer} {value}, i32 0")
    line = code.value(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")
    pattern = code.value(f"zext {integer} {value} to i64") if element_bytes < 8 else value
    skipped = _written_line(code, f"{kind} {line}", to)
    with code.loop(skipped, size_bytes, step=_PART_BYTES, may_be_empty=True) as part:
        count = code.fresh(f"udiv i64 {_part(code, part.index, size_bytes)}, {element_bytes}")
        at = code.fresh(f"getelementptr i8, ptr {to}, i64 {part.index}")
        code.effect(
            f'call {{ ptr, i64 }} asm sideeffect "rep {_FILLS[element_bytes]}", "={{di}},={{cx}},0,1,{{ax}},~{{memory}}"'
            f"(ptr {at}, i64 {count}, i64 {pattern})"
        )


def _written_line(code: Instructions, line: str, to: str) -> str:
    """Writes the first bytes of a block, and returns how many of them are before a cache line.

    Some processors are slow if the destination is not aligned.
    """
    code.effect(f"store {line}, ptr {to}, align 1")
    address = code.fresh(f"ptrtoint ptr {to} to i64")
    return code.fresh(f"sub i64 {_LINE_BYTES}, {code.fresh(f'and i64 {address}, {_LINE_BYTES - 1}')}")


def _part(code: Instructions, begin: str, size_bytes: str) -> str:
    """Returns the length of the part of a block that begins at an offset."""
    code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
    left = code.fresh(f"sub i64 {size_bytes}, {begin}")
    return code.fresh(f"call i64 @llvm.smin.i64(i64 {left}, i64 {_PART_BYTES})")
