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
    words = [_packed(v, "packusdw", _INTS, _WORDS, *pair) for pair in (parts[:2], parts[2:])]
    mixed = _packed(v, "packuswb", _WORDS, _ALL, *words)
    # Packing works within quarters of a register: each has four bytes from each of the four
    # registers.
    whole = v.code.value(f"bitcast {_ALL} {mixed} to {_INTS}")
    order = ", ".join(f"i32 {4 * (offset % 4) + offset // 4}" for offset in range(step))
    ordered = v.code.value(f"shufflevector {_INTS} {whole}, {_INTS} poison, <{step} x i32> <{order}>")
    return v.code.value(f"bitcast {_INTS} {ordered} to {_ALL}")


def _packed(v: Vector, instruction: str, source: str, kind: str, first: str, second: str) -> str:
    name = f"@llvm.x86.avx512.{instruction}.512"
    v.code.declarations.add(f"declare {kind} {name}({source}, {source})")
    return v.code.value(f"call {kind} {name}({source} {first}, {source} {second})")
