"""Results of a quantised product's tile: rescaled or computed generically, and stored."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import Epilogue
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.packed_bytes import has_packed_bytes
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.accumulator_spill import each_spilled_position
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.flattened import pitch_of
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import as_bytes
from neurald.drivers.cpu.kernels.int8.epilogue.residual import Residual
from neurald.drivers.cpu.kernels.int8.epilogue.stores import store_lanes
from neurald.drivers.cpu.kernels.int8.packing.panels import RESIDUAL_OFFSET
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES

#: Positions whose results are narrowed together.
_TOGETHER = 2


class ResultWriter:
    """Writes the results of tiles.

    Args:
        code: receives the instructions.
        plan: the plan of the kernel.
        epilogue: the epilogue of the kernel.
        names: names of the memory of the output and of all values that the body reads.
        head: name of the packed weights' memory.
    """

    def __init__(
        self,
        code: Instructions,
        plan: ProductPlan,
        epilogue: QuantizedEpilogue,
        names: Mapping[Value, str],
        *,
        head: str,
    ) -> None:
        self._code, self._plan, self._epilogue, self._names = code, plan, epilogue, names
        self._target, self._lanes, self._width = plan.scheme.target, plan.scheme.lanes, plan.product.width
        self._single = Vector(code, self._target, 1)
        self._vector = Vector(code, self._target, self._lanes)
        self._output, self._pitch = names[epilogue.kernel.output], pitch_of(epilogue.kernel)
        # Partial vectors take the general path.
        self._residual = epilogue.residual if plan.product.channels >= self._lanes else None
        self._head = head

    @cached_property
    def _generic_epilogue(self) -> Epilogue:
        return Epilogue(self._epilogue.kernel, self._target, self._code, self._names)

    def write_spilled(
        self, totals: str, rows: list[list[str]], position: str, channel: str, *, count: int | None = None
    ) -> None:
        """Writes the results of a tile with spilled sums; see `accumulator_spill`.

        Args:
            totals: address of the sums; those of a position are contiguous.
            rows: vectors of epilogue constants, see `Rescaling.rows`.
            position, channel: the first ones in the output.
            count: number of positions; those of a tile by default.
        """

        def write(first: str, sums: Sequence[str]) -> None:
            self._write_positions(sums, rows, self._single.binary("add", "i64", position, first), channel)

        shape = self._plan.pixels if count is None else count, self._plan.vectors
        together = self._together if isinstance(shape[0], Extent) else min(shape[0], self._together)
        each_spilled_position(self._vector, "i32", shape, totals, write, together=together)

    def write_some(
        self, totals: str, rows: list[list[str]], at: tuple[str, str], index: str, shape: tuple[int, int, int]
    ) -> None:
        """Writes the results of some positions of a tile with spilled sums; see `write_spilled`.

        Args:
            totals: address of the sums of the tile.
            rows: vectors of epilogue constants.
            at: the first position and channel of the tile in the output.
            index: which positions, below `turns`.
            shape: rows of the tile, positions of a row, and distance of rows in the sums.
        """
        code, v, vectors = self._code, self._vector, self._plan.vectors
        _, width, pitch = shape
        together = min(width, self._together)
        of_row = -(-width // together)
        row, column = "0", index
        if shape[0] > 1:
            row, column = (code.value(f"{each} i64 {index}, {of_row}") for each in ("udiv", "urem"))
        column = multiple(code, column, together)
        if width % together:
            column = self._single.call("llvm.smin", "i64", column, str(width - together))
        size = v.lanes * WORD_BYTES
        line = vectors * size
        start = address(code, totals, multiple(code, row, pitch * line), multiple(code, column, line))
        places = [address(code, start, str(each * size)) for each in range(together * vectors)]
        sums = [code.fresh(f"load {v.type('i32')}, ptr {each}, align {size}") for each in places]
        position = total(code, at[0], multiple(code, row, width), column)
        self._write_positions(sums, rows, position, at[1])

    def turns(self, rows: int, width: int) -> int:
        """Returns how many calls of `write_some` write a tile of rows of positions."""
        return rows * -(-width // min(width, self._together))

    def write(self, totals: Sequence[str], rows: list[list[str]], position: str, channel: str) -> None:
        """Writes the results of a tile with sums in registers; see `write_spilled`."""
        step = self._together * self._plan.vectors
        for first in range(0, len(totals), step):
            at = self._single.binary("add", "i64", position, str(first // self._plan.vectors))
            self._write_positions(totals[first : first + step], rows, at, channel)

    @property
    def _together(self) -> int:
        """Number of positions whose results are written together."""
        return _TOGETHER if is_packed(self._plan, self._epilogue) else 1

    def _write_positions(
        self, totals: Sequence[str], rows: list[list[str]], position: str, channel: str
    ) -> None:
        """Writes the results of consecutive positions."""
        vectors = self._plan.vectors
        if is_packed(self._plan, self._epilogue):
            for vector in range(0, vectors, 2):
                pairs = [totals[at : at + 2] for at in range(vector, len(totals), vectors)]
                column = self._single.binary("add", "i64", channel, str(vector * self._lanes))
                self._write_bytes(pairs, [row[vector : vector + 2] for row in rows], position, column)
            return
        for number, sums in enumerate(totals):
            offset, vector = divmod(number, vectors)
            row = self._single.binary("add", "i64", position, str(offset))
            column = self._single.binary("add", "i64", channel, str(self._plan.start(0, vector)))
            self._write_vector(sums, [each[vector] for each in rows], row, column)

    def _element(self, pointer: str, kind: str, row: str, column: str, pitch: int) -> str:
        """Returns the address of an element, in a value with this stride of positions."""
        offset = self._single.binary("add", "i64", multiple(self._code, row, pitch), column)
        return self._code.value(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def _other(self, residual: Residual, row: str, column: str, lanes: int) -> str:
        """Loads bytes that are added to rescaled sums."""
        at = self._element(self._names[residual.other], "i8", row, column, self._width)
        return self._code.fresh(f"load <{lanes} x i8>, ptr {at}, align 1")

    def _residual_words(self, residual: Residual) -> list[str]:
        """Loads `Residual.words` into vectors."""
        words = []
        for number in range(len(residual.words)):
            offset = RESIDUAL_OFFSET + number * WORD_BYTES
            at = self._code.value(f"getelementptr i8, ptr {self._head}, i64 {offset}")
            words.append(
                self._vector.splat("i32", self._code.load(f"load i32, ptr {at}, align {WORD_BYTES}"))
            )
        return words

    # One vector at a time.

    def _write_vector(self, total: str, words: list[str], row: str, column: str) -> None:
        """Writes the results of a vector of sums."""
        code, target, epilogue, lanes = self._code, self._target, self._epilogue, self._lanes
        channels, output = self._plan.product.channels, self._epilogue.kernel.output
        rescaling, residual = epilogue.rescaling, self._residual
        if rescaling is not None and residual is not None:
            scaled = rescaling.results(code, target, total, words)
            other = self._other(residual, row, column, lanes)
            total = residual.write(code, target, scaled, other, self._residual_words(residual))
        elif rescaling is not None:
            total = rescaling.write(code, target, total, words)
        if residual is not None or epilogue.is_stored:
            kind = stored(output.type)
            to = self._element(self._output, kind, row, column, self._pitch)
            store_lanes(code, total, kind, lanes, to, min(lanes, channels))
            return
        mask = None
        if channels < lanes:
            mask = "<" + ", ".join(f"i1 {int(lane < channels)}" for lane in range(lanes)) + ">"
        self._generic_epilogue.write(total, (row, column), lanes, mask)

    # Bytes of two vectors at each of two positions, for AVX-512.

    def _write_bytes(
        self, pairs: Sequence[Sequence[str]], words: list[list[str]], position: str, column: str
    ) -> None:
        """Writes the results of two vectors at one or two positions."""
        code, last, lanes = self._code, self._residual or self._epilogue.rescaling, 2 * self._lanes
        assert last is not None  # noqa: S101 - see `is_packed`
        offsets = [self._single.binary("add", "i64", position, str(number)) for number in range(len(pairs))]
        halves: list[str] = []

        def write(totals: Sequence[str], row: str) -> None:
            halves.append(self._as_halves(totals, words, row, column))

        code.interleaved([partial(write, *each) for each in zip(pairs, offsets, strict=True)])
        mixed = as_bytes(code, self._target, (halves[0], halves[-1]), last.type, (last.low, last.high))
        for number, row in enumerate(offsets):
            # Each 128 bits hold eight channels of one position, then eight of the other.
            order = ", ".join(f"i32 {16 * (each // 8) + 8 * number + each % 8}" for each in range(lanes))
            piece = code.fresh(
                f"shufflevector <64 x i8> {mixed}, <64 x i8> poison, <{lanes} x i32> <{order}>"
            )
            to = self._element(self._output, "i8", row, column, self._pitch)
            code.effect(f"store <{lanes} x i8> {piece}, ptr {to}, align 1")

    def _as_halves(self, totals: Sequence[str], words: list[list[str]], row: str, column: str) -> str:
        """Narrows two vectors of a position to one of i16."""
        code, target, rescaling = self._code, self._target, self._epilogue.rescaling
        assert rescaling is not None  # noqa: S101 - see `is_packed`
        scaled: list[str] = []

        def scale(number: int, total: str) -> None:
            row_words = [each[number] for each in words]
            scaled.append(rescaling.scaled(code, target, total, row_words))

        code.interleaved([partial(scale, *each) for each in enumerate(totals)])
        halves = rescaling.halves(code, target, (scaled[0], scaled[1]), [each[0] for each in words])
        if self._residual is None:
            return halves
        v = Vector(code, target, 2 * self._lanes)
        other = self._other(self._residual, row, column, v.lanes)
        stored_sums, numbers = rescaling.limited(v, "i16", halves), self._residual_words(self._residual)
        return self._residual.halves(code, target, stored_sums, other, numbers)


def is_packed(plan: ProductPlan, epilogue: QuantizedEpilogue) -> bool:
    """Returns True if results are narrowed from pairs of vectors, with AVX-512 instructions."""
    rescaling = epilogue.rescaling
    is_bytes = rescaling is not None and rescaling.type.size_bytes == 1
    is_known = epilogue.is_stored or epilogue.residual is not None
    is_packing = plan.scheme.is_bytes and has_packed_bytes(plan.scheme.target)
    return is_packing and plan.has_pairs and is_bytes and is_known
