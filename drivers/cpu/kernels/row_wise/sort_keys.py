"""Order-preserving conversion of elements to signed integers, with NaN as the largest."""

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.integers import is_signed
from neurald.drivers.cpu.emit.op_table import from_stored, stored
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.target.target import Target


def key_bits(kind: Scalar) -> int:
    """Returns the size of the keys for a type."""
    return 64 if kind.size_bytes == 8 else 32


def key_vector(code: Instructions, target: Target, kind: Scalar, length: int) -> Vector:
    """Returns vectors for the keys of a row, which fill a register if the row is as long.

    Args:
        code: receives the instructions.
        target: the target of the code.
        kind: type of the elements.
        length: number of elements of the row, at least 1.
    """
    most = min(length, target.lanes(key_bits(kind) // 8))
    return Vector(code, target, 1 << (most.bit_length() - 1))


def keys_at(v: Vector, kind: Scalar, source: str, index: str) -> str:
    """Loads consecutive elements as keys.

    Args:
        v: receives the instructions, with a lane per element.
        kind: type of the elements.
        source: address of the elements.
        index: number of the first one.
    """
    at = address(v.code, source, multiple(v.code, index, kind.size_bytes))
    loaded = v.code.fresh(f"load {v.type(stored(kind))}, ptr {at}, align {kind.size_bytes}")
    value, bits = from_stored(v, kind, loaded), key_bits(kind)
    key = f"i{bits}"
    if kind.is_float:
        return _of_floats(v, "float" if kind is Scalar.FLOAT16 else stored(kind), value, bits)
    element = "i1" if kind is Scalar.BOOL else stored(kind)
    if int(element[1:]) < bits:
        return v.cast("sext" if is_signed(kind) else "zext", element, value, key)
    return value if is_signed(kind) else v.binary("xor", key, value, v.number(key, -(1 << (bits - 1))))


def row_keys(v: Vector, kind: Scalar, source: str, length: int) -> dict[int, str]:
    """Loads a row as vectors of keys, which are returned by the number of their first element.

    The last vector ends with the row, and may begin within the one before.

    Args:
        v: the vectors; see `key_vector`.
        kind: type of the elements.
        source: address of the row.
        length: number of elements of the row.
    """
    begins = (min(first, length - v.lanes) for first in range(0, length, v.lanes))
    return {begin: keys_at(v, kind, source, str(begin)) for begin in begins}


def bits_of_comparison(
    v: Vector, key: str, keys: dict[int, str], condition: str, own: str, *, bits: int
) -> str:
    """Returns an integer with a bit for each element, set if it compares so with a key.

    Args:
        v: the vectors.
        key: type of the keys.
        keys: those of a row, see `row_keys`.
        condition: such as `sgt`.
        own: the key that they are compared with, in every lane.
        bits: size of the result, at least 64 and the length of the row.
    """
    code, found = v.code, "0"
    for begin, each in keys.items():
        holds = v.compare(condition, key, each, own)
        some = holds if v.lanes == 1 else code.value(f"bitcast {v.type('i1')} {holds} to i{v.lanes}")
        wide = some if v.lanes == bits else code.value(f"zext i{v.lanes} {some} to i{bits}")
        found = code.value(f"or i{bits} {found}, {code.value(f'shl i{bits} {wide}, {begin}')}")
    return found


def _of_floats(v: Vector, element: str, value: str, bits: int) -> str:
    key, largest = f"i{bits}", (1 << (bits - 1)) - 1
    # Adding 0 turns -0.0 into 0.0.
    plain = v.bitcast(element, v.binary("fadd", element, value, v.number(element, 0)), key)
    sign = v.binary("ashr", key, plain, v.number(key, bits - 1))
    # Negative numbers are ordered by descending magnitude.
    ordered = v.binary("xor", key, plain, v.binary("and", key, sign, v.number(key, largest)))
    return v.select(v.compare("uno", element, value, value), key, v.number(key, largest), ordered)
