"""Micro-kernel of FLOAT32 products: the loops that compute a register tile.

For each term, the input of every position is broadcast and multiplied by vectors of weights. Where
at most half of the last vector's channels are not in the vector before it, only that half is
multiplied (see `Tile.halves_last`), since some processors need two cycles for a whole vector.

Window taps outside the image are skipped. For columns they are known for each position of a tile,
because border tiles have their own instructions. Rows are only checked at run time if a tile lies
in a single row.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import from_stored, stored
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import (
    LINE_BYTES,
    address,
    multiple,
    opaque,
    prefetch,
    prefetch_lines,
    total,
)
from neurald.drivers.cpu.kernels.common.borders import taps_on_image
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import MAX_HALF_TERMS, Tile
from neurald.drivers.cpu.kernels.common.window import TapSegment
from neurald.drivers.cpu.target.target import Target

#: Number of accumulators in flight, which hides the latency of additions.
_ACCUMULATORS_IN_FLIGHT = 8
#: Products per loop body, enough to hide the loop overhead, and the maximum number of unrolled
#: terms.
_PRODUCTS_IN_LOOP = 24
_MAX_UNROLLED = 4
#: Positions at a distance that is only known at run time which are addressed from one register.
_NEIGHBOURS = 4
#: Weights above this size are not in the second-level cache when a thread begins with its panels.
#: Long tiles with this many products per term have time to prefetch them at this distance.
_MIN_AHEAD_WEIGHTS, _MIN_AHEAD_TERMS, _MIN_AHEAD_PRODUCTS, _AHEAD_BYTES = 1 << 20, 2048, 24, 4096


class WeightLayout(Struct, frozen=True, kw_only=True):
    """Memory layout of the weights that a tile reads.

    Attributes:
        pointer: name of their memory.
        type: the type of their elements.
        set_bytes, panel_bytes, term_bytes: strides of sets, panels and terms.
        channel_bytes: stride of a panel's first channel; 0 if panels are packed.
        vectors: offsets of the vectors of a term, in bytes.
        align: alignment of each vector.
        is_panel_major: True if a panel should be used for all positions before the next one.
        shares_positions: True if threads should have positions of their own, each with all panels,
            rather than panels of their own.
        blocks: number of blocks of positions that go through all panels one after another.
        scale_bytes: size of the FLOAT32 scales of a panel's lanes, which precede its INT8 weights;
            0 if there are none. Sums are multiplied by them.
    """

    pointer: str
    type: Scalar
    set_bytes: int
    panel_bytes: int
    term_bytes: int
    channel_bytes: int
    vectors: tuple[int, ...]
    align: int
    is_panel_major: bool
    shares_positions: bool = False
    blocks: int = 1
    scale_bytes: int = 0


class TileShape(Struct, frozen=True, kw_only=True):
    """Geometry shared by tiles with the same instructions.

    Attributes:
        rows, columns: numbers of positions.
        row_segments: taps; None if computed at run time, for a tile of a single row.
        column_segments: taps.
    """

    rows: int
    columns: int
    row_segments: tuple[TapSegment, ...] | None
    column_segments: tuple[TapSegment, ...]

    @property
    def positions(self) -> int:
        """Number of positions."""
        return self.rows * self.columns

    def members(self, rows: frozenset[int], columns: frozenset[int]) -> list[int]:
        """Returns the numbers of the positions in these rows and columns."""
        return [row * self.columns + column for row in sorted(rows) for column in sorted(columns)]


class _Level(Enum):
    """Products that are added up in float16, before their sum is added to those of float32."""

    WINDOW = auto()
    ROW = auto()
    #: Consecutive terms, at most `MAX_HALF_TERMS`.
    TERMS = auto()


def _half_level(product: WindowedProduct) -> _Level:
    """Returns the most products of which there are at most `MAX_HALF_TERMS`."""
    if product.terms <= MAX_HALF_TERMS:
        return _Level.WINDOW
    return _Level.ROW if product.columns.taps * product.depth <= MAX_HALF_TERMS else _Level.TERMS


class FloatMicroKernel:
    """Writes the products of tiles.

    Args:
        code: receives the instructions.
        target: the target of the code.
        product: the product to compute.
        tile: size of tiles.
        weights: how they are read.
        tiles: number of consecutive tiles with the same panel, each of which prefetches a part of
            the next one; 0 disables this.
        prefetches_inputs: True if the next tile follows in memory, so that its inputs can be
            prefetched.
    """

    def __init__(
        self,
        code: Instructions,
        target: Target,
        product: WindowedProduct,
        tile: Tile,
        weights: WeightLayout,
        *,
        tiles: int,
        prefetches_inputs: bool,
    ) -> None:
        self._code, self._product, self._tile, self._weights = code, product, tile, weights
        self._prefetches_inputs = prefetches_inputs
        self._vector, self._single = Vector(code, target, tile.lanes), Vector(code, target, 1)
        #: Type of the sums that are being added up, and the products that are added up as float16.
        self._element = "float"
        self._half_level = _half_level(product) if tile.is_half else None
        #: The vectors of a position.
        self._vectors = [self._vector] * tile.vectors
        if tile.halves_last:
            self._vectors[-1] = Vector(code, target, tile.lanes // 2)
        self._unrolled = max(1, min(_MAX_UNROLLED, _PRODUCTS_IN_LOOP // (tile.positions * tile.vectors)))
        # Prefetch size for every `_period` terms: one line, unless the panel needs more.
        most = max(self._unrolled, tiles * LINE_BYTES // weights.term_bytes)
        if tile.is_half:
            most = min(most, MAX_HALF_TERMS)
        self._period = next(each for each in range(most, 0, -1) if estimate(product.depth) % each == 0)
        if isinstance(product.depth, Extent):
            self._period = 1
        self._prefetched_bytes = -(-weights.term_bytes * self._period // tiles) if tiles else 0
        size = estimate(product.channels * product.terms) * weights.term_bytes // tile.width
        self._reads_ahead = (
            weights.panel_bytes > 0
            and weights.blocks == 1
            and size > _MIN_AHEAD_WEIGHTS
            and estimate(product.terms) >= _MIN_AHEAD_TERMS
            and tile.positions * tile.vectors >= _MIN_AHEAD_PRODUCTS
        )

    def prefetch_address(self, weights: str, tile: str) -> str:
        """Returns the address of the next panel's part that a tile prefetches.

        Args:
            weights: address of the panel.
            tile: number of the tile among those with the panel.
        """
        part = self._product.terms // self._period * self._prefetched_bytes
        return address(self._code, weights, str(self._weights.panel_bytes), multiple(self._code, tile, part))

    def accumulate(
        self, shape: TileShape, starts: Sequence[str], source: str, weights: tuple[str, str], row: str
    ) -> list[str]:
        """Computes the sums of a tile, one for each position and vector.

        Args:
            shape: the shape of the tile.
            starts: initial sums, one per vector.
            source: address of the first tap of the first position, which may be outside the image.
            weights: addresses of the panel and of the prefetched part, see `prefetch_address`.
            row: the first row of the output.
        """
        count = shape.positions * self._tile.vectors
        # If there are few sums, each is split over several accumulators.
        copies = max(1, min(self._unrolled, _ACCUMULATORS_IN_FLIGHT // count))
        panel, ahead = weights
        weights = address(self._code, panel, str(self._weights.scale_bytes)), ahead
        zeros = self._zeros
        first = zeros if self._weights.scale_bytes else self._first_sums(starts)
        sums = first * shape.positions + zeros * shape.positions * (copies - 1)
        sums = self._widened(
            _Level.WINDOW, sums, lambda some: self._add_rows(shape, some, source, weights, row)
        )
        for copy in range(1, copies):
            for each in range(count):
                v = self._vectors[each % self._tile.vectors]
                sums[each] = v.binary("fadd", "float", sums[each], sums[copy * count + each])
        if self._tile.halves_last:
            return self._whole_sums(sums[:count])
        if not self._weights.scale_bytes:
            return sums[:count]
        scales = self._loaded_scales(panel)
        vectors = len(starts)
        return [
            self._vector.fma("float", sums[each], scales[each % vectors], starts[each % vectors])
            for each in range(count)
        ]

    @property
    def _zeros(self) -> list[str]:
        """Sums of a position without products."""
        return [v.number(self._element, 0) for v in self._vectors]

    def _widened(
        self, level: "_Level", sums: Sequence[str], add: Callable[[list[str]], list[str]]
    ) -> list[str]:
        """Returns the sums after some products, which may be added up in float16 before.

        Args:
            level: which products these are.
            sums: the sums before.
            add: adds the products to sums, which are float16 at the level of the product.
        """
        if self._half_level is not level:
            return add(list(sums))
        self._element = "half"
        halves = add(self._zeros * (len(sums) // len(self._vectors)))
        self._element = "float"
        found = []
        for number, (each, half) in enumerate(zip(sums, halves, strict=True)):
            v = self._vectors[number % len(self._vectors)]
            found.append(v.binary("fadd", "float", each, v.cast("fpext", "half", half, "float")))
        return found

    def _loaded_scales(self, panel: str) -> list[str]:
        """Returns the scales of a panel's vectors."""
        v, lanes = self._vector, self._tile.lanes
        size = lanes * Scalar.FLOAT32.size_bytes
        places = [address(self._code, panel, str(each * size)) for each in range(self._tile.vectors)]
        return [
            self._code.fresh(f"load {v.type('float')}, ptr {at}, align {self._weights.align}")
            for at in places
        ]

    def _first_sums(self, starts: Sequence[str]) -> list[str]:
        """Returns the initial sums of a position."""
        if not self._tile.halves_last:
            return list(starts)
        half = self._tile.lanes // 2
        return [*starts[:-1], self._chosen(starts[-1], starts[-1], range(half, 2 * half))]

    def _whole_sums(self, sums: Sequence[str]) -> list[str]:
        """Returns sums with whole last vectors, whose other half is in the vector before."""
        vectors, lanes = self._tile.vectors, self._tile.lanes
        first = int(self._product.channels) - (vectors - 1) * lanes
        order = [*range(first, first + lanes // 2), *range(lanes, lanes + lanes // 2)]
        found: list[str] = []
        for start in range(0, len(sums), vectors):
            found.extend(sums[start : start + vectors - 1])
            half = sums[start + vectors - 1]
            found.append(self._chosen(found[-1], self._vector.joined("float", [half, half]), order))
        return found

    def _chosen(self, first: str, second: str, lanes: Sequence[int]) -> str:
        """Returns lanes of two vectors, numbered as one vector after the other."""
        kind = self._vector.type("float")
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return self._code.value(
            f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{order}>"
        )

    def _carried(self, sums: Sequence[str]) -> list[tuple[str, str]]:
        types = [v.type(self._element) for v in self._vectors]
        return [(types[number % len(types)], each) for number, each in enumerate(sums)]

    def _add_rows(
        self, shape: TileShape, sums: list[str], source: str, weights: tuple[str, str], row: str
    ) -> list[str]:
        """Adds all products of a tile."""
        if shape.row_segments is None:
            first, last = taps_on_image(self._single, self._product.rows, row)
            alone = frozenset((0,))
            with self._code.loop(first, last, self._carried(sums), may_be_empty=True) as loop:
                loop.results = self._add_row(shape, alone, list(loop.carried), source, weights, loop.index)
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
        self,
        shape: TileShape,
        rows: frozenset[int],
        sums: list[str],
        source: str,
        weights: tuple[str, str],
        tap: str,
    ) -> list[str]:
        """Adds the products of one window row."""
        code, product = self._code, self._product
        source = address(code, source, multiple(code, tap, product.rows.dilation * product.row_bytes))
        weights = self._advance(weights, tap, product.columns.taps * product.depth)
        return self._widened(
            _Level.ROW, sums, lambda some: self._add_columns(shape, rows, some, source, weights)
        )

    def _add_columns(
        self,
        shape: TileShape,
        rows: frozenset[int],
        sums: list[str],
        source: str,
        weights: tuple[str, str],
    ) -> list[str]:
        """Adds the products of all taps of a window row."""
        code, product = self._code, self._product
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

    def _at_tap(self, source: str, weights: tuple[str, str], tap: str) -> tuple[str, tuple[str, str]]:
        code, product = self._code, self._product
        return (
            address(code, source, multiple(code, tap, product.columns.dilation * product.pixel_bytes)),
            self._advance(weights, tap, product.depth),
        )

    def _advance(self, weights: tuple[str, str], number: str, terms: int) -> tuple[str, str]:
        """Advances the weights and the prefetch address by `number` × `terms` terms."""
        code, (panel, prefetched_at) = self._code, weights
        prefetched = terms // self._period * self._prefetched_bytes
        return (
            address(code, panel, multiple(code, number, terms * self._weights.term_bytes)),
            address(code, prefetched_at, multiple(code, number, prefetched)),
        )

    def _add_terms(
        self,
        shape: TileShape,
        members: list[int],
        sums: list[str],
        source: str,
        weights: tuple[str, str],
        count: int,
    ) -> list[str]:
        """Adds the products of consecutive terms."""

        def add(before: Sequence[str], at: str, own: tuple[str, str], terms: int) -> list[str]:
            return self._widened(
                _Level.TERMS, before, lambda some: self._add_parts(shape, members, some, at, own, terms)
            )

        most = MAX_HALF_TERMS // self._period * self._period
        if self._half_level is not _Level.TERMS or count <= most:
            return add(sums, source, weights, count)
        code, blocks = self._code, count // most
        with code.loop("0", str(blocks), self._carried(sums)) as loop:
            first = multiple(code, loop.index, most)
            inner = address(code, source, multiple(code, first, self._product.element_bytes))
            loop.results = add(loop.carried, inner, self._advance(weights, loop.index, most), most)
        sums, done = loop.results, blocks * most
        if done == count:
            return sums
        last = address(code, source, str(done * self._product.element_bytes))
        return add(sums, last, self._advance(weights, str(blocks), most), count - done)

    def _add_parts(
        self,
        shape: TileShape,
        members: list[int],
        sums: list[str],
        source: str,
        weights: tuple[str, str],
        count: int,
    ) -> list[str]:
        """Adds the products of consecutive terms, and prefetches a part of the next panel."""
        code, period = self._code, self._period
        if not self._prefetched_bytes:
            return self._add_all(shape, members, sums, (source, weights[0], "0"), count)
        with code.loop("0", str(count // period), self._carried(sums)) as loop:
            first = multiple(code, loop.index, period)
            inner = address(code, source, multiple(code, first, self._product.element_bytes))
            panel, prefetched_at = self._advance(weights, loop.index, period)
            prefetch_lines(code, prefetched_at, -(-self._prefetched_bytes // LINE_BYTES))
            loop.results = self._add_all(shape, members, list(loop.carried), (inner, panel, first), period)
        return loop.results

    def _add_all(
        self, shape: TileShape, members: list[int], sums: list[str], first: tuple[str, str, str], count: int
    ) -> list[str]:
        """Adds the products of `count` terms.

        `first` holds the addresses of the first term's input and weights, and its number.
        """
        source, weights, before = first
        sources = self._sources(source)
        code, unrolled = self._code, self._unrolled
        whole, is_open = count - count % unrolled, isinstance(count, Extent)
        done = 0
        if is_open or whole > unrolled:
            with code.loop("0", str(whole), self._carried(sums), step=unrolled, may_be_empty=is_open) as loop:
                inner = self._sources_at(sources, loop.index)
                panel = address(code, weights, multiple(code, loop.index, self._weights.term_bytes))
                results = list(loop.carried)
                for term in range(unrolled):
                    self._add_term(
                        shape, members, results, inner, panel, term, total(code, before, loop.index)
                    )
                loop.results = results
            sums, done = loop.results, whole
        sums = list(sums)
        if is_open:
            with code.loop(str(whole), str(count), self._carried(sums), may_be_empty=True) as loop:
                inner = self._sources_at(sources, loop.index)
                panel = address(code, weights, multiple(code, loop.index, self._weights.term_bytes))
                loop.results = list(loop.carried)
                self._add_term(shape, members, loop.results, inner, panel, 0, total(code, before, loop.index))
            return loop.results
        for term in range(done, count):
            self._add_term(shape, members, sums, sources, weights, term, before)
        return sums

    def _sources(self, source: str) -> tuple[str, ...]:
        """Returns the address of the first input for vectors of each length.

        To LLVM they differ, so that each of both products has a load of its own, which is a part of
        its instruction. This is done for every other position: processors that multiply half a
        vector in half the time reach their peak with it, and no processor is limited by loads.
        """
        return (source, opaque(self._code, source)) if self._tile.halves_last else (source,)

    def _sources_at(self, sources: tuple[str, ...], term: str) -> tuple[str, ...]:
        """Returns the addresses of a term's first input, given those of the first term."""
        offset = multiple(self._code, term, self._product.element_bytes)
        return tuple(address(self._code, each, offset) for each in sources)

    def _add_term(
        self,
        shape: TileShape,
        members: list[int],
        sums: list[str],
        sources: tuple[str, ...],
        weights: str,
        term: int,
        counter: str,
    ) -> None:
        code, tile, product, source = self._code, self._tile, self._product, sources[0]
        columns = []
        for v, start in zip(self._vectors, self._weights.vectors, strict=True):
            # Half a vector is the second one.
            skipped = (tile.lanes - v.lanes) * self._weights.type.size_bytes
            at = address(code, weights, str(term * self._weights.term_bytes + start + skipped))
            kind = v.type(stored(self._weights.type))
            align = self._weights.align * v.lanes // tile.lanes
            loaded = code.fresh(f"load {kind}, ptr {at}, align {max(1, align)}")
            if self._weights.scale_bytes:
                whole = v.cast("sext", "i8", loaded, "i32")
                loaded = v.cast("sitofp", "i32", whole, "float")
            columns.append(self._factor(v, self._weights.type, loaded))
        if self._reads_ahead:
            first = term * self._weights.term_bytes + _AHEAD_BYTES
            for line in range(0, self._weights.term_bytes, LINE_BYTES):
                prefetch(code, address(code, weights, str(first + line)))
        if self._prefetches_inputs:
            # Spread over as many terms as this tile has.
            step = shape.positions * product.columns.stride * product.pixel_bytes
            number = multiple(code, counter, (shape.positions - 1) * product.element_bytes)
            offset = step + term * shape.positions * product.element_bytes
            prefetch(code, address(code, source, number, str(offset)))
        far = self._far_positions(source, shape.columns)
        base = (term % (len(sums) // (shape.positions * tile.vectors))) * shape.positions * tile.vectors
        for member in members:
            row, column = divmod(member, shape.columns)
            offset = row * product.rows.stride * product.row_bytes + term * product.element_bytes
            if far:
                places = [address(code, far[column], str(offset))]
            else:
                step = product.columns.stride * product.pixel_bytes
                some = sources if member % 2 else sources[:1]
                places = [address(code, each, str(offset + column * step)) for each in some]
            inputs = [self._loaded_input(at) for at in places]
            for each, column_weights in enumerate(columns):
                v = self._vectors[each]
                factor = v.splat(self._element, inputs[0 if v is self._vector else -1])
                at_sum = base + member * tile.vectors + each
                sums[at_sum] = v.fma(self._element, factor, column_weights, sums[at_sum])

    def _loaded_input(self, at: str) -> str:
        kind, size = stored(self._product.type), self._product.type.size_bytes
        loaded = self._code.fresh(f"load {kind}, ptr {at}, align {size}")
        return self._factor(self._single, self._product.type, loaded)

    def _factor(self, v: Vector, kind: Scalar, loaded: str) -> str:
        """Returns loaded elements as they are multiplied."""
        if self._element == "half":
            return v.bitcast("i16", loaded, "half")
        return from_stored(v, kind, loaded)

    def _far_positions(self, source: str, count: int) -> list[str]:
        """Returns the addresses of a tile's columns, if their distance is known at run time only.

        Four of them share a register, since instructions add multiples of another one to it.
        """
        code, product = self._code, self._product
        if not isinstance(product.pixel_bytes, Extent):
            return []
        step = str(product.columns.stride * product.pixel_bytes)
        found: list[str] = []
        for column in range(count):
            if column % _NEIGHBOURS == 0:
                found.append(opaque(code, address(code, source, multiple(code, step, column))))
                continue
            near = found[column - column % _NEIGHBOURS]
            found.append(address(code, near, multiple(code, step, column % _NEIGHBOURS)))
        return found
