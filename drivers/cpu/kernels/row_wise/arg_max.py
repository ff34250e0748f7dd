"""Argmax of rows: top-1.

For short rows, the keys stay in registers: a bit mask marks those that equal the largest one. For
longer rows, each lane of several accumulators keeps the best key so far and its index.
"""

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.kernels.common.addressing import total
from neurald.drivers.cpu.kernels.common.horizontal import horizontal_extreme
from neurald.drivers.cpu.kernels.row_wise.sort_keys import key_bits, key_vector, keys_at
from neurald.drivers.cpu.kernels.row_wise.top_k_rows import TopKRows
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Width of the bit mask, and maximum length of rows that use it.
_MASK_BITS = 64
#: Number of accumulators, which hides the latency of comparisons.
_ACCUMULATORS = 4
#: Cycles per vector of keys, and additionally per row.
_VECTOR_CYCLES, _ROW_CYCLES = 4.0, 12.0


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its top-1.
        target: the target of the code.
    """
    rows = TopKRows(kernel, node, target)
    writer = _ArgMaxWriter(rows, node, target)
    writer.write()
    length = node.input.shape[-1]
    cycles = _ROW_CYCLES + length / writer.lanes * _VECTOR_CYCLES
    return rows.routine(cycles, f"the largest of {length}, {writer.lanes} at once")


class _ArgMaxWriter:
    """Writes a function that finds the index of a row's largest element."""

    def __init__(self, rows: TopKRows, node: TopK, target: Target) -> None:
        self._rows, self._node, self._code = rows, node, rows.code
        self._kind, self._length = node.input.type, node.input.shape[-1]
        self._key = f"i{key_bits(self._kind)}"
        self._v = key_vector(self._code, target, self._kind, self._length)

    @property
    def lanes(self) -> int:
        """Number of elements in a register."""
        return self._v.lanes

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        with self._rows.each() as (row, source):
            index = (
                self._index_by_mask(source)
                if self._length <= _MASK_BITS
                else self._index_by_accumulators(source)
            )
            self._rows.store(index, row, "0")

    def _begins(self, first: int) -> list[int]:
        """Returns the starts of vectors that cover the rest of a row.

        The last one ends with the row.
        """
        return [min(begin, self._length - self.lanes) for begin in range(first, self._length, self.lanes)]

    def _keys(self, source: str, index: str) -> str:
        return keys_at(self._v, self._kind, source, index)

    def _index_by_mask(self, source: str) -> str:
        """Returns the index in a short row, by a bit mask."""
        code, v, key = self._code, self._v, self._key
        begins = self._begins(0)
        keys = [self._keys(source, str(begin)) for begin in begins]
        largest = v.splat(key, self._largest(keys))
        found = "0"
        for begin, each in zip(begins, keys, strict=True):
            is_largest = v.compare("eq", key, each, largest)
            bits = (
                is_largest
                if v.lanes == 1
                else code.value(f"bitcast {v.type('i1')} {is_largest} to i{v.lanes}")
            )
            wide = code.value(f"zext i{v.lanes} {bits} to i{_MASK_BITS}")
            found = code.value(
                f"or i{_MASK_BITS} {found}, {code.value(f'shl i{_MASK_BITS} {wide}, {begin}')}"
            )
        which = "cttz" if self._node.prefers_lower_index else "ctlz"
        code.declarations.add(f"declare i{_MASK_BITS} @llvm.{which}.i{_MASK_BITS}(i{_MASK_BITS}, i1)")
        index = code.value(f"call i{_MASK_BITS} @llvm.{which}.i{_MASK_BITS}(i{_MASK_BITS} {found}, i1 true)")
        if not self._node.prefers_lower_index:
            index = code.value(f"sub i{_MASK_BITS} {_MASK_BITS - 1}, {index}")
        return code.value(f"trunc i{_MASK_BITS} {index} to i32")

    def _largest(self, keys: list[str]) -> str:
        """Returns the maximum of all lanes."""
        while len(keys) > 1:
            pairs = zip(keys[::2], keys[1::2], strict=False)
            joined = [self._v.call("llvm.smax", self._key, *pair) for pair in pairs]
            keys = joined + keys[2 * len(joined) :]
        return horizontal_extreme(self._v, self._key, "smax", keys[0])

    def _index_by_accumulators(self, source: str) -> str:
        """Returns the index in a row longer than all accumulators."""
        code, v, key = self._code, self._v, self._key
        step = _ACCUMULATORS * v.lanes
        kept = [
            (self._keys(source, str(accumulator * v.lanes)), self._indices(str(accumulator * v.lanes)))
            for accumulator in range(_ACCUMULATORS)
        ]
        kind, whole = v.type(key), self._length // step * step
        if whole > step:
            carried = [(kind, name) for pair in kept for name in pair]
            with code.loop(str(step), str(whole), carried, step=step) as loop:
                pairs = list(zip(loop.carried[::2], loop.carried[1::2], strict=True))
                for accumulator in range(_ACCUMULATORS):
                    index = total(code, loop.index, str(accumulator * v.lanes))
                    loop.results += self._better(pairs[accumulator], source, index)
            kept = list(zip(loop.results[::2], loop.results[1::2], strict=True))
        for accumulator, begin in enumerate(self._begins(whole)):
            kept[accumulator] = self._better(kept[accumulator], source, str(begin))
        largest = v.splat(key, self._largest([keys for keys, _ in kept]))
        # Lanes without a maximum get an index that never wins.
        is_first = self._node.prefers_lower_index
        none, how = v.number(key, (1 << 31) - 1 if is_first else 0), "smin" if is_first else "smax"
        found = none
        for keys, positions in kept:
            own = v.select(v.compare("eq", key, keys, largest), key, positions, none)
            found = v.call(f"llvm.{how}", key, found, own)
        index = horizontal_extreme(v, key, how, found)
        return index if key == "i32" else code.value(f"trunc {key} {index} to i32")

    def _better(self, kept: tuple[str, str], source: str, index: str) -> tuple[str, str]:
        """Updates the keys and indices of an accumulator with the vector at an index."""
        v, key = self._v, self._key
        keys = self._keys(source, index)
        is_better = v.compare("sgt" if self._node.prefers_lower_index else "sge", key, keys, kept[0])
        return (
            v.call("llvm.smax", key, keys, kept[0]),
            v.select(is_better, key, self._indices(index), kept[1]),
        )

    def _indices(self, first: str) -> str:
        """Returns the indices of a vector's elements."""
        code, v, key = self._code, self._v, self._key
        numbers = v.numbers(key, range(v.lanes))
        if first == "0":
            return numbers
        narrow = (
            first if key == "i64" or not first.startswith("%") else code.value(f"trunc i64 {first} to {key}")
        )
        return v.binary("add", key, numbers, v.splat(key, narrow))
