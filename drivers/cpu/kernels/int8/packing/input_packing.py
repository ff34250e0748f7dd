"""Packs the inputs of a block of output rows into scratch memory, with padding around the image."""

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, may_change
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.layout import BlockLayout
from neurald.drivers.cpu.kernels.int8.packing.element_packing import UNROLLED, ElementPacking


class InputPacker:
    """Writes the packing of inputs.

    Args:
        code: receives the instructions.
        layout: the layout of packed inputs.
        source: name of the input's memory.
        zero: the input's zero point.
        padding: address of a vector of padding elements.
    """

    def __init__(
        self, code: Instructions, layout: BlockLayout, *, source: str, zero: int, padding: str
    ) -> None:
        self._code, self._layout, self._source = code, layout, source
        self._padding, self._scheme = padding, layout.scheme
        self._packing = ElementPacking(
            scheme=layout.scheme, type=layout.type, zero=zero, repeat=layout.repeat
        )
        self._single = Vector(code, layout.scheme.target, 1)

    def write(self, image: str, begin: str, end: str) -> str:
        """Packs the inputs for an image's output rows from `begin` to before `end`.

        Returns:
            The address of the window of the first position.
        """
        layout, code = self._layout, self._code
        if layout.is_direct:
            image_bytes = layout.row_bytes * layout.rows.length
            row = multiple(code, begin, layout.rows.stride * layout.row_bytes)
            return address(code, self._source, multiple(code, image, image_bytes), row)
        if layout.gathered is not None:
            self._pack_gathered(layout.gathered, begin, end)
        elif layout.is_dense and layout.rows.stride == layout.rows.taps == 1:
            self._pack_dense(image, begin, end)
        else:
            self._pack_rows(image, begin, end)
        return "%scratch"

    def _pack_dense(self, image: str, begin: str, end: str) -> None:
        """Packs contiguous rows as one row, or one unit at a time if rows are short."""
        layout, code, v = self._layout, self._code, self._single
        row, unit = layout.row_elements, layout.unit
        first = v.binary("add", "i64", multiple(code, image, layout.rows.length), begin)
        count = v.binary("sub", "i64", end, begin)
        source = multiple(code, first, row)
        is_short = self._may_be_short(row)
        if is_short or row >= self._packing.lanes:
            begin = address(code, self._source, multiple(code, source, layout.type.size_bytes))
            elements = multiple(code, count, row)
            self._packing.copy_all(code, begin, "%scratch", elements, may_be_short=is_short)
            return
        rest = v.binary("urem", "i64", count, str(unit)) if unit > 1 else "0"
        whole = v.binary("sub", "i64", count, rest)
        with code.loop("0", whole, step=unit, may_be_empty=True) as loop:
            offset = multiple(code, loop.index, row)
            self._copy(v.binary("add", "i64", source, offset), offset, unit * row)
        if unit > 1:
            with code.loop(whole, count, may_be_empty=True) as loop:
                offset = multiple(code, loop.index, row)
                self._copy(v.binary("add", "i64", source, offset), offset, row)

    def _pack_gathered(self, sides: tuple[WindowDimension, WindowDimension], begin: str, end: str) -> None:
        """Packs the pixels of single-pixel windows, which are not adjacent."""
        layout, code, v = self._layout, self._code, self._single
        rows, columns = sides
        with code.loop(begin, end, may_be_empty=True) as loop:
            line, column = (
                v.binary(each, "i64", loop.index, str(columns.positions)) for each in ("udiv", "urem")
            )
            image, row = (v.binary(each, "i64", line, str(rows.positions)) for each in ("udiv", "urem"))
            line = v.binary(
                "add", "i64", multiple(code, image, rows.length), multiple(code, row, rows.stride)
            )
            pixel = v.binary(
                "add", "i64", multiple(code, line, columns.length), multiple(code, column, columns.stride)
            )
            offset = multiple(code, v.binary("sub", "i64", loop.index, begin), layout.row_elements)
            self._copy(multiple(code, pixel, layout.channels), offset, layout.channels)

    def _pack_rows(self, image: str, begin: str, end: str) -> None:
        """Packs rows of pixels with padding beside, above and below the image."""
        layout, code, v = self._layout, self._code, self._single
        side, columns = layout.rows, layout.columns
        start = v.binary("sub", "i64", multiple(code, begin, side.stride), str(side.padding_before))
        last = multiple(code, v.binary("sub", "i64", end, "1"), side.stride)
        stop = v.binary("add", "i64", last, str(layout.taps - side.padding_before))
        left = columns.padding_before * layout.pixel_elements
        right = left + columns.length * layout.pixel_elements
        count = columns.length * layout.channels
        is_short = self._may_be_short(count)
        is_whole = layout.pixel_elements == layout.channels * layout.repeat
        if is_whole and (is_short or count >= self._packing.lanes):
            row = count * layout.type.size_bytes
            source = address(code, self._source, multiple(code, image, side.length * row))
            vectors = (
                self._vectors(each) for each in (left, layout.row_elements - right, layout.row_elements)
            )
            before = left * self._scheme.element_bytes
            self._packing.pack_rows(
                code,
                (source, "%scratch", self._padding),
                (start, stop),
                (side.length, row, layout.row_bytes, before, count, *vectors),
                may_be_short=is_short,
            )
            return
        with code.loop(start, stop, may_be_empty=True) as loop:
            offset = multiple(code, v.binary("sub", "i64", loop.index, start), layout.row_elements)
            is_inside = v.compare("ult", "i64", loop.index, str(side.length))
            if not side.is_inside:
                with code.when(v.binary("xor", "i1", is_inside, "true")):
                    self._fill(offset, layout.row_elements)
            with code.when(is_inside):
                line = v.binary("add", "i64", multiple(code, image, side.length), loop.index)
                source = multiple(code, line, columns.length * layout.channels)
                self._fill(offset, left)
                self._copy_row(source, v.binary("add", "i64", offset, str(left)))
                self._fill(v.binary("add", "i64", offset, str(right)), layout.row_elements - right)

    def _copy_row(self, source: str, offset: str) -> None:
        code, v, layout = self._code, self._single, self._layout
        count, length = layout.channels, layout.columns.length
        if layout.pixel_elements == count * layout.repeat:
            self._copy(source, offset, length * count)
            return
        with code.loop("0", str(length)) as loop:
            at = v.binary("add", "i64", source, multiple(code, loop.index, count))
            to = v.binary("add", "i64", offset, multiple(code, loop.index, layout.pixel_elements))
            self._copy(at, to, count)

    def _fill(self, offset: str, count: int) -> None:
        """Fills elements with padding; a few more may be written."""
        code, scheme = self._code, self._scheme
        if not isinstance(count, Extent) and count <= 0:
            return
        size = scheme.target.vector_bytes
        target = address(code, "%scratch", multiple(code, offset, scheme.element_bytes))
        vectors = self._vectors(count)
        if isinstance(vectors, Extent) or vectors > UNROLLED:
            self._packing.fill_all(code, target, self._padding, vectors)
            return
        kind = f"<{size} x i8>"
        value = code.load(f"load {kind}, ptr {self._padding}, align {size}")
        for each in range(vectors):
            code.effect(f"store {kind} {value}, ptr {address(code, target, str(each * size))}, align 1")

    def _vectors(self, count: int) -> int:
        """Returns the number of vectors for this many elements."""
        return -(-count * self._scheme.element_bytes // self._scheme.target.vector_bytes)

    def _may_be_short(self, count: int) -> bool:
        """Returns True if code must also be right for fewer elements than a vector has.

        Open lengths of which the example is so short share their code, whatever they are.
        """
        return may_change(count) or (isinstance(count, Extent) and estimate(count) < self._packing.lanes)

    def _copy(self, source: str, offset: str, count: int) -> None:
        """Copies elements in the scheme's form, without reading or writing beyond them."""
        code, packing, lanes = self._code, self._packing, self._packing.lanes
        begin = address(code, self._source, multiple(code, source, packing.type.size_bytes))
        target = address(code, "%scratch", multiple(code, offset, self._scheme.element_bytes))
        is_short = self._may_be_short(count)
        # A loop is valid for other lengths, too.
        most = lanes - 1 if isinstance(count, Extent) else lanes * UNROLLED
        if is_short or count > most:
            packing.copy_all(code, begin, target, str(count), may_be_short=is_short)
            return
        done = 0
        while done < count:
            while done + lanes > count:
                lanes //= 2
            packing.copy(code, begin, target, done, lanes)
            done += lanes
