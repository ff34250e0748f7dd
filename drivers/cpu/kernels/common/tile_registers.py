"""Instructions of tile registers (AMX).

Intel's Software Developer's Manual describes them, and the 64 bytes that configure the shapes of
tiles.
"""

import struct
from collections.abc import Mapping

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address

#: Maximum rows of a tile, and words of its rows.
TILE_ROWS = TILE_WORDS = 16
_WORD_BYTES = 4
_PALETTE = 1
REGISTERS = 8
#: Offset of the numbers of rows in the configuration.
_ROWS_OFFSET = 48


def configure(code: Instructions, shapes: Mapping[int, tuple[int, int]]) -> None:
    """Sets the shapes of this thread's tile registers: rows, perhaps open, and words of a row."""
    rows, columns = [0] * (2 * REGISTERS), [0] * (2 * REGISTERS)
    for register, (height, words) in shapes.items():
        # Open numbers of rows are stored below.
        rows[register] = 0 if isinstance(height, Extent) else height
        columns[register] = words * _WORD_BYTES
    content = struct.pack("<B15x16H16B", _PALETTE, *columns, *rows)
    memory = code.fresh(f"alloca [{len(content)} x i8], align 64")
    for offset in range(0, len(content), 8):
        (word,) = struct.unpack_from("<q", content, offset)
        code.effect(f"store i64 {word}, ptr {address(code, memory, str(offset))}, align 8")
    for register, (height, _) in shapes.items():
        if isinstance(height, Extent):
            narrow = code.value(f"trunc i64 {height} to i8")
            at = address(code, memory, str(_ROWS_OFFSET + register))
            code.effect(f"store i8 {narrow}, ptr {at}, align 1")
    _call(code, "ldtilecfg", f"ptr {memory}")


def release(code: Instructions) -> None:
    """Frees the tile registers of this thread, whose state is large."""
    _call(code, "tilerelease", "")


def load_tile(code: Instructions, register: int, pointer: str, distance: int) -> None:
    """Loads a tile; a distance of 0 between its rows repeats the first one."""
    _call(code, "tileloadd64", f"i8 {register}, ptr {pointer}, i64 {distance}")


def store_tile(code: Instructions, register: int, pointer: str, distance: int) -> None:
    """Stores a tile."""
    _call(code, "tilestored64", f"i8 {register}, ptr {pointer}, i64 {distance}")


def multiply_tiles(code: Instructions, operation: str, sums: int, left: int, right: int) -> None:
    """Adds the product of two tiles by an operation such as `tdpbusd` to a third one."""
    _call(code, operation, f"i8 {sums}, i8 {left}, i8 {right}")


def _call(code: Instructions, name: str, arguments: str) -> None:
    """Calls an intrinsic without a result."""
    kinds = ", ".join(each.split()[0] for each in arguments.split(", ") if each)
    code.declarations.add(f"declare void @llvm.x86.{name}({kinds})")
    code.effect(f"call void @llvm.x86.{name}({arguments})")
