"""Multiplies the windows of a tile by a panel of weights, in a subroutine that many kernels share.

Distances and numbers of steps come from a table. So the subroutine only depends on the form of a
tile, and a network has few forms of tiles.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum, auto
from functools import cache
from typing import Final, TypedDict, Unpack

from msgspec import Struct

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.accumulator_spill import spill
from neurald.drivers.cpu.kernels.common.addressing import (
    address,
    multiple,
    opaque,
    prefetch_lines,
    total,
)
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.kernels.int8.product.word_products import add_words, joined, separated
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.target.routine import Subroutine

#: Maximum number of addresses of positions that are carried through loops: general registers hold
#: them, besides two distances, the address of the weights, and the counter and its end. Targets
#: that multiply matrices have more registers.
MAX_ADDRESSES: Final = 8
_MAX_ADDRESSES_OF_MATRICES: Final = 20
#: Positions that are addressed relative to one of them, by multiples of their distance.
_NEIGHBOURS: Final = 4

#: Addresses of the first window, the panel, the part of the next panel to prefetch, the addends of
#: the positions, the memory for sums, and the table.
_POINTERS: Final = ("%source", "%panel", "%ahead", "%common", "%totals", "%table")
_WORD_BYTES: Final = 8


class TileEntry(IntEnum):
    """Entries of the table, which are words of 64 bits. Distances are in bytes."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count

    #: Distances of the positions of a line, and of lines; see `TileForm`.
    STEP = auto()
    LINE_STEP = auto()
    #: What is before the weights in a panel.
    HEAD = auto()
    #: Where a panel has the initial sums, and distance of the first tap from the first window.
    START = auto()
    SOURCE = auto()
    #: Number and distance of a window's rows, and of the runs in a row; and size of the weights of
    #: runs of a row that are left out.
    ROWS = auto()
    ROW = auto()
    RUNS = auto()
    RUN = auto()
    OMITTED = auto()
    #: Number of parts of a run, and of steps in a part.
    PARTS = auto()
    STEPS = auto()
    #: What a part prefetches.
    AHEAD = auto()
    #: Where a panel has its first row and column of taps with weights, and how many runs and parts
    #: a column of taps has.
    FIRST = auto()
    SKIPPED_RUNS = auto()
    SKIPPED_PARTS = auto()


class _Others(TypedDict):
    """The attributes of a `TileForm` besides its positions."""

    scheme: Scheme
    vectors: int
    has_sums: bool
    prefetches: int
    skips_taps: bool
    omits_taps: bool


