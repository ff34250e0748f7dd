"""Inputs packed block by block: elements as a scheme multiplies them, with what surrounds the image, in scratch memory."""

from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, multiple, opaque
from neurald.drivers.cpu.kernels.int8.layout import Layout
from neurald.drivers.cpu.kernels.window import Side
from neurald.drivers.cpu.vector import Vector

#: Vectors that a loop copies at a time.
_UNROLLED = 4


class Blocks:
    """Writes the packing of inputs.

    Args:
        code: where instructions go.
        layout: of packed inputs.
        source: the name of the input's memory.
        zero: the input's zero point.
        outside: the name of a vector's memory that stands for elements outside of the image.
    """

    def __init__(self, code: Instructions, layout: Layout, *, source: str, zero: int, outside: str) -> None:
        self._code, self._layout, self._source = code, layout, source
        self._zero, self._outside = zero, outside
        self._scheme = layout.scheme
        self._single = Vector(code, layout.scheme.target, 1)
        self._register = layout.scheme.target.vector_bytes

    def write(self, image: str, begin: str, end: str) -> str:
        """Packs the inputs of the rows of the output from `begin` to before `end` of an image.

        Returns:
            A pointer to the window of the first position.
        """
        layout, code = self._layout, self._code
        if layout.is_direct:
            image_bytes = layout.row_bytes * layout.rows.length
            row = multiple(code, begin, layout.rows.stride * layout.row_bytes)
            return address(code, self._source, multiple(code, image, image_bytes), row)
        if layout.picked is not None:
            self._pack_picked(layout.picked, begin, end)
        elif layout.is_dense and layout.rows.stride == layout.rows.taps == 1:
            self._pack_dense(image, begin, end)
        else:
            self._pack_rows(image, begin, end)
        return "%scratch"

    def _pack_dense(self, image: str, begin: str, end: str) -> None:
        """Rows that follow one another: as one, or a unit at a time where rows are short."""
        layout, code, v = self._layout, self._code, self._single
        row, unit = layout.row_elements, layout.unit
        first = v.two("add", "i64", multiple(code, image, layout.rows.length), begin)
        count = v.two("sub", "i64", end, begin)
        source = multiple(code, first, row)
        if row >= self._lanes:
            self._copy_run(source, multiple(code, count, row))
            return
        rest = v.two("urem", "i64", count, str(unit)) if unit > 1 else "0"
        whole = v.two("sub", "i64", count, rest)
        with code.loop("0", whole, step=unit, may_be_empty=True) as loop:
            place = multiple(code, loop.index, row)
            self._copy(v.two("add", "i64", source, place), place, unit * row)
        if unit > 1:
            with code.loop(whole, count, may_be_empty=True) as loop:
                place = multiple(code, loop.index, row)
                self._copy(v.two("add", "i64", source, place), place, row)

    def _pack_picked(self, sides: tuple[Side, Side], begin: str, end: str) -> None:
        """Pixels some way apart."""
        layout, code, v = self._layout, self._code, self._single
        rows, columns = sides
        with code.loop(begin, end, may_be_empty=True) as loop:
            line, column = (v.two(each, "i64", loop.index, str(columns.places)) for each in ("udiv", "urem"))
            image, row = (v.two(each, "i64", line, str(rows.places)) for each in ("udiv", "urem"))
            line = v.two("add", "i64", multiple(code, image, rows.length), multiple(code, row, rows.stride))
            pixel = v.two(
                "add", "i64", multiple(code, line, columns.length), multiple(code, column, columns.stride)
            )
            place = multiple(code, v.two("sub", "i64", loop.index, begin), layout.row_elements)
            self._copy(multiple(code, pixel, layout.channels), place, layout.channels)

    def _pack_rows(self, image: str, begin: str, end: str) -> None:
        """Rows of pixels with what is beside, above and below the image."""
        layout, code, v = self._layout, self._code, self._single
        side, columns = layout.rows, layout.columns
        start = v.two("sub", "i64", multiple(code, begin, side.stride), str(side.before))
        last = multiple(code, v.two("sub", "i64", end, "1"), side.stride)
        stop = v.two("add", "i64", last, str(layout.taps - side.before))
        left = columns.before * layout.pixel_elements
        right = left + columns.length * layout.pixel_elements
        with code.loop(start, stop, may_be_empty=True) as loop:
            place = multiple(code, v.two("sub", "i64", loop.index, start), layout.row_elements)
            is_inside = v.compare("ult", "i64", loop.index, str(side.length))
            if not side.is_inside:
                with code.when(v.two("xor", "i1", is_inside, "true")):
                    self._fill(place, layout.row_elements)
            with code.when(is_inside):
                row = v.two("add", "i64", multiple(code, image, side.length), loop.index)
                source = multiple(code, row, columns.length * layout.channels)
                self._fill(place, left)
                self._copy_row(source, v.two("add", "i64", place, str(left)))
                self._fill(v.two("add", "i64", place, str(right)), layout.row_elements - right)

    def _copy_row(self, source: str, place: str) -> None:
        code, v, layout = self._code, self._single, self._layout
        count, length = layout.channels, layout.columns.length
        if layout.pixel_elements == count * layout.repeat:
            self._copy(source, place, length * count)
            return
        with code.loop("0", str(length)) as loop:
            at = v.two("add", "i64", source, multiple(code, loop.index, count))
            to = v.two("add", "i64", place, multiple(code, loop.index, layout.pixel_elements))
            self._copy(at, to, count)

    def _fill(self, place: str, count: int) -> None:
        """Elements that stand for what is outside of the image; a few more may be written."""
        code, scheme = self._code, self._scheme
        if count <= 0:
            return
        size = scheme.target.vector_bytes
        kind = f"<{size} x i8>"
        value = code.load(f"load {kind}, ptr {self._outside}, align {size}")
        target = address(code, "%scratch", multiple(code, place, scheme.element_bytes))
        vectors = -(-count * scheme.element_bytes // size)
        if vectors > 2 * _UNROLLED:
            with code.loop("0", str(vectors)) as loop:
                at = address(code, target, multiple(code, loop.index, size))
                code.effect(f"store {kind} {value}, ptr {at}, align 1")
            return
        for each in range(vectors):
            code.effect(f"store {kind} {value}, ptr {address(code, target, str(each * size))}, align 1")

    @property
    def _lanes(self) -> int:
        """How many elements of the input are copied at a time: a power of two."""
        lanes = max(1, self._register // self._scheme.element_bytes // self._layout.repeat)
        return 1 << (lanes.bit_length() - 1)

    def _copy_run(self, source: str, count: str) -> None:
        """So many elements, a vector at least, to the beginning of the memory. Nothing beyond them is read or written."""
        code, v, lanes = self._code, self._single, self._lanes
        begin = address(code, self._source, multiple(code, source, self._layout.type.size_bytes))
        turn = lanes * _UNROLLED
        done = code.value(f"and i64 {count}, {-turn}")
        with code.loop("0", done, step=turn, may_be_empty=True) as loop:
            self._copy_vectors(begin, "%scratch", loop.index, range(0, turn, lanes), lanes)
        last = v.two("sub", "i64", count, str(lanes))
        with code.loop(done, last, step=lanes, may_be_empty=True) as loop:
            self._copy_vectors(begin, "%scratch", loop.index, range(1), lanes)
        # The last vector overlaps the one before it where elements do not fill vectors.
        self._copy_vectors(begin, "%scratch", last, range(1), lanes)

    def _copy(self, source: str, place: str, count: int) -> None:
        """Elements as the scheme multiplies them. Nothing beyond them is read or written."""
        code, scheme, layout = self._code, self._scheme, self._layout
        begin = address(code, self._source, multiple(code, source, layout.type.size_bytes))
        target = address(code, "%scratch", multiple(code, place, scheme.element_bytes))
        lanes = self._lanes
        turn = lanes * _UNROLLED
        done = count - count % turn
        if done > turn:
            with code.loop("0", str(done), step=turn) as loop:
                self._copy_vectors(begin, target, loop.index, range(0, turn, lanes), lanes)
        else:
            done = 0
        while done < count:
            while done + lanes > count:
                lanes //= 2
            self._copy_vectors(begin, target, "0", range(done, done + 1), lanes)
            done += lanes

    def _copy_vectors(self, source: str, target: str, index: str, offsets: range, lanes: int) -> None:
        """Vectors that begin so many elements after an index."""
        code, size = self._code, self._layout.type.size_bytes
        packed = self._scheme.element_bytes * self._layout.repeat
        source = address(code, source, multiple(code, index, size))
        target = address(code, target, multiple(code, index, packed))
        if len(offsets) > 1:
            source, target = opaque(code, source), opaque(code, target)
        for offset in offsets:
            self._copy_vector(source, target, offset, lanes)

    def _copy_vector(self, source: str, target: str, offset: int, lanes: int) -> None:
        code, scheme, layout = self._code, self._scheme, self._layout
        v = Vector(code, scheme.target, lanes)
        size, packed = layout.type.size_bytes, scheme.element_bytes * layout.repeat
        element = f"i{8 * size}"
        at = address(code, source, str(offset * size))
        value = self._converted(v, code.fresh(f"load {v.type(element)}, ptr {at}, align {size}"))
        whole = v
        if layout.repeat > 1:
            whole = Vector(code, scheme.target, lanes * layout.repeat)
            if lanes == 1:
                value = whole.splat(scheme.element, value)
            else:
                picked = ", ".join(f"i32 {each // layout.repeat}" for each in range(whole.lanes))
                kind = v.type(scheme.element)
                value = code.fresh(
                    f"shufflevector {kind} {value}, {kind} poison, <{whole.lanes} x i32> <{picked}>"
                )
        to = address(code, target, str(offset * packed))
        code.effect(f"store {whole.type(scheme.element)} {value}, ptr {to}, align {scheme.element_bytes}")

    def _converted(self, v: Vector, value: str) -> str:
        """Stored values as the scheme multiplies them."""
        kind = self._layout.type
        if self._scheme.is_bytes:
            return v.two("xor", "i8", value, v.number("i8", -128)) if kind is Scalar.INT8 else value
        if kind.size_bytes == 1:
            value = v.cast("sext" if kind is Scalar.INT8 else "zext", "i8", value, "i16")
        return v.two("sub", "i16", value, v.number("i16", self._zero)) if self._zero else value
