"""Top-k of rows: one pass over a row that keeps the best elements in a heap.

Elements are compared as signed integer keys with the same order. A key followed by its index is a
*mark*; marks are unique. The best marks form a heap with the smallest at its root. Most elements of
a long row are below the root, so vectors of keys are compared with it and only the others are
processed individually.

Long rows are scanned twice. First a row is divided into more blocks than elements are wanted. If
that many blocks contain an element that reaches a *bound*, no smaller element can be among the
wanted ones. In the second pass few elements reach the bound, whatever their order.
"""

import math

from neurald.drivers.compiler.ir.extents.extent import Extent, at_least, estimate, is_zero, may_change
from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.horizontal import horizontal_sum
from neurald.drivers.cpu.kernels.row_wise.sort_keys import key_bits, keys_at
from neurald.drivers.cpu.kernels.row_wise.top_k_rows import TopKRows
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.target import Target

#: Number of key registers compared at once.
_REGISTERS = 4
#: Blocks per wanted element, and minimum number of elements per block.
_BLOCKS_PER_RESULT = 3
_MIN_BLOCK_ELEMENTS = 4
#: Results up to this number are ordered by counting.
_MAX_COUNTED = 256
#: Cycles per heap level of a processed element, per element, per element behind whole vectors, and
#: per element that enters the heap, which no processor predicts.
_LEVEL_CYCLES, _ELEMENT_CYCLES, _SINGLE_CYCLES, _ENTRY_CYCLES = 4.0, 0.5, 3.0, 30.0


def cycles(node: TopK, target: Target) -> float:
    """Returns the cycles that a row takes whose elements are in random order."""
    few, many = max(1, estimate(node.output.shape[-1])), estimate(node.input.shape[-1])
    looked_at = min(many, few * (1 + math.log(many / few)))
    ordering = (looked_at + few) * _LEVEL_CYCLES * math.log2(few + 1) + (looked_at - few) * _ENTRY_CYCLES
    singles = (many - few) % (_REGISTERS * target.lanes(4))
    return ordering + many * _ELEMENT_CYCLES + singles * _SINGLE_CYCLES


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """Returns the routine of a kernel; see `top_k.routine`."""
    length, count = node.input.shape[-1], node.output.shape[-1]
    rows = TopKRows(kernel, node, target)
    writer = _HeapWriter(rows, node, target)
    writer.write()
    return rows.routine(
        cycles(node, target),
        f"the largest {count} of {length}",
        scratch_bytes=writer.scratch_bytes,
        # There is no heap of no elements.
        work_items=rows.count * at_least(count, 1),
    )