class TileForm(Struct, frozen=True, kw_only=True):
    """Properties of a tile on which its instructions depend.

    Attributes:
        scheme: multiplication scheme.
        lines, length: number of lines of positions, and of positions in each.
        is_transposed: True if lines are columns; else they are rows.
        vectors: number of vectors of a panel.
        has_sums: True if all channels of a position share an addend.
        prefetches: number of cache lines that each part prefetches.
        skips_taps: see `ProductPlan`.
        omits_taps: True if tables tell which taps are multiplied, see `TapSets`.
    """

    scheme: Scheme
    lines: int
    length: int
    is_transposed: bool
    vectors: int
    has_sums: bool
    prefetches: int
    skips_taps: bool
    omits_taps: bool

    @staticmethod
    def of(rows: int, columns: int, **others: Unpack["_Others"]) -> "TileForm":
        """Returns the form of a tile of rows and columns, the longer of which are its lines."""
        lines, length = sorted((rows, columns))
        # A single line has the same instructions either way.
        is_transposed = 1 < columns < rows
        return TileForm(lines=lines, length=length, is_transposed=is_transposed, **others)

    @property
    def addresses(self) -> int:
        """Number of addresses of positions that are carried through loops."""
        return self.lines * -(-self.length // self.neighbours)

    @property
    def most_addresses(self) -> int:
        """Maximum number of these addresses."""
        return _MAX_ADDRESSES_OF_MATRICES if self.scheme.has_matrices else MAX_ADDRESSES

    @property
    def neighbours(self) -> int:
        """Number of positions that are addressed relative to one of them.

        Instructions that load a word into one half of a register only advance its address.
        """
        return 1 if self.scheme.has_matrices else _NEIGHBOURS


@cache
def tile_sums(form: TileForm) -> Subroutine:
    """Returns the subroutine that stores the sums of a tile; those of a position are consecutive.

    Its parameters are the pointers `source`, `panel`, `ahead`, `common`, `totals` and `table`, see
    `QuantizedMicroKernel` and `TileEntry`.
    """
    code = Instructions(_POINTERS)
    _TileSums(code, form).write()
    return subroutine_of(code, [("ptr", each) for each in _POINTERS])


class _TileSums:
    """Writes the instructions of the subroutine."""

    def __init__(self, code: Instructions, form: TileForm) -> None:
        self._code, self._form = code, form
        self._single = Vector(code, form.scheme.target, 1)
        self._vector = Vector(code, form.scheme.target, form.scheme.lanes)
        self._kind = self._vector.type("i32")
        self._register = form.scheme.target.vector_bytes
        self._step_bytes = form.vectors * self._register * form.scheme.word_registers
        self._step = self._entry(TileEntry.STEP)
        lines, length = range(form.lines), range(form.length)
        places = [(line, at) for line in lines for at in length]
        if form.is_transposed:
            places = [(line, at) for at in length for line in lines]
        of_line = -(-form.length // form.neighbours)
        #: Number of the carried address, and of the position after it, for each position.
        self._places = [(line * of_line + at // form.neighbours, at % form.neighbours) for line, at in places]

    def _entry(self, entry: TileEntry) -> str:
        at = address(self._code, "%table", str(entry * _WORD_BYTES))
        return self._code.fresh(f"load i64, ptr {at}, align {_WORD_BYTES}")

    def write(self) -> None:
        """Writes everything.

        Weights, and what is prefetched, follow each other through all loops.
        """
        code = self._code
        rows, row, runs, run = map(
            self._entry, (TileEntry.ROWS, TileEntry.ROW, TileEntry.RUNS, TileEntry.RUN)
        )
        parts, steps = self._entry(TileEntry.PARTS), self._entry(TileEntry.STEPS)
        sizes = [multiple(code, steps, self._step_bytes)]
        streams = [address(code, "%panel", self._entry(TileEntry.HEAD))]
        if self._form.prefetches:
            sizes.append(self._entry(TileEntry.AHEAD))
            streams.append("%ahead")
        first_row, first_run, first_part = self._first()
        offsets, totals = self._offsets(), self._starts()
        totals = joined(code, self._form.scheme, totals, self._form.vectors)
        self._skip(streams, sizes, first_row, runs, parts)
        omits_taps, source = self._form.omits_taps, "%source"
        if omits_taps:
            source = address(code, source, self._entry(TileEntry.SOURCE))
        line = [self._at(source, first_row, row)]
        with self._counted(first_row, rows, totals, line, streams):
            window = [self._at(self._at(line[0], first_run, run), first_part, self._of_steps(steps))]
            self._skip(streams, sizes, first_run, parts)
            with self._counted(first_run, runs, totals, window, streams):
                self._skip(streams, sizes, first_part)
                addresses = [self._separate(address(code, window[0], each)) for each in offsets]
                with self._counted(first_part, parts, totals, addresses, streams):
                    self._add_part(totals, addresses, streams, steps, sizes[-1])
                window[0] = address(code, window[0], run)
            line[0] = address(code, line[0], row)
            if omits_taps:
                streams[0] = address(code, streams[0], self._entry(TileEntry.OMITTED))
        totals = separated(code, self._form.scheme, totals, self._form.vectors, len(self._places))
        spill(self._vector, "i32", totals, "%totals")

    def _of_steps(self, steps: str) -> str:
        """Returns the bytes of inputs of a number of steps."""
        return multiple(self._code, steps, self._form.scheme.word_bytes)

    def _product(self, *factors: str) -> str:
        """Multiplies numbers; "0" if one of them is known to be 0."""
        if "0" in factors:
            return "0"
        result, *others = factors
        for each in others:
            result = self._single.binary("mul", "i64", result, each)
        return result

    def _at(self, pointer: str, number: str, step: str) -> str:
        """Advances an address by a number of steps."""
        return address(self._code, pointer, self._product(number, step))

    def _skip(self, streams: list[str], sizes: list[str], *factors: str) -> None:
        """Advances the addresses of what the first parts of windows have."""
        streams[:] = [
            address(self._code, each, self._product(*factors, size))
            for each, size in zip(streams, sizes, strict=True)
        ]

    def _first(self) -> tuple[str, str, str]:
        """Returns the row, the run and the part of a window that are multiplied first."""
        if not self._form.skips_taps:
            return "0", "0", "0"
        code, v = self._code, self._single
        at = address(code, "%panel", self._entry(TileEntry.FIRST))
        row, column = (
            v.cast("zext", "i32", code.fresh(f"load i32, ptr {each}, align {WORD_BYTES}"), "i64")
            for each in (at, address(code, at, str(WORD_BYTES)))
        )
        run, part = (
            v.binary("mul", "i64", column, self._entry(each))
            for each in (TileEntry.SKIPPED_RUNS, TileEntry.SKIPPED_PARTS)
        )
        return row, run, part

    def _offsets(self) -> list[str]:
        """Returns the distances of the carried addresses from the first position."""
        code, form = self._code, self._form
        line_step = self._entry(TileEntry.LINE_STEP)
        return [
            total(code, multiple(code, line_step, line), multiple(code, self._step, first))
            for line in range(form.lines)
            for first in range(0, form.length, form.neighbours)
        ]

    def _starts(self) -> list[str]:
        """Returns the initial sums."""
        code, form = self._code, self._form
        first = "%panel"
        if form.omits_taps:
            first = address(code, first, self._entry(TileEntry.START))
        starts = [
            code.fresh(f"load {self._kind}, ptr {at}, align {self._register}")
            for at in (address(code, first, str(each * self._register)) for each in range(form.vectors))
        ]
        if not form.has_sums:
            return starts * len(self._places)
        totals = []
        for number in range(len(self._places)):
            at = address(code, "%common", str(number * WORD_BYTES))
            word = self._vector.splat("i32", code.fresh(f"load i32, ptr {at}, align {WORD_BYTES}"))
            totals += [code.fresh(f"add {self._kind} {start}, {word}") for start in starts]
        return totals

    @contextmanager
    def _counted(self, first: str, end: str, totals: list[str], *pointers: list[str]) -> Iterator[None]:
        """Writes a loop that carries sums and addresses, and updates the given lists."""
        lists = totals, *pointers
        kinds = [self._kind] * len(totals) + ["ptr"] * sum(map(len, pointers))
        carried = list(zip(kinds, (each for names in lists for each in names), strict=True))

        def update(names: Sequence[str]) -> None:
            begin = 0
            for each in lists:
                each[:] = names[begin : begin + len(each)]
                begin += len(each)

        with self._code.loop(first, end, carried) as loop:
            update(loop.carried)
            yield
            loop.results = [each for names in lists for each in names]
        update(loop.results)

    def _add_part(
        self, totals: list[str], addresses: list[str], streams: list[str], steps: str, ahead: str
    ) -> None:
        """Adds the products of a part, which is one step if nothing is prefetched.

        Args:
            totals: the sums; gets the new ones.
            addresses: those of positions, which are advanced.
            streams: addresses of the weights, and of what is prefetched, which are advanced.
            steps: number of steps.
            ahead: size of what is prefetched.
        """
        if not self._form.prefetches:
            self._add_step(totals, addresses, streams)
            return
        code, lines = self._code, streams[1]
        prefetch_lines(code, lines, self._form.prefetches)
        weights = streams[:1]
        with self._counted("0", steps, totals, addresses, weights):
            self._add_step(totals, addresses, weights)
        streams[:] = *weights, address(code, lines, ahead)

    def _add_step(self, totals: list[str], addresses: list[str], streams: list[str]) -> None:
        """Adds the products of a word of every window; see `_add_part`."""
        code, form, register = self._code, self._form, self._register
        weights = streams[0]
        columns = [
            code.fresh(f"load {self._kind}, ptr {at}, align {register}")
            for at in (address(code, weights, str(first)) for first in range(0, self._step_bytes, register))
        ]
        places = (self._after(addresses[number], after) for number, after in self._places)
        totals[:] = add_words(code, form.scheme, totals, places, columns)
        addresses[:] = [address(code, each, str(form.scheme.word_bytes)) for each in addresses]
        streams[0] = address(code, weights, str(self._step_bytes))

    def _separate(self, pointer: str) -> str:
        """Keeps LLVM from computing an address from others, where instructions advance each."""
        return opaque(self._code, pointer) if self._form.neighbours == 1 else pointer

    def _after(self, pointer: str, count: int) -> str:
        """Returns the address of a position after another one."""
        if count == 2:
            # In a form that becomes a part of the instruction that loads.
            return self._code.fresh(f"getelementptr i16, ptr {pointer}, i64 {self._step}")
        return address(self._code, pointer, multiple(self._code, self._step, count))
