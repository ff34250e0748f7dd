"""Top-k of short rows of which few elements are wanted: the largest one that is left, repeatedly.

A row is in registers, as keys, see `sort_keys`. Each key is compared with the largest of them, and
the results become bits of a number, of which one is the index of the element. Then the lowest key
takes its place. No branch depends on the elements.
"""

import math
from typing import Final

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.horizontal import horizontal_extreme
from neurald.drivers.cpu.kernels.row_wise.sort_keys import (
    bits_of_comparison,
    key_bits,
    key_vector,
    row_keys,
)
from neurald.drivers.cpu.kernels.row_wise.top_k_rows import TopKRows
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Maximum length of a row.
_MAX_LENGTH: Final = 256
#: Cycles of a row, of each result, and of each vector that is looked at for it.
_ROW_CYCLES, _RESULT_CYCLES, _VECTOR_CYCLES = 4.0, 14.0, 3.5


def cycles(node: TopK, target: Target) -> float:
    """Returns the cycles that a row takes; infinity if it is too long or has an open length."""
    length, count = node.input.shape[-1], node.output.shape[-1]
    if isinstance(length, Extent) or isinstance(count, Extent) or length > _MAX_LENGTH:
        return math.inf
    vectors = -(-length // target.lanes(key_bits(node.input.type) // 8))
    return _ROW_CYCLES + count * (_RESULT_CYCLES + vectors * _VECTOR_CYCLES)


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel; see `top_k.routine`."""
    rows = TopKRows(kernel, node, target)
    code, kind, length, count = rows.code, node.input.type, node.input.shape[-1], node.output.shape[-1]
    key, v = f"i{key_bits(kind)}", key_vector(code, target, kind, length)
    bits = max(64, 1 << (length - 1).bit_length())
    with rows.each() as (row, source):
        keys = row_keys(v, kind, source, length)
        start = [(v.type(key), each) for each in keys.values()]
        with code.loop("0", str(count), [*start, (f"i{bits}", "-1")]) as each:
            *vectors, left = each.carried
            here = dict(zip(keys, vectors, strict=True))
            reaching = bits_of_comparison(v, key, here, "eq", _largest(v, key, vectors), bits=bits)
            found = code.value(f"and i{bits} {left}, {reaching}")
            index = (
                _first_bit(code, bits, found) if node.prefers_lower_index else _last_bit(code, bits, found)
            )
            rows.store(code.value(f"trunc i{bits} {index} to i32"), row, each.index)
            taken = code.value(f"xor i{bits} {code.value(f'shl i{bits} 1, {index}')}, -1")
            each.results = [*_without(v, key, here, index, bits), code.value(f"and i{bits} {left}, {taken}")]
    return rows.routine(cycles(node, target), f"the largest {count} of {length}, one after the other")


def _largest(v: Vector, key: str, level: list[str]) -> str:
    """Returns the largest key of vectors in every lane."""
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [v.call("llvm.smax", key, *pair) for pair in pairs] + level[len(level) // 2 * 2 :]
    return v.splat(key, horizontal_extreme(v, key, "smax", level[0]))


def _first_bit(code: Instructions, bits: int, found: str) -> str:
    """Returns the number of the lowest bit of an integer that is not 0."""
    code.declarations.add(f"declare i{bits} @llvm.cttz.i{bits}(i{bits}, i1)")
    return code.value(f"call i{bits} @llvm.cttz.i{bits}(i{bits} {found}, i1 true)")


def _last_bit(code: Instructions, bits: int, found: str) -> str:
    """Returns the number of the highest bit of an integer that is not 0."""
    code.declarations.add(f"declare i{bits} @llvm.ctlz.i{bits}(i{bits}, i1)")
    zeros = code.value(f"call i{bits} @llvm.ctlz.i{bits}(i{bits} {found}, i1 true)")
    return code.value(f"xor i{bits} {zeros}, {bits - 1}")


def _without(v: Vector, key: str, keys: dict[int, str], index: str, bits: int) -> list[str]:
    """Returns keys in which that at an index is the lowest."""
    at = v.splat(
        key, index if bits == 64 == int(key[1:]) else v.code.value(f"trunc i{bits} {index} to {key}")
    )
    lowest = v.number(key, -(1 << (int(key[1:]) - 1)))
    return [
        v.select(v.compare("eq", key, v.numbers(key, range(begin, begin + v.lanes)), at), key, lowest, each)
        for begin, each in keys.items()
    ]
