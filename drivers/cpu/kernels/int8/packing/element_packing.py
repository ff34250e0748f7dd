"""Packs inputs in the form that a scheme multiplies.

Many kernels share subroutines that copy and fill long ranges.
"""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, opaque
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.target.routine import Subroutine

#: Number of vectors copied per iteration.
UNROLLED = 4
_COPY_PARAMETERS = (("ptr", "%source"), ("ptr", "%target"), ("i64", "%count"))
_FILL_PARAMETERS = (("ptr", "%target"), ("ptr", "%value"), ("i64", "%vectors"))
#: See `ElementPacking.pack_rows`.
_ROWS_PARAMETERS = (
    *(("ptr", each) for each in ("%source", "%target", "%value")),
    *(("i64", each) for each in ("%first", "%last", "%height", "%row", "%packed", "%before", "%count")),
    *(("i64", each) for each in ("%left", "%right", "%whole")),
)


class ElementPacking(Struct, frozen=True, kw_only=True):
    """Conversion of stored elements to multiplied ones.

    Attributes:
        scheme: multiplication scheme.
        type: the type of stored elements.
        zero: their zero point.
        repeat: how often each element is repeated when packed.
    """

    scheme: Scheme
    type: Scalar
    zero: int
    repeat: int

    @property
    def lanes(self) -> int:
        """Number of elements copied at a time, a power of two."""
        size = self.scheme.target.vector_bytes
        lanes = max(1, size // self.scheme.element_bytes // self.repeat)
        return 1 << (lanes.bit_length() - 1)

    @property
    def packed_bytes(self) -> int:
        """Packed size of an element."""
        return self.scheme.element_bytes * self.repeat

    def copy(self, code: Instructions, source: str, target: str, offset: int, lanes: int) -> None:
        """Copies a vector of elements, beginning `offset` elements after `source`."""
        v = Vector(code, self.scheme.target, lanes)
        size = self.type.size_bytes
        at = address(code, source, str(offset * size))
        value = self._converted(v, code.fresh(f"load {v.type(f'i{8 * size}')}, ptr {at}, align {size}"))
        whole, element = v, self.scheme.element
        if self.repeat > 1:
            whole = Vector(code, self.scheme.target, lanes * self.repeat)
            if lanes == 1:
                value = whole.splat(element, value)
            else:
                picked = ", ".join(f"i32 {each // self.repeat}" for each in range(whole.lanes))
                kind = v.type(element)
                value = code.fresh(
                    f"shufflevector {kind} {value}, {kind} poison, <{whole.lanes} x i32> <{picked}>"
                )
        to = address(code, target, str(offset * self.packed_bytes))
        code.effect(f"store {whole.type(element)} {value}, ptr {to}, align {self.scheme.element_bytes}")

    def copy_all(
        self, code: Instructions, source: str, target: str, count: str, *, may_be_short: bool = False
    ) -> None:
        """Copies `count` elements without reading or writing beyond them.

        There are at least `lanes` of them, unless `may_be_short` is True.
        """
        code.call(_copying(self, may_be_short), source, target, count)

    def _converted(self, v: Vector, value: str) -> str:
        """Converts stored values to the scheme's form."""
        kind = self.type
        if self.scheme.is_bytes:
            is_changed = bool(self.scheme.shift_of(kind))
            return v.binary("xor", "i8", value, v.number("i8", -128)) if is_changed else value
        if kind.size_bytes == 1:
            value = v.cast("sext" if kind is Scalar.INT8 else "zext", "i8", value, "i16")
        return v.binary("sub", "i16", value, v.number("i16", self.zero)) if self.zero else value

    def fill_all(self, code: Instructions, target: str, value: str, vectors: int) -> None:
        """Fills memory with a vector.

        Args:
            code: receives the instructions.
            target: address of the memory.
            value: address of the vector, aligned to its size.
            vectors: number of vectors.
        """
        code.call(_filling(self.scheme.target.vector_bytes), target, value, str(vectors))

    def pack_rows(
        self,
        code: Instructions,
        pointers: tuple[str, str, str],
        rows: tuple[str, str],
        sizes: Sequence[int],
        *,
        may_be_short: bool = False,
    ) -> None:
        """Packs rows of an image with padding beside them; rows above and below consist of padding.

        Args:
            code: receives the instructions.
            pointers: addresses of the image's first row, of the first packed row, and of a vector
                of padding, aligned to its size.
            rows: the first one, and the one after the last; may be empty.
            sizes: number of rows of the image; bytes of an image row, of a packed row, and of the
                padding before it; elements per row; vectors of padding before, after, and instead
                of a row.
            may_be_short: whether a row may have fewer elements than `lanes`.
        """
        code.call(_row_packing(self, may_be_short), *pointers, *rows, *(str(each) for each in sizes))


@cache
def _copying(packing: ElementPacking, may_be_short: bool) -> Subroutine:
    names = [name for _, name in _COPY_PARAMETERS]
    code = Instructions(names)
    _write_copy(code, packing, *names, may_be_short=may_be_short)
    return subroutine_of(code, _COPY_PARAMETERS)


@cache
def _filling(size: int) -> Subroutine:
    target, value, vectors = (name for _, name in _FILL_PARAMETERS)
    code = Instructions((target, value, vectors))
    _write_fill(code, target, code.load(f"load <{size} x i8>, ptr {value}, align {size}"), size, vectors)
    return subroutine_of(code, _FILL_PARAMETERS)


@cache
def _row_packing(packing: ElementPacking, may_be_short: bool) -> Subroutine:
    names = [name for _, name in _ROWS_PARAMETERS]
    source, target, value, first, last, height, row, packed_row, before, count, *vectors = names
    code, size = Instructions(names), packing.scheme.target.vector_bytes
    v = Vector(code, packing.scheme.target, 1)
    padding = code.load(f"load <{size} x i8>, ptr {value}, align {size}")
    with code.loop(first, last, may_be_empty=True) as loop:
        packed = address(
            code, target, v.binary("mul", "i64", v.binary("sub", "i64", loop.index, first), packed_row)
        )
        is_inside = v.compare("ult", "i64", loop.index, height)
        left = v.select(is_inside, "i64", vectors[0], vectors[2])
        _write_fill(code, packed, padding, size, left)
        with code.when(is_inside):
            begin = address(code, source, v.binary("mul", "i64", loop.index, row))
            inner = address(code, packed, before)
            _write_copy(code, packing, begin, inner, count, may_be_short=may_be_short)
            end = address(code, inner, multiple(code, count, packing.packed_bytes))
            _write_fill(code, end, padding, size, vectors[1])
    return subroutine_of(code, _ROWS_PARAMETERS)


def _write_copy(
    code: Instructions, packing: ElementPacking, source: str, target: str, count: str, *, may_be_short: bool
) -> None:
    """See `ElementPacking.copy_all`."""
    v, lanes = Vector(code, packing.scheme.target, 1), packing.lanes
    unrolled = lanes * UNROLLED

    def copy(index: str, vectors: int) -> None:
        first = address(code, source, multiple(code, index, packing.type.size_bytes))
        to = address(code, target, multiple(code, index, packing.packed_bytes))
        if vectors > 1:
            first, to = opaque(code, first), opaque(code, to)
        for each in range(vectors):
            packing.copy(code, first, to, each * lanes, lanes)

    if may_be_short:
        is_short = v.compare("slt", "i64", count, str(lanes))
        single = v.select(is_short, "i64", count, "0")
        with code.loop("0", single, may_be_empty=True) as loop:
            first = address(code, source, multiple(code, loop.index, packing.type.size_bytes))
            to = address(code, target, multiple(code, loop.index, packing.packed_bytes))
            packing.copy(code, first, to, 0, 1)
        with code.when(v.binary("xor", "i1", is_short, "true")):
            _write_copy(code, packing, source, target, count, may_be_short=False)
        return
    done = code.value(f"and i64 {count}, {-unrolled}")
    with code.loop("0", done, step=unrolled, may_be_empty=True) as loop:
        copy(loop.index, UNROLLED)
    last = v.binary("sub", "i64", count, str(lanes))
    with code.loop(done, last, step=lanes, may_be_empty=True) as loop:
        copy(loop.index, 1)
    # The last vector overlaps the one before if elements do not fill vectors.
    copy(last, 1)


def _write_fill(code: Instructions, target: str, value: str, size: int, vectors: str) -> None:
    """Stores a vector of `size` bytes repeatedly."""
    with code.loop("0", vectors, may_be_empty=True) as loop:
        at = address(code, target, multiple(code, loop.index, size))
        code.effect(f"store <{size} x i8> {value}, ptr {at}, align 1")
