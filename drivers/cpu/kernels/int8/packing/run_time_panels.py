"""Packs weights that are computed at run time to panels, in the layout of `panels`.

Before the first block of a batch is multiplied, its right matrix is packed to scratch memory; so
are the weights of a convolution before its first block. Words of terms that are rows of the matrix
are combined from neighbouring rows; those of terms that are contiguous are transposed, a square of
words at a time.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.product import BatchDimension
from neurald.drivers.cpu.kernels.common.transposed_registers import transposed
from neurald.drivers.cpu.kernels.int8.packing.panels import HEAD_BYTES, PIECE, panel_bytes, reach_of
from neurald.drivers.cpu.kernels.int8.packing.word_packing import WordPacking
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.scheme import Scheme


class RightMatrix(Struct, frozen=True, kw_only=True):
    """The right operand of a product, which is packed at run time.

    With the scheme's elements, products are as described at `QuantizedWeights`.

    Attributes:
        value: the operand; its elements have one byte.
        zero: its zero point.
        channels, terms: their numbers.
        channel_step, term_step: distance of neighbouring channels and terms, in elements; one of
            them is 1.
        batches: those of matrices, see `WindowedProduct`. There are none if all images have the
            same weights, of which each channel group of the plan has a matrix.
        is_left_transposed: True if rows of the left matrix are terms.
    """

    value: Value
    zero: int
    channels: int
    terms: int
    channel_step: int
    term_step: int
    batches: tuple[BatchDimension, ...]
    is_left_transposed: bool

    def taken(self, scheme: Scheme) -> int:
        """Returns how much larger weights, without their zero point, are than packed elements."""
        if not scheme.is_bytes:
            return 0
        return (128 if self.value.type is Scalar.UINT8 else 0) - self.zero

    def largest(self, source: Scalar, zero: int) -> int:
        """Returns a bound on the magnitude of sums, given the type and zero point of inputs."""
        return reach_of(source, zero) * reach_of(self.value.type, self.zero) * self.terms

    def start(self, padding: int, scheme: Scheme) -> int:
        """Returns the part of the initial sums that does not depend on its elements."""
        return -padding * self.taken(scheme) * self.terms

    def set_of(self, code: Instructions, batch: str) -> str:
        """Returns the number of a batch's right matrix."""
        if not self.batches:
            return "0"
        return _place(code, self.batches, batch, [each.weights for each in self.batches])

    def image_of(self, code: Instructions, batch: str, image_bytes: int) -> str:
        """Returns the number of a batch's left matrix, given the size of one."""
        steps = [each.source_bytes // image_bytes for each in self.batches]
        return _place(code, self.batches, batch, steps)


def _place(code: Instructions, batches: Sequence[BatchDimension], batch: str, steps: Sequence[int]) -> str:
    """Returns the number of a matrix, given its distance along each dimension of batches."""
    inner = [math.prod(each.extent for each in batches[number + 1 :]) for number in range(len(batches))]
    varying = [number for number, each in enumerate(batches) if each.extent != 1]
    if all(steps[number] == inner[number] for number in varying):
        return batch
    parts = []
    for number in varying:
        if not steps[number]:
            continue
        digit = code.value(f"udiv i64 {batch}, {inner[number]}")
        digit = code.value(f"urem i64 {digit}, {batches[number].extent}")
        parts.append(multiple(code, digit, steps[number]))
    return total(code, *parts) if parts else "0"


def _in_pair(lane: int, vector: int) -> int:
    """Returns the channel of a lane of one of two vectors whose channels alternate."""
    return lane // PIECE * 2 * PIECE + vector * PIECE + lane % PIECE


class RunTimePanels:
    """Writes the packing of right matrices.

    Args:
        code: receives the instructions.
        plan: the plan of the product.
        right: the right operand.
        pointers: the pointers to its memory, and of the constant that `panels.packed_heads`
            returns.
        rows: number of rows of epilogue constants in a panel.
        padding: the padding element of inputs.
        in_pairs: see `panels.packed`.
    """

    def __init__(
        self,
        code: Instructions,
        plan: ProductPlan,
        right: RightMatrix,
        pointers: tuple[str, str],
        *,
        rows: int,
        padding: int,
        in_pairs: bool,
    ) -> None:
        self._code, self._plan, self._right = code, plan, right
        self._pointer, self._heads = pointers
        self._rows, self._padding, self._together = rows, padding, 2 if in_pairs else 1
        self._packing = WordPacking(
            scheme=plan.scheme.of_steps, type=right.value.type, zero=right.zero, is_signed=True
        )
        self._scheme, self._register = plan.scheme, plan.scheme.target.vector_bytes
        #: Distances of rows of constants, and of words of weights.
        self._row, self._line = plan.vectors * self._register, plan.step_bytes
        self._word = self._register * plan.scheme.word_registers
        self._single = Vector(code, plan.scheme.target, 1)
        self._words = Vector(code, plan.scheme.target, plan.scheme.lanes)
        self._kind = self._words.type("i32")

    @property
    def size_bytes(self) -> int:
        """Size of all panels of a batch."""
        return self._plan.groups * self._plan.panels * panel_bytes(self._plan, self._rows)

    def write(self, batch: str, memory: str) -> None:
        """Packs the right matrix of a batch, or those of all channel groups, to memory."""
        code, plan, right = self._code, self._plan, self._right
        panels_bytes = plan.panels * panel_bytes(plan, self._rows)
        heads_bytes = plan.panels * (1 + self._rows) * self._row
        heads = address(code, self._heads, str(HEAD_BYTES))
        if plan.groups == 1:
            self._write_matrix(right.set_of(code, batch), heads, memory)
            return
        with code.loop("0", str(plan.groups)) as groups:
            own = address(code, heads, multiple(code, groups.index, heads_bytes))
            to = address(code, memory, multiple(code, groups.index, panels_bytes))
            self._write_matrix(groups.index, own, to)

    def _write_matrix(self, number: str, heads: str, memory: str) -> None:
        """Packs a right matrix, given the address of its panels' constants."""
        code, plan, right, lanes = self._code, self._plan, self._right, self._scheme.lanes
        matrix = address(code, self._pointer, multiple(code, number, right.channels * right.terms))
        width, head = plan.vectors * lanes, (1 + self._rows) * self._row
        with (
            code.loop("0", str(plan.panels)) as panels,
            code.loop("0", str(plan.vectors), step=self._together) as vectors,
        ):
            first = multiple(code, panels.index, width)
            first = self._least(first, max(0, right.channels - width))
            channel = total(code, first, multiple(code, vectors.index, lanes))
            channel = self._least(channel, max(0, right.channels - lanes))
            source = address(code, matrix, multiple(code, channel, right.channel_step))
            offset = multiple(code, vectors.index, self._register)
            constant = address(code, heads, multiple(code, panels.index, head), offset)
            panel = multiple(code, panels.index, panel_bytes(plan, self._rows))
            to = address(code, memory, panel, offset)
            place = address(code, memory, panel, multiple(code, vectors.index, self._word))
            weights = address(code, place, str(head))
            self._write_head(constant, to, self._pack_runs(source, weights))

    def _pack_runs(self, source: str, weights: str) -> list[str]:
        """Packs all runs of the vectors that are packed together; returns the sums of weights."""
        code, plan, runs = self._code, self._plan, self._plan.product.rows.taps * self._plan.runs
        sums = ["zeroinitializer"] * self._together
        if runs == 1:
            return self._pack_run(source, weights, sums)
        with code.loop("0", str(runs), [(self._kind, each) for each in sums]) as loop:
            at = address(code, source, multiple(code, loop.index, plan.run * self._right.term_step))
            to = address(code, weights, multiple(code, loop.index, plan.run_steps * self._line))
            loop.results = self._pack_run(at, to, loop.carried)
        return loop.results

    def _pack_run(self, source: str, weights: str, sums: Sequence[str]) -> list[str]:
        """Packs the words of a run; returns the sums with its weights."""
        pack = self._pack_rows if self._right.channel_step == 1 else self._pack_columns
        sums = pack(source, weights, sums)
        self._fill(weights)
        return sums

    def _least(self, number: str, limit: int) -> str:
        return self._single.call("llvm.smin", "i64", number, str(limit))

    def _write_head(self, constant: str, to: str, sums: Sequence[str]) -> None:
        """Writes the initial sums and the rows of constants of vectors that are packed together.

        Args:
            constant: address of the constants.
            to: destination.
            sums: the sums of the packed weights of each channel.
        """
        code = self._code
        for row in range(1 + self._rows):
            for number, weights in enumerate(sums):
                offset = str(row * self._row + number * self._register)
                at = address(code, constant, offset)
                value = code.fresh(f"load {self._kind}, ptr {at}, align {self._register}")
                if row == 0 and self._padding:
                    factor = self._words.number("i32", -self._padding)
                    value = code.fresh(
                        f"add {self._kind} {value}, {self._words.binary('mul', 'i32', weights, factor)}"
                    )
                self._store(value, address(code, to, offset))

    def _store_words(self, words: Sequence[str], to: str) -> None:
        """Stores a word of every lane, given in parts of 32 bits."""
        if len(words) == 1:
            self._store(words[0], to)
            return
        lanes, half, number = self._scheme.lanes, self._scheme.lanes // 2, 0
        for pair in zip(words[::2], words[1::2], strict=True):
            for first in range(0, lanes, half):
                order = [lane + part * lanes for lane in range(first, first + half) for part in range(2)]
                place = address(self._code, to, str(number * self._register))
                self._store(self._picked(pair, order), place)
                number += 1

    def _store(self, words: str, to: str) -> None:
        self._code.effect(f"store {self._kind} {words}, ptr {to}, align {self._register}")

    def _fill(self, weights: str) -> None:
        """Fills the words of a run after those with terms with zeros."""
        used = -(-self._plan.run // self._scheme.group)
        if used == self._plan.run_steps:
            return
        with self._code.loop(str(used), str(self._plan.run_steps)) as loop:
            to = address(self._code, weights, multiple(self._code, loop.index, self._line))
            for number in range(self._together * self._scheme.word_registers):
                self._store("zeroinitializer", address(self._code, to, str(number * self._register)))

    def _with(self, sums: str, words: str) -> str:
        """Adds the weights of each lane to their sums, which only products of bytes need."""
        if not self._padding:
            return sums
        return self._packing.scheme.step(self._code, sums, self._words.number("i32", 0x01010101), words)

    # Terms are rows of the matrix.

    def _pack_rows(self, source: str, weights: str, sums: Sequence[str]) -> list[str]:
        """Packs words of neighbouring rows; returns the sums with these weights."""
        code, right, group = self._code, self._right, self._scheme.group
        whole, rest = divmod(self._plan.run, group)
        if whole:
            carried = [(self._kind, each) for each in sums]
            with code.loop("0", str(whole), carried) as loop:
                at = address(code, source, multiple(code, loop.index, group * right.term_step))
                to = address(code, weights, multiple(code, loop.index, self._line))
                loop.results = self._pack_word(at, to, group, loop.carried)
            sums = loop.results
        if rest:
            at = address(code, source, str(whole * group * right.term_step))
            sums = self._pack_word(at, address(code, weights, str(whole * self._line)), rest, sums)
        return list(sums)

    def _pack_word(self, source: str, to: str, count: int, sums: Sequence[str]) -> list[str]:
        """Packs a word of `count` rows."""
        code, of_part = self._code, self._packing.scheme.group
        parts = [
            self._part_of_word(
                address(code, source, str(first * self._right.term_step)), min(of_part, count - first)
            )
            for first in range(0, self._scheme.group, of_part)
        ]
        for number, words in enumerate(zip(*parts, strict=True)):
            self._store_words(words, address(code, to, str(number * self._word)))
        for part in parts:
            sums = [self._with(*each) for each in zip(sums, part, strict=True)]
        return list(sums)

    def _part_of_word(self, source: str, count: int) -> list[str]:
        """Returns 32 bits of a word for each vector that is packed together, of `count` rows."""
        code, lanes = self._code, self._scheme.lanes
        if count <= 0:
            return ["zeroinitializer"] * self._together
        words = [
            self._combined(address(code, source, str(number * lanes)), count)
            for number in range(self._together)
        ]
        if self._together > 1:
            words = [
                self._picked(words, [_in_pair(each, parity) for each in range(lanes)]) for parity in (0, 1)
            ]
        return words

    def _picked(self, words: Sequence[str], lanes: Sequence[int]) -> str:
        """Returns some lanes of two vectors."""
        order = ", ".join(f"i32 {each}" for each in lanes)
        return self._code.fresh(
            f"shufflevector {self._kind} {words[0]}, {self._kind} {words[1]}, <{len(lanes)} x i32> <{order}>"
        )

    def _combined(self, source: str, count: int) -> str:
        """Returns words of `count` rows for a vector of channels."""
        code, right, lanes = self._code, self._right, self._scheme.lanes
        rows = [
            self._packing.load(
                code, address(code, source, str(row * right.term_step)), min(lanes, right.channels), lanes
            )
            for row in range(count)
        ]
        return self._packing.of_rows(code, rows)

    # Terms are contiguous.

    def _pack_columns(self, source: str, weights: str, sums: Sequence[str]) -> list[str]:
        """Packs words of contiguous terms; returns the sums with these weights."""
        code, scheme = self._code, self._scheme
        step = self._packing.terms
        words = step // scheme.group
        whole, rest = divmod(self._plan.run, step)
        if whole:
            carried = [(self._kind, each) for each in sums]
            with code.loop("0", str(whole), carried) as loop:
                at = address(code, source, multiple(code, loop.index, step))
                to = address(code, weights, multiple(code, loop.index, words * self._line))
                loop.results = self._pack_square(at, to, step, loop.carried)
            sums = loop.results
        if rest:
            at = address(code, source, str(whole * step))
            to = address(code, weights, str(whole * words * self._line))
            sums = self._pack_square(at, to, rest, sums)
        return list(sums)

    def _pack_square(self, source: str, to: str, count: int, sums: Sequence[str]) -> list[str]:
        """Packs the words of `count` terms of the vectors that are packed together."""
        code, right, packing, lanes = self._code, self._right, self._packing, self._scheme.lanes
        results = []
        for number, found in enumerate(sums):
            rows = []
            for lane in range(lanes):
                channel = lane if self._together == 1 else _in_pair(lane, number)
                channel = min(channel, right.channels - 1)
                at = address(code, source, str(channel * right.channel_step))
                loaded = packing.load(code, at, count, packing.terms)
                rows.append(packing.of_terms(code, loaded, count))
            # All elements after the first ones are 0.
            columns, parts = transposed(code, "i32", rows), self._scheme.word_registers
            for place in range(-(-count // self._scheme.group)):
                words = columns[place * parts : (place + 1) * parts]
                self._store_words(words, address(code, to, str(place * self._line + number * self._word)))
                for each in words:
                    found = self._with(found, each)
            results.append(found)
        return results
