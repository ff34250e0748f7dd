"""Tables of floats that are held in a register, on processors that permute registers by indices."""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.vector import Vector

#: The instruction that permutes a register of this many bytes.
_PERMUTATIONS = {64: "@llvm.x86.avx512.permvar.sf.512", 32: "@llvm.x86.avx2.permps"}
_FLOAT_BYTES = 4


def table_length(v: Vector, element: str) -> int:
    """Returns the number of entries of a table; 0 if vectors of this type cannot look up any."""
    length = v.target.lanes(_FLOAT_BYTES)
    is_supported = element == "float" and v.target.vector_bytes in _PERMUTATIONS
    return length if is_supported and v.lanes % length == 0 else 0


def looked_up(v: Vector, table: Sequence[float], index: str) -> str:
    """Looks up numbers in a table of `table_length` entries by the low bits of i32 indices."""
    length = len(table)
    values = Vector(v.code, v.target, length).numbers("float", table)
    name = _PERMUTATIONS[v.target.vector_bytes]
    register, indices = f"<{length} x float>", f"<{length} x i32>"
    v.code.declarations.add(f"declare {register} {name}({register}, {indices})")
    parts = [
        v.code.value(f"call {register} {name}({register} {values}, {indices} {part})")
        for part in v.parts("i32", index, length)
    ]
    return v.joined("float", parts)
