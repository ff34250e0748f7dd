"""Locations of the values of a step in its buffers, and of its inputs and outputs."""

from enum import IntEnum
from typing import Final

import msgspec

from neurald.drivers.compiler.ir.string_references import stored_bytes
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType

#: The types by number; calling the enumeration takes five times as long.
_TYPES: Final = {int(kind): kind for kind in OperandType}


class Base(IntEnum):
    """Buffer of a location.

    `EXTENTS` are the lengths that kernels read at run time, and `PROGRAM` is the memory of the step
    that has them. `STRINGS` are the sources of strings, see
    `neurald.drivers.cpu.native.instances.strings`.
    """

    ARENA = 0
    CONSTANTS = 1
    EXTENTS = 2
    PROGRAM = 3
    STRINGS = 4


class BufferLocation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Offset of a value in its buffer, in bytes."""

    base: Base
    offset: int


class Port(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An input or output of the model.

    Attributes:
        offset: its offset in the arena, in bytes; None if no kernel uses it.
        size_bytes: its size.
        dimensions, type, scale, zero_point: those of the operand.
    """

    offset: int | None
    size_bytes: int
    dimensions: tuple[int, ...]
    type: int
    scale: float
    zero_point: int

    @property
    def operand(self) -> Operand:
        """The operand as the model declares it."""
        return Operand(
            type=OperandType(self.type),
            dimensions=self.dimensions,
            scale=self.scale,
            zero_point=self.zero_point,
        )

    def check(self, arena_bytes: int) -> None:
        """Raises BadData unless the operand is valid and inside an arena of this size."""
        kind = _TYPES.get(self.type)
        if kind is None:
            raise BadData(f"unknown operand type {self.type}")
        if min(self.dimensions, default=0) < 0 or self.size_bytes != stored_bytes(kind, self.dimensions):
            raise BadData(
                f"an operand of type {kind.name} and dimensions {list(self.dimensions)} "
                f"cannot have {self.size_bytes} bytes"
            )
        if self.offset is not None and not 0 <= self.offset <= arena_bytes - self.size_bytes:
            raise BadData(f"operand offset {self.offset} is outside the arena of {arena_bytes} bytes")
