"""Integers of different sizes."""

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.packed_bytes import has_packed_bytes, packed_bytes
from neurald.drivers.cpu.emit.vector import Vector


def is_signed(kind: Scalar) -> bool:
    """Returns True for signed integer types."""
    return kind.is_integer and not kind.value.startswith("u")


def wrapped(value: int, element: str) -> int:
    """Wraps a number to a signed integer of this LLVM type."""
    if isinstance(value, Extent):
        # It is truncated when it is written.
        return value
    half = 1 << (int(element[1:]) - 1)
    return (value + half) % (2 * half) - half


def resized(v: Vector, value: tuple[str, str], element: str) -> str:
    """Extends or truncates a signed integer, given with its LLVM type."""
    source, text = value
    if source == element:
        return text
    if v.lanes == 1 and not text.startswith("%"):
        return str(wrapped(int(text), element))
    if (source, element, v.lanes) == ("i32", "i8", v.target.vector_bytes) and has_packed_bytes(v.target):
        return packed_bytes(v, text)
    return v.cast("sext" if int(source[1:]) < int(element[1:]) else "trunc", source, text, element)
