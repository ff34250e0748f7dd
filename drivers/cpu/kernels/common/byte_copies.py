"""Copies of ranges whose lengths are known at compile time, as bytes, with full registers."""

from collections.abc import Callable

from neurald.drivers.cpu.emit.block_moves import MIN_BLOCK_BYTES, copy_block, has_block_moves
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.target.target import Target

#: Number of registers per iteration of a loop.
_UNROLLED = 8


def each_part(
    code: Instructions, target: Target, count: int, write: Callable[[int, tuple[str, ...]], None]
) -> None:
    """Divides a range into parts that registers hold; some bytes can be in two parts.

    Args:
        code: receives the instructions.
        target: the target of the code.
        count: number of bytes in the range, at least 1.
        write: writes the instructions for a part: its size, and terms of its offset.
    """
    register = target.vector_bytes
    if count < register:
        # Two overlapping parts, unless one suffices.
        width = 1 << (count.bit_length() - 1)
        offsets = dict.fromkeys((0, count - width))
    else:
        width, whole = register, count // register
        iterations = whole // _UNROLLED if whole > 2 * _UNROLLED else 0
        if iterations:
            step = _UNROLLED * register
            with code.loop("0", str(iterations * step), step=step) as loop:
                for each in range(_UNROLLED):
                    write(width, (loop.index, str(each * register)))
        done = iterations * _UNROLLED
        # The last part may overlap the one before.
        offsets = dict.fromkeys((*(each * register for each in range(done, whole)), count - register))
    for offset in offsets:
        write(width, (str(offset),))


def copy_bytes(
    code: Instructions, target: Target, source: str, to: str, count: int, *, are_bools: bool = False
) -> None:
    """Copies a range that does not overlap its destination.

    Args:
        code: receives the instructions.
        target: the target of the code.
        source, to: pointers.
        count: number of bytes.
        are_bools: True to store 0 or 1 for each byte, whether it is 0.
    """
    if count >= MIN_BLOCK_BYTES and has_block_moves(target) and not are_bools:
        copy_block(code, source, to, str(count))
        return

    def write(width: int, offset: tuple[str, ...]) -> None:
        v = Vector(code, target, width)
        kind = v.type("i8")
        value = code.fresh(f"load {kind}, ptr {address(code, source, *offset)}, align 1")
        if are_bools:
            value = v.cast("zext", "i1", v.compare("ne", "i8", value, v.number("i8", 0)), "i8")
        code.effect(f"store {kind} {value}, ptr {address(code, to, *offset)}, align 1")

    each_part(code, target, count, write)
