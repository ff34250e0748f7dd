"""Sums of products in register tiles: each term broadcasts an input for every place and multiplies it with vectors of weights.

A grain is a tile (or a row of tiles) of positions with a panel of channels. Where weights are few, each tile goes through all
of them while its inputs are in the nearest cache; where they are many, each panel goes through all positions while it is in
the second cache, and the panel to come is fetched meanwhile.

Taps of a window that are not on the image are left out: which ones these are is known for each place of a tile, because tiles
at the borders have instructions of their own. Only rows are found out at run time, where a tile lies in a single one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.graph import Value
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.dialect import from_stored, stored
from neurald.drivers.cpu.epilogue import epilogue
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.borders import taps_on_image, write_chosen
from neurald.drivers.cpu.kernels.counters import address, each_grain, multiple, total
from neurald.drivers.cpu.kernels.product import Product
from neurald.drivers.cpu.kernels.start import split_bias, starts
from neurald.drivers.cpu.kernels.tile import Tile, rows_of_tile
from neurald.drivers.cpu.kernels.window import Run, Segment, runs, segments
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector

#: Sums that a processor works on at once: an addition takes as long as so many can be begun in.
_SUMS_IN_FLIGHT = 8
#: Products in the body of a loop: enough for its own instructions not to matter; and terms, at most.
_PRODUCTS_IN_LOOP = 24
_MOST_UNROLLED = 4
#: A line of the caches.
_LINE_BYTES = 64
#: About how many products are written out in a kernel; beyond that loops are kept short.
_MOST_PRODUCTS = 3000


#: Makes the panel of a position along the product's parts that begins with a channel.
Make = Callable[[Sequence[str], str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How a tile reads weights.

    Attributes:
        pointer: the name of their memory.
        type: of their elements.
        set_bytes, panel_bytes, term_bytes: how far sets, panels and terms are apart.
        channel_bytes: what the number of a panel's first channel adds to its place; 0 where panels are packed.
        vectors: where the vectors of a term begin, in bytes.
        align: of each vector.
        are_many: whether a panel is to be used for all positions before the next one.
    """

    pointer: str
    type: Scalar
    set_bytes: int
    panel_bytes: int
    term_bytes: int
    channel_bytes: int
    vectors: tuple[int, ...]
    align: int
    are_many: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What tiles that share instructions have in common.

    Attributes:
        rows, columns: of positions.
        row_segments: taps; None where they are found out at run time, for a tile of a single row.
        column_segments: taps.
    """

    rows: int
    columns: int
    row_segments: tuple[Segment, ...] | None
    column_segments: tuple[Segment, ...]

    @property
    def places(self) -> int:
        """How many positions it has."""
        return self.rows * self.columns

    def members(self, rows: frozenset[int], columns: frozenset[int]) -> list[int]:
        """The numbers of the positions that are in some rows and columns."""
        return [row * self.columns + column for row in sorted(rows) for column in sorted(columns)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """What a grain works on.

    Attributes:
        source: a pointer to the image.
        weights: a pointer to the panel.
        position: the number of the image's first position in the output.
        channel: the first channel, in the output.
    """

    source: str
    weights: str
    position: str
    channel: str


class Tiles:
    """Writes a function that computes a product in tiles.

    Args:
        code: where instructions go.
        target: what they are for.
        kernel: what is computed, see `flattened`.
        product: its contraction.
        tile: how large tiles are.
        weights: how they are read.
        source: the name of the input's memory.
        pointers: the names of the memory of all values that the kernel's body reads, and of its output.
        make: makes a panel before it is used, if panels are not there.
    """

    def __init__(
        self,
        code: Instructions,
        target: Target,
        kernel: Kernel,
        product: Product,
        tile: Tile,
        weights: Weights,
        source: str,
        pointers: Mapping[Value, str],
        make: Make | None = None,
    ) -> None:
        self._make = make
        self._code, self._target, self._product = code, target, product
        self._kernel, self._bias = split_bias(kernel)
        self._tile, self._weights, self._source, self._pointers = tile, weights, source, pointers
        self._vector, self._single = Vector(code, target, tile.lanes), Vector(code, target, 1)
        rows = rows_of_tile(product, tile.places)
        self._row_runs = runs(product.rows, rows) if rows > 1 else ()
        self._column_runs = runs(product.columns, product.columns.places if rows > 1 else tile.places)
        self._is_one_row = product.rows.places == 1
        self._is_panel_major = weights.are_many or make is not None
        self._offsets = tile.offsets(product.channels)
        self._unrolled = max(1, min(_MOST_UNROLLED, _PRODUCTS_IN_LOOP // (tile.places * tile.vectors)))

    @property
    def extents(self) -> tuple[int, ...]:
        """The dimensions in which grains are counted."""
        parts = tuple(part.extent for part in self._product.parts)
        places = self._product.images, self._units
        panels = (self._tile.panels,)
        return (*parts, *panels, *places) if self._is_panel_major else (*parts, *places, *panels)

    @property
    def _units(self) -> int:
        """Into how many parts the positions of an image are divided."""
        if self._is_one_row:
            return sum(run.count for run in self._column_runs)
        return sum(run.count for run in self._row_runs) or self._product.rows.places

    def write(self) -> None:
        """The instructions for the range of grains."""
        code = self._code
        with each_grain(code, self.extents) as (position, is_first):
            *parts, first, second, third = position
            panel, image, unit = (first, second, third) if self._is_panel_major else (third, first, second)
            channel = multiple(code, panel, self._tile.width)
            if self._tile.panels > 1:
                last = str(self._product.channels - self._tile.width)
                channel = self._single.call("llvm.smin", "i64", channel, last)
            if self._make is not None:
                place = total(code, image, unit)
                is_new = code.value(f"icmp eq i64 {place}, 0")
                with code.when(code.value(f"or i1 {is_first}, {is_new}")):
                    self._make(parts, channel)
            self._write_unit(self._panel(parts, panel, channel, image), unit)

    def _panel(self, parts: Sequence[str], panel: str, channel: str, image: str) -> _Panel:
        code, product, weights = self._code, self._product, self._weights
        known = list(zip(parts, product.parts, strict=True))
        return _Panel(
            source=address(
                code,
                self._source,
                *(multiple(code, at, part.source_bytes) for at, part in known),
                multiple(code, image, product.image_bytes),
            ),
            weights=address(
                code,
                weights.pointer,
                *(multiple(code, at, part.weights * weights.set_bytes) for at, part in known),
                multiple(code, panel, weights.panel_bytes),
                multiple(code, channel, weights.channel_bytes),
            ),
            position=total(
                code,
                *(multiple(code, at, part.positions) for at, part in known),
                multiple(code, image, product.rows.places * product.columns.places),
            ),
            channel=total(code, *(multiple(code, at, part.channels) for at, part in known), channel),
        )

    def _write_unit(self, panel: _Panel, unit: str) -> None:
        if self._is_one_row:
            rows = segments((self._product.rows.taps_at(0),))
            write_chosen(
                self._code,
                self._column_runs,
                unit,
                lambda run, start: self._write_tile(self._shape(1, run, rows), panel, "0", start),
            )
        elif self._row_runs:
            (whole,) = self._column_runs
            write_chosen(
                self._code,
                self._row_runs,
                unit,
                lambda run, start: self._write_tile(
                    self._shape(run.length, whole, segments(run.taps)), panel, start, "0"
                ),
            )
        else:
            self._write_row(panel, unit)

    def _shape(self, rows: int, run: Run, row_segments: tuple[Segment, ...] | None) -> _Shape:
        return _Shape(
            rows=rows,
            columns=run.length,
            row_segments=row_segments,
            column_segments=segments(run.taps),
        )

    def _write_row(self, panel: _Panel, row: str) -> None:
        """The tiles of a row one after another."""
        side = self._product.rows
        taps = (Segment(taps=range(side.taps), members=frozenset((0,))),) if side.is_inside else None
        for run in self._column_runs:
            shape = self._shape(1, run, taps)
            if run.count == 1:
                self._write_tile(shape, panel, row, str(run.first))
                continue
            with self._code.loop("0", str(run.count)) as loop:
                column = total(self._code, multiple(self._code, loop.index, run.length), str(run.first))
                self._write_tile(shape, panel, row, column)

    def _write_tile(self, shape: _Shape, panel: _Panel, row: str, column: str) -> None:
        code, product, tile = self._code, self._product, self._tile
        start = address(
            code,
            panel.source,
            multiple(code, row, product.rows.stride * product.row_bytes),
            multiple(code, column, product.columns.stride * product.pixel_bytes),
            str(-product.rows.before * product.row_bytes - product.columns.before * product.pixel_bytes),
        )
        count = shape.places * tile.vectors
        sets = max(1, min(self._unrolled, _SUMS_IN_FLIGHT // count))
        sums = self._starts(panel) * shape.places
        sums += [self._vector.number("float", 0)] * (sets - 1) * count
        sums = self._add_rows(shape, sums, start, panel.weights, row)
        for other in range(1, sets):
            for each in range(count):
                sums[each] = self._vector.two("fadd", "float", sums[each], sums[other * count + each])
        first = total(code, panel.position, multiple(code, row, product.columns.places), column)
        for place in range(shape.places):
            offset = place // shape.columns * product.columns.places + place % shape.columns
            position = total(code, first, str(offset))
            for each, channel in enumerate(self._offsets):
                epilogue(
                    self._kernel,
                    self._target,
                    code,
                    sums[place * tile.vectors + each],
                    (position, total(code, panel.channel, str(channel))),
                    tile.lanes,
                    pointers=self._pointers,
                )

    def _starts(self, panel: _Panel) -> list[str]:
        """What the sums of a position begin with."""
        return [
            starts(
                self._code,
                self._target,
                self._kernel,
                self._bias,
                total(self._code, panel.channel, str(offset)),
                self._tile.lanes,
                self._pointers,
            )
            for offset in self._offsets
        ]

    def _carried(self, sums: Sequence[str]) -> list[tuple[str, str]]:
        return [(self._vector.type("float"), each) for each in sums]

    def _add_rows(self, shape: _Shape, sums: list[str], source: str, weights: str, row: str) -> list[str]:
        """All products of a tile added to the sums."""
        if shape.row_segments is None:
            first, last = taps_on_image(self._single, self._product.rows, row)
            alone = frozenset((0,))
            with self._code.loop(first, last, self._carried(sums), may_be_empty=True) as loop:
                loop.results = self._add_row(shape, alone, loop.carried, source, weights, loop.index)
            return loop.results
        for segment in shape.row_segments:
            taps = segment.taps
            if len(taps) == 1:
                sums = self._add_row(shape, segment.members, sums, source, weights, str(taps.start))
                continue
            with self._code.loop(str(taps.start), str(taps.stop), self._carried(sums)) as loop:
                loop.results = self._add_row(
                    shape, segment.members, loop.carried, source, weights, loop.index
                )
            sums = loop.results
        return sums

    def _add_row(
        self, shape: _Shape, rows: frozenset[int], sums: list[str], source: str, weights: str, tap: str
    ) -> list[str]:
        """The products of one row of the window."""
        code, product = self._code, self._product
        source = address(code, source, multiple(code, tap, product.rows.dilation * product.row_bytes))
        row_terms = product.columns.taps * product.depth
        weights = address(code, weights, multiple(code, tap, row_terms * self._weights.term_bytes))
        for segment in shape.column_segments:
            taps, members = segment.taps, shape.members(rows, segment.members)
            if product.is_contiguous:
                at = self._at_tap(source, weights, str(taps.start))
                sums = self._add_terms(shape, members, sums, *at, len(taps) * product.depth)
            elif len(taps) == 1:
                at = self._at_tap(source, weights, str(taps.start))
                sums = self._add_terms(shape, members, sums, *at, product.depth)
            else:
                with code.loop(str(taps.start), str(taps.stop), self._carried(sums)) as loop:
                    at = self._at_tap(source, weights, loop.index)
                    loop.results = self._add_terms(shape, members, loop.carried, *at, product.depth)
                sums = loop.results
        return sums

    def _at_tap(self, source: str, weights: str, tap: str) -> tuple[str, str]:
        code, product = self._code, self._product
        return (
            address(code, source, multiple(code, tap, product.columns.dilation * product.pixel_bytes)),
            address(code, weights, multiple(code, tap, product.depth * self._weights.term_bytes)),
        )

    def _add_terms(
        self, shape: _Shape, members: list[int], sums: list[str], source: str, weights: str, count: int
    ) -> list[str]:
        """The products of terms that follow one another."""
        code, unrolled = self._code, self._unrolled
        whole = count - count % unrolled
        done = 0
        if whole > unrolled:
            with code.loop("0", str(whole), self._carried(sums), step=unrolled) as loop:
                inner = address(code, source, multiple(code, loop.index, self._product.element_bytes))
                panel = address(code, weights, multiple(code, loop.index, self._weights.term_bytes))
                results = list(loop.carried)
                for term in range(unrolled):
                    self._add_term(shape, members, results, inner, panel, term, loop.index)
                loop.results = results
            sums, done = loop.results, whole
        sums = list(sums)
        for term in range(done, count):
            self._add_term(shape, members, sums, source, weights, term, "0")
        return sums

    def _add_term(
        self,
        shape: _Shape,
        members: list[int],
        sums: list[str],
        source: str,
        weights: str,
        term: int,
        counter: str,
    ) -> None:
        code, v, tile, product = self._code, self._vector, self._tile, self._product
        columns = []
        for place in self._weights.vectors:
            at = address(code, weights, str(term * self._weights.term_bytes + place))
            kind = v.type(stored(self._weights.type))
            loaded = code.fresh(f"load {kind}, ptr {at}, align {self._weights.align}")
            columns.append(from_stored(v, self._weights.type, loaded))
        has_more = self._units * product.images > 1
        if has_more and self._weights.are_many and self._weights.panel_bytes:
            for place in range(0, self._weights.term_bytes, _LINE_BYTES):
                offset = term * self._weights.term_bytes + place + self._weights.panel_bytes
                self._prefetch(address(code, weights, str(offset)))
        elif has_more and self._is_one_row:
            # The inputs of the next tile, which follow, by turns: as many as this term reads.
            step = shape.places * product.columns.stride * product.pixel_bytes
            number = multiple(code, counter, (shape.places - 1) * product.element_bytes)
            offset = step + term * shape.places * product.element_bytes
            self._prefetch(address(code, source, number, str(offset)))
        base = (term % (len(sums) // (shape.places * tile.vectors))) * shape.places * tile.vectors
        kind = stored(product.type)
        for member in members:
            row, column = divmod(member, shape.columns)
            offset = (
                row * product.rows.stride * product.row_bytes
                + column * product.columns.stride * product.pixel_bytes
                + term * product.element_bytes
            )
            at = address(code, source, str(offset))
            loaded = code.fresh(f"load {kind}, ptr {at}, align {product.type.size_bytes}")
            factor = v.splat("float", from_stored(self._single, product.type, loaded))
            for each, column_weights in enumerate(columns):
                at_sum = base + member * tile.vectors + each
                sums[at_sum] = v.fma("float", factor, column_weights, sums[at_sum])

    def _prefetch(self, pointer: str) -> None:
        """Asks for memory that need not be there to be brought to the second cache."""
        self._code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self._code.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 2, i32 1)")
