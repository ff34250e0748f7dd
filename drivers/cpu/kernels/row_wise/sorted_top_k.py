"""Top-k of rows of which many elements are wanted: rows are sorted as a whole, by their digits.

Elements become keys, see `sort_keys`, whose bytes are digits. Keys with their indices are sorted by
one digit after the other, the lowest first, and keep their order where digits are equal. That takes
the same time whatever the order of the elements, and no branch.
"""

import math
from typing import Final

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.integers import is_signed
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.row_wise.sort_keys import key_bits, keys_at
from neurald.drivers.cpu.kernels.row_wise.top_k_rows import TopKRows
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Bits of a digit, its values, and the bytes of a number of keys.
_DIGIT_BITS: Final = 8
_DIGITS, _COUNT_BYTES = 1 << _DIGIT_BITS, 4
#: Cycles for an element, for its digit, and for all values of a digit.
_ELEMENT_CYCLES, _DIGIT_CYCLES, _VALUES_CYCLES = 3.0, 2.5, 250.0


def cycles(node: TopK) -> float:
    """Returns the cycles that sorting a row takes; infinity if that is not possible."""
    length, count = node.input.shape[-1], node.output.shape[-1]
    if isinstance(length, Extent) or isinstance(count, Extent):
        return math.inf
    digits = _digits(node.input.type)
    return length * (_ELEMENT_CYCLES + digits * _DIGIT_CYCLES) + digits * _VALUES_CYCLES


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel; see `top_k.routine`."""
    rows = TopKRows(kernel, node, target)
    writer = _SortWriter(rows, node, target)
    writer.write()
    label = f"the largest {node.output.shape[-1]} of {node.input.shape[-1]}, sorted"
    return rows.routine(cycles(node), label, scratch_bytes=writer.scratch_bytes)


def _digits(kind: Scalar) -> int:
    """Returns the number of digits of a key that differ between elements."""
    return key_bits(kind) // _DIGIT_BITS if kind.is_float else kind.size_bytes


class _SortWriter:
    """Writes a function that sorts rows.

    Attributes:
        scratch_bytes: the size of two rows of marks, which are keys and indices, and of the counts.
    """

    def __init__(self, rows: TopKRows, node: TopK, target: Target) -> None:
        self._rows, self._node, self._target, self._code = rows, node, target, rows.code
        self._kind, self._length = node.input.type, node.input.shape[-1]
        self._key_bits, self._passes = key_bits(self._kind), _digits(self._kind)
        self._row_bytes = self._length * 2 * self._key_bits // 8
        self._single = Vector(self._code, target, 1)
        self.scratch_bytes = 2 * self._row_bytes + self._passes * _DIGITS * _COUNT_BYTES

    @property
    def _mark(self) -> str:
        return f"i{2 * self._key_bits}"

    @property
    def _key(self) -> str:
        return f"i{self._key_bits}"

    @property
    def _flipped(self) -> int:
        """Bits of keys to invert, which makes the largest one the smallest without a sign."""
        sign = 1 << (self._passes * _DIGIT_BITS - 1)
        is_extended = self._kind is Scalar.BOOL or not (self._kind.is_float or is_signed(self._kind))
        # Keys of 32 and 64 bits have a sign, whatever the type; see `keys_at`.
        has_sign = not is_extended or self._passes * _DIGIT_BITS == self._key_bits
        return ~sign if has_sign else -1

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        code, count = self._code, self._node.output.shape[-1]
        with self._rows.each() as (row, source):
            self._count(source)
            for number in range(self._passes):
                self._begins(number)
                self._sort(number)
            with code.loop("0", str(count)) as loop:
                mark = code.fresh(f"load {self._mark}, ptr {self._place(self._passes, loop.index)}, align 8")
                found = code.fresh(f"trunc {self._mark} {mark} to i32")
                self._rows.store(found, row, loop.index)

    def _count(self, source: str) -> None:
        """Writes the marks of a row, and counts the values of their digits."""
        code = self._code
        v = Vector(code, self._target, self._target.lanes(_COUNT_BYTES))
        with code.loop("0", str(self._passes * _DIGITS), step=v.lanes) as loop:
            at = address(code, self._counts(0), multiple(code, loop.index, _COUNT_BYTES))
            code.effect(f"store {v.type('i32')} {v.number('i32', 0)}, ptr {at}, align {_COUNT_BYTES}")
        with code.loop("0", str(self._length)) as loop:
            index = loop.index
            if not self._node.prefers_lower_index:
                index = code.value(f"sub i64 {self._length - 1}, {index}")
            key = keys_at(self._single, self._kind, source, index)
            key = code.fresh(f"xor {self._key} {key}, {self._flipped}")
            high = code.fresh(
                f"shl {self._mark} {code.fresh(f'zext {self._key} {key} to {self._mark}')}, {self._key_bits}"
            )
            low = code.fresh(f"trunc i64 {index} to i32")
            mark = code.fresh(f"or {self._mark} {high}, {code.fresh(f'zext i32 {low} to {self._mark}')}")
            code.effect(f"store {self._mark} {mark}, ptr {self._place(0, loop.index)}, align 8")
            for number in range(self._passes):
                at = self._counter(number, mark)
                known = code.fresh(f"load i32, ptr {at}")
                code.effect(f"store i32 {code.fresh(f'add i32 {known}, 1')}, ptr {at}")

    def _begins(self, number: int) -> None:
        """Replaces the counts of a digit's values by the numbers of keys with smaller ones."""
        code = self._code
        with code.loop("0", str(_DIGITS), [("i32", "0")]) as loop:
            at = address(code, self._counts(number), multiple(code, loop.index, _COUNT_BYTES))
            known = code.fresh(f"load i32, ptr {at}")
            code.effect(f"store i32 {loop.carried[0]}, ptr {at}")
            loop.results = [code.fresh(f"add i32 {loop.carried[0]}, {known}")]

    def _sort(self, number: int) -> None:
        """Sorts marks by a digit."""
        code = self._code
        with code.loop("0", str(self._length)) as loop:
            mark = code.fresh(f"load {self._mark}, ptr {self._place(number, loop.index)}, align 8")
            at = self._counter(number, mark)
            place = code.fresh(f"load i32, ptr {at}")
            code.effect(f"store i32 {code.fresh(f'add i32 {place}, 1')}, ptr {at}")
            target = self._place(number + 1, code.fresh(f"zext i32 {place} to i64"))
            code.effect(f"store {self._mark} {mark}, ptr {target}, align 8")

    def _place(self, number: int, index: str) -> str:
        """Returns the address of a mark before a pass; two rows are used in turn."""
        row = address(self._code, "%scratch", str(number % 2 * self._row_bytes))
        return self._code.fresh(f"getelementptr {self._mark}, ptr {row}, i64 {index}")

    def _counts(self, number: int) -> str:
        offset = 2 * self._row_bytes + number * _DIGITS * _COUNT_BYTES
        return address(self._code, "%scratch", str(offset))

    def _counter(self, number: int, mark: str) -> str:
        """Returns the address of the count of a mark's digit."""
        code = self._code
        shifted = code.fresh(f"lshr {self._mark} {mark}, {self._key_bits + number * _DIGIT_BITS}")
        wide = shifted if self._mark == "i64" else code.fresh(f"trunc {self._mark} {shifted} to i64")
        digit = code.fresh(f"and i64 {wide}, {_DIGITS - 1}")
        return address(code, self._counts(number), multiple(code, digit, _COUNT_BYTES))
