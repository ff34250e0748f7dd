"""Tables of floats that are held in a register, on processors that permute registers by indices."""

from collections.abc import Sequence

from neurald.drivers.cpu.emit.vector import Vector

#: The instruction that permutes a register of this many bytes, and the number of floats among which
#: it chooses. AVX2 also permutes 8, which takes some processors twice as long.
_PERMUTATIONS = {
    64: ("@llvm.x86.avx512.permvar.sf.512", 16),
    32: ("@llvm.x86.avx.vpermilvar.ps.256", 4),
}
#: The instruction that permutes this many floats by indices, and the registers that it takes.
_WHOLE_PERMUTATIONS = {
    16: ("@llvm.x86.avx512.permvar.sf.512", 64),
    8: ("@llvm.x86.avx2.permps", 32),
}
_FLOAT_BYTES = 4


def table_length(v: Vector, element: str) -> int:
    """Returns the number of entries of a table; 0 if vectors of this type cannot look up any."""
    if element != "float" or v.target.vector_bytes not in _PERMUTATIONS:
        return 0
    _, length = _PERMUTATIONS[v.target.vector_bytes]
    return 0 if v.lanes % v.target.lanes(_FLOAT_BYTES) else length


def looked_up(v: Vector, table: Sequence[float], index: str) -> str:
    """Looks up numbers in a table of `table_length` entries by the low bits of i32 indices."""
    length = v.target.lanes(_FLOAT_BYTES)
    name, entries = _PERMUTATIONS[v.target.vector_bytes]
    values = Vector(v.code, v.target, length).numbers("float", tuple(table) * (length // entries))
    register, indices = f"<{length} x float>", f"<{length} x i32>"
    v.code.declarations.add(f"declare {register} {name}({register}, {indices})")
    parts = [
        v.code.value(f"call {register} {name}({register} {values}, {indices} {part})")
        for part in v.parts("i32", index, length)
    ]
    return v.joined("float", parts)


def can_permute(v: Vector) -> bool:
    """Returns True if an instruction permutes the lanes of vectors of floats."""
    _, register_bytes = _WHOLE_PERMUTATIONS.get(v.lanes, ("", v.target.vector_bytes + 1))
    return v.target.vector_bytes >= register_bytes


def permuted(v: Vector, value: str, index: str) -> str:
    """Returns a vector of floats whose lanes are those of another one at i32 indices.

    See `can_permute`.
    """
    name, _ = _WHOLE_PERMUTATIONS[v.lanes]
    floats, indices = v.type("float"), v.type("i32")
    v.code.declarations.add(f"declare {floats} {name}({floats}, {indices})")
    return v.code.value(f"call {floats} {name}({floats} {value}, {indices} {index})")