class _HeapWriter:
    """Writes a function that finds the top-k of rows with a heap."""

    def __init__(self, rows: TopKRows, node: TopK, target: Target) -> None:
        self._rows, self._node, self._target, self._code = rows, node, target, rows.code
        self._kind = node.input.type
        self._key_bits = key_bits(self._kind)
        self._single = Vector(self._code, target, 1)
        self._code.globals.append(kernel_text(__name__, "heap_top_k.ll", KERNEL=NAME, MARK=self._mark))

    @property
    def lengths(self) -> tuple[int, int]:
        """Number of elements per row, and k."""
        return self._node.input.shape[-1], self._node.output.shape[-1]

    @property
    def mark_bits(self) -> int:
        """Size of a mark: a key, and an index of the same size."""
        return 2 * self._key_bits

    @property
    def scratch_bytes(self) -> int:
        """Size of the marks and the maxima of blocks."""
        return self._maxima_begin + self._groups * self._target.vector_bytes

    @property
    def _counts(self) -> bool:
        """True if results are ordered by counting; 128-bit marks do not fit in vectors."""
        count = self.lengths[1]
        return self.mark_bits == 64 and not isinstance(count, Extent) and count <= _MAX_COUNTED

    @property
    def _maxima_begin(self) -> int:
        """Offset of the maxima of blocks: after the marks, which fill whole vectors."""
        register = self._target.vector_bytes
        return -(-self.lengths[1] * self.mark_bits // 8 // register) * register

    @property
    def _key_lanes(self) -> int:
        """Number of keys in a register."""
        return self._target.lanes(self._key_bits // 8)

    @property
    def _block(self) -> int:
        """Number of elements per block; they are a register's width apart."""
        length, count = self.lengths
        return length // (_BLOCKS_PER_RESULT * count)

    @property
    def _groups(self) -> int:
        """Number of block groups with a block per lane; 0 if blocks are not worthwhile."""
        length, count = self.lengths
        if isinstance(count, Extent) or may_change(length):
            return 0
        groups = length // (self._block * self._key_lanes) if self._block >= _MIN_BLOCK_ELEMENTS else 0
        return groups if groups * self._key_lanes >= count else 0

    @property
    def _mark(self) -> str:
        return f"i{self.mark_bits}"

    @property
    def _key(self) -> str:
        return f"i{self._key_bits}"

    def write(self) -> None:
        """Writes the instructions for the range of work items."""
        with self._rows.each() as (row, source):
            self._begin(source)
            self._look(source, self._bound(source))
            if self._counts:
                self._count(row)
            else:
                self._end(row, self.lengths[1])

    def _begin(self, source: str) -> None:
        """Builds the heap from the first elements."""
        code, (_, count) = self._code, self.lengths
        with code.loop("0", str(count)) as loop:
            code.effect(
                f"store {self._mark} {self._mark_at(source, loop.index)}, ptr {self._slot(loop.index)}"
            )
        with code.loop("0", str(count // 2), may_be_empty=True) as loop:
            hole = code.value(f"sub i64 {count // 2 - 1}, {loop.index}")
            mark = code.fresh(f"load {self._mark}, ptr {self._slot(hole)}")
            self._sift(hole, str(count), mark)

    def _bound(self, source: str) -> str | None:
        """Returns a key that at least k elements reach; None if it is not worthwhile."""
        if not self._groups:
            return None
        code, lanes = self._code, self._key_lanes
        v = Vector(code, self._target, lanes)
        kind, register = v.type(self._key), self._target.vector_bytes
        maxima = address(code, "%scratch", str(self._maxima_begin))
        with code.loop("0", str(self._groups)) as group:
            first = multiple(code, group.index, self._block * lanes)
            with code.loop("0", str(self._block), [(kind, v.number(self._key, self._lowest))]) as row:
                keys = keys_at(v, self._kind, source, total(code, first, multiple(code, row.index, lanes)))
                row.results = [v.call("llvm.smax", self._key, row.carried[0], keys)]
            at = address(code, maxima, multiple(code, group.index, register))
            code.effect(f"store {kind} {row.results[0]}, ptr {at}, align {register}")
        # Binary search, bit by bit, for the largest key that enough blocks reach.
        with code.loop("0", str(self._key_bits), [(self._key, "0")]) as bit:
            (known,) = bit.carried
            shift = code.value(f"sub i64 {self._key_bits - 1}, {bit.index}")
            shift = shift if self._key == "i64" else code.value(f"trunc i64 {shift} to i32")
            wanted = code.value(f"or {self._key} {known}, {code.value(f'shl {self._key} 1, {shift}')}")
            least = v.splat(self._key, code.value(f"xor {self._key} {wanted}, {self._lowest}"))
            with code.loop("0", str(self._groups), [(kind, v.number(self._key, 0))]) as group:
                at = address(code, maxima, multiple(code, group.index, register))
                keys = code.fresh(f"load {kind}, ptr {at}, align {register}")
                reached = v.cast("sext", "i1", v.compare("sge", self._key, keys, least), self._key)
                group.results = [v.binary("sub", self._key, group.carried[0], reached)]
            count = horizontal_sum(v, self._key, group.results[0])
            is_enough = code.fresh(f"icmp sge {self._key} {count}, {self.lengths[1]}")
            bit.results = [code.fresh(f"select i1 {is_enough}, {self._key} {wanted}, {self._key} {known}")]
        return code.fresh(f"xor {self._key} {bit.results[0]}, {self._lowest}")

    @property
    def _lowest(self) -> int:
        return -(1 << (self._key_bits - 1))

    def _count(self, row: list[str]) -> None:
        """Stores each result at its rank, which is the number of larger marks."""
        code, count = self._code, self.lengths[1]
        v = Vector(code, self._target, self._target.lanes(self.mark_bits // 8))
        kind, mark = v.type(self._mark), self._mark
        whole = -(-count // v.lanes) * v.lanes
        for index in range(count, whole):
            # Padding of the last vector never precedes a result.
            code.effect(f"store {mark} {-(1 << (self.mark_bits - 1))}, ptr {self._slot(str(index))}")
        with code.loop("0", str(count)) as loop:
            own = code.fresh(f"load {mark}, ptr {self._slot(loop.index)}")
            compared = v.splat(mark, own)
            with code.loop("0", str(whole), [(kind, v.number(mark, 0))], step=v.lanes) as each:
                marks = code.fresh(f"load {kind}, ptr {self._slot(each.index)}, align {self.mark_bits // 8}")
                is_before = v.cast("sext", "i1", v.compare("sgt", mark, marks, compared), mark)
                each.results = [v.binary("sub", mark, each.carried[0], is_before)]
            rank = horizontal_sum(v, mark, each.results[0])
            self._rows.store(self._slot_of(own), row, rank)

    def _slot_of(self, mark: str) -> str:
        """Returns the index in a mark, as i32."""
        index = self._code.fresh(f"trunc {self._mark} {mark} to i32")
        return self._single.binary("xor", "i32", index, "-1") if self._node.prefers_lower_index else index

    def _look(self, source: str, bound: str | None) -> None:
        """Processes the remaining elements of a row.

        Args:
            source: address of the row.
            bound: lower bound of wanted keys.
        """
        code, (length, count) = self._code, self.lengths
        v = Vector(code, self._target, _REGISTERS * self._target.lanes(4))
        whole = (length - count) // v.lanes * v.lanes
        if not is_zero(whole):
            mask = f"i{v.lanes}"
            code.declarations.add(f"declare {mask} @llvm.ctpop.{mask}({mask})")
            code.declarations.add(f"declare {mask} @llvm.cttz.{mask}({mask}, i1)")
            with code.loop(
                str(count), str(count + whole), step=v.lanes, may_be_empty=isinstance(whole, Extent)
            ) as loop:
                keys = keys_at(v, self._kind, source, loop.index)
                least = v.splat(self._key, self._least_key(bound))
                # An equal element with a higher index precedes the root unless lower indices are
                # preferred.
                condition = "sgt" if self._node.prefers_lower_index else "sge"
                found = code.fresh(
                    f"bitcast {v.type('i1')} {v.compare(condition, self._key, keys, least)} to {mask}"
                )
                many = code.fresh(f"call {mask} @llvm.ctpop.{mask}({mask} {found})")
                iterations = self._resized(mask, many)
                with code.loop("0", iterations, [(mask, found)], may_be_empty=True) as each:
                    (left,) = each.carried
                    lane = code.fresh(f"call {mask} @llvm.cttz.{mask}({mask} {left}, i1 true)")
                    self._enter(source, total(code, loop.index, self._resized(mask, lane)))
                    less = code.fresh(f"sub {mask} {left}, 1")
                    each.results = [code.fresh(f"and {mask} {left}, {less}")]
        with code.loop(str(count + whole), str(length), may_be_empty=True) as loop:
            self._enter(source, loop.index)

    def _end(self, row: list[str], count: int) -> None:
        """Pops the smallest mark repeatedly, to store results from last to first."""
        code = self._code
        with code.loop("0", str(count)) as loop:
            last = code.value(f"sub i64 {count - 1}, {loop.index}")
            root = code.fresh(f"load {self._mark}, ptr %scratch")
            index = self._slot_of(root)
            mark = code.fresh(f"load {self._mark}, ptr {self._slot(last)}")
            self._sift("0", last, mark)
            self._rows.store(index, row, last)

    def _enter(self, source: str, index: str) -> None:
        """Replaces the smallest mark by an element that precedes it."""
        code = self._code
        mark = self._mark_at(source, index)
        root = code.fresh(f"load {self._mark}, ptr %scratch")
        with code.when(code.fresh(f"icmp sgt {self._mark} {mark}, {root}")):
            self._sift("0", str(self.lengths[1]), mark)

    def _sift(self, hole: str, count: str, mark: str) -> None:
        self._code.effect(
            f"call void @{NAME}_sift(ptr %scratch, i64 {hole}, i64 {count}, {self._mark} {mark})"
        )

    def _slot(self, index: str) -> str:
        return self._code.fresh(f"getelementptr {self._mark}, ptr %scratch, i64 {index}")

    def _least_key(self, bound: str | None) -> str:
        """Returns the key that elements are compared with: the root's, or the bound if larger."""
        code = self._code
        root = code.fresh(f"load {self._mark}, ptr %scratch")
        high = code.fresh(f"lshr {self._mark} {root}, {self._key_bits}")
        root_key = code.fresh(f"trunc {self._mark} {high} to {self._key}")
        if bound is None:
            return root_key
        if self._node.prefers_lower_index:
            # The comparison is strict here, so the bound is lowered by one unless it is the lowest
            # key.
            is_lowest = code.value(f"icmp eq {self._key} {bound}, {self._lowest}")
            less = code.value(f"sub {self._key} {bound}, 1")
            bound = code.value(f"select i1 {is_lowest}, {self._key} {bound}, {self._key} {less}")
        return self._single.call("llvm.smax", self._key, root_key, bound)

    def _resized(self, kind: str, value: str) -> str:
        """Converts a bit mask or lane number to i64."""
        bits = int(kind[1:])
        if bits == 64:
            return value
        return self._code.fresh(f"{'zext' if bits < 64 else 'trunc'} {kind} {value} to i64")

    def _mark_at(self, source: str, index: str) -> str:
        """Returns the mark of an element."""
        code, single, mark = self._code, self._single, self._mark
        key = single.cast("sext", self._key, keys_at(single, self._kind, source, index), mark)
        high = single.binary("shl", mark, key, str(self._key_bits))
        low = single.cast("trunc", "i64", index, "i32")
        if self._node.prefers_lower_index:
            low = single.binary("xor", "i32", low, "-1")
        return code.fresh(f"or {mark} {high}, {single.cast('zext', 'i32', low, mark)}")
