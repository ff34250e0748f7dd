"""Top-k of short rows: the rank of each element, which is the number of elements that precede it.

A row is in registers, as keys, see `sort_keys`. Each key is compared with all of them, and the
results become bits of a number. Its ones are counted without those of equal elements that follow.
That takes the same time whatever the order of the elements, no branch, and no sum over lanes.
"""

import math
from typing import Final

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.kernels.row_wise.sort_keys import (
    bits_of_comparison,
    key_bits,
    key_vector,
    row_keys,
)
from neurald.drivers.cpu.kernels.row_wise.top_k_rows import TopKRows
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Bits of the number that has the results of comparisons, and maximum length of a row.
_BITS: Final = 64
#: Size of the index of an element.
_INDEX_BYTES: Final = 4
#: Cycles of a row, of each element, and of each vector that it is compared with.
_ROW_CYCLES, _ELEMENT_CYCLES, _VECTOR_CYCLES = 10.0, 1.5, 1.5


def cycles(node: TopK, target: Target) -> float:
    """Returns the cycles that a row takes; infinity if it is too long or has an open length."""
    length, count = node.input.shape[-1], node.output.shape[-1]
    if isinstance(length, Extent) or isinstance(count, Extent) or length > _BITS:
        return math.inf
    vectors = -(-length // target.lanes(key_bits(node.input.type) // 8))
    return _ROW_CYCLES + length * (_ELEMENT_CYCLES + vectors * _VECTOR_CYCLES)


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel; see `top_k.routine`."""
    rows = TopKRows(kernel, node, target)
    writer = _RankWriter(rows, node, target)
    writer.write()
    label = f"the largest {node.output.shape[-1]} of {node.input.shape[-1]}, ranked"
    return rows.routine(cycles(node, target), label, scratch_bytes=writer.scratch_bytes)


class _RankWriter:
    """Writes a function that ranks the elements of rows."""

    def __init__(self, rows: TopKRows, node: TopK, target: Target) -> None:
        self._rows, self._node, self._code = rows, node, rows.code
        self._kind, self._length = node.input.type, node.input.shape[-1]
        self._key = f"i{key_bits(self._kind)}"
        self._v = key_vector(self._code, target, self._kind, self._length)

    @property
    def scratch_bytes(self) -> int:
        """Size of the keys of a row and of the indices of ranked elements."""
        return self._indices_begin + self._length * _INDEX_BYTES

    @property
    def _indices_begin(self) -> int:
        return self._length * key_bits(self._kind) // 8

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code, count = self._code, self._node.output.shape[-1]
        with self._rows.each() as (row, source):
            keys = self._keys(source)
            with code.loop("0", str(self._length)) as each:
                rank = self._rank(keys, each.index)
                index = code.value(f"trunc i64 {each.index} to i32")
                if count == self._length:
                    self._rows.store(index, row, rank)
                else:
                    code.effect(f"store i32 {index}, ptr {self._index_at(rank)}")
            if count < self._length:
                with code.loop("0", str(count)) as each:
                    index = code.fresh(f"load i32, ptr {self._index_at(each.index)}")
                    self._rows.store(index, row, each.index)

    def _keys(self, source: str) -> dict[int, str]:
        """Returns the vectors of keys of a row, see `row_keys`, and stores the keys."""
        v, found = self._v, row_keys(self._v, self._kind, source, self._length)
        for begin, keys in found.items():
            at = self._key_at(str(begin))
            self._code.effect(f"store {v.type(self._key)} {keys}, ptr {at}, align {self._key_bytes}")
        return found

    def _rank(self, keys: dict[int, str], index: str) -> str:
        """Returns the number of elements that precede the one at an index."""
        code, v = self._code, self._v
        own = v.splat(self._key, code.fresh(f"load {self._key}, ptr {self._key_at(index)}"))
        above, reaching = (
            bits_of_comparison(v, self._key, keys, condition, own, bits=_BITS) for condition in ("sgt", "sge")
        )
        # Those with a lower index; or those with a higher one, which are the other ones and itself.
        equals = code.value(f"shl i64 -1, {index}")
        if self._node.prefers_lower_index:
            equals = code.value(f"xor i64 {equals}, -1")
        else:
            equals = code.value(f"shl i64 {equals}, 1")
        preceding = code.value(f"or i64 {above}, {code.value(f'and i64 {reaching}, {equals}')}")
        code.declarations.add("declare i64 @llvm.ctpop.i64(i64)")
        return code.value(f"call i64 @llvm.ctpop.i64(i64 {preceding})")

    @property
    def _key_bytes(self) -> int:
        return key_bits(self._kind) // 8

    def _key_at(self, index: str) -> str:
        return self._code.fresh(f"getelementptr {self._key}, ptr %scratch, i64 {index}")

    def _index_at(self, rank: str) -> str:
        indices = address(self._code, "%scratch", str(self._indices_begin))
        return self._code.fresh(f"getelementptr i32, ptr {indices}, i64 {rank}")
