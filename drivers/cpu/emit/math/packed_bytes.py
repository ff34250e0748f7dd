"""Packing of 32-bit integers to bytes for AVX-512: four registers into one.

This takes fewer instructions than truncating each register.
"""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target

_BYTES = 64
_INTS, _WORDS, _ALL = "<16 x i32>", "<32 x i16>", "<64 x i8>"


def has_packed_bytes(target: Target) -> bool:
    """Returns True if `packed_bytes` is available for vectors with a lane per register byte."""
    return target.vector_bytes == _BYTES


def packed_bytes(v: Vector, value: str) -> str:
    """Returns the low bytes of 64 integers of type i32, as i8."""
    step = _BYTES // 4
    low = v.binary("and", "i32", value, v.number("i32", 255))
    parts = v.parts("i32", low, step)
    words = [packed_register(v, "packusdw", *pair) for pair in (parts[:2], parts[2:])]
    return in_order(v, packed_register(v, "packuswb", *words))


def packed_register(v: Vector, instruction: str, first: str, second: str) -> str:
    """Packs two registers to one of elements of half the size, each 128 bits on their own.

    Args:
        v: receives the instructions.
        instruction: one that saturates i32 to i16, or i16 to i8, such as packssdw or packuswb.
        first, second: the registers.
    """
    source, kind = (_INTS, _WORDS) if instruction.endswith("dw") else (_WORDS, _ALL)
    name = f"@llvm.x86.avx512.{instruction}.512"
    v.code.declarations.add(f"declare {kind} {name}({source}, {source})")
    return v.code.value(f"call {kind} {name}({source} {first}, {source} {second})")


def in_order(v: Vector, mixed: str) -> str:
    """Orders the bytes of four registers that were packed to one.

    Packing works within quarters of a register: each has four bytes from each of the four
    registers.
    """
    step = _BYTES // 4
    whole = v.code.value(f"bitcast {_ALL} {mixed} to {_INTS}")
    order = ", ".join(f"i32 {4 * (offset % 4) + offset // 4}" for offset in range(step))
    ordered = v.code.value(f"shufflevector {_INTS} {whole}, {_INTS} poison, <{step} x i32> <{order}>")
    return v.code.value(f"bitcast {_INTS} {ordered} to {_ALL}")
