"""Packs operands into thread-local scratch memory in the layout that the register tiles read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent, is_one, is_zero
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import from_stored, stored, to_stored
from neurald.drivers.cpu.emit.vector import Vector, vector_type
from neurald.drivers.cpu.kernels.common.addressing import LINE_BYTES, address, multiple, total
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile, lanes_for
from neurald.drivers.cpu.kernels.common.transposed_registers import transposed
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
#: Addresses at multiples of this distance map to the same few lines of the first-level cache.
_ALIASED_BYTES = 4096


def is_aliased(product: WindowedProduct) -> bool:
    """Returns True if inputs of neighbouring positions evict each other from the L1 cache."""
    sides = product.rows, product.columns
    step = product.columns.stride * product.pixel_bytes
    return (
        all(side.taps == 1 and side.is_inside for side in sides)
        and math.prod(each.extent for each in product.batches) == 1
        and product.element_bytes == product.source.type.size_bytes
        and step % _ALIASED_BYTES == 0
        and product.columns.positions > 1
    )


class OutputRange(Struct, frozen=True, kw_only=True):
    """Consecutive positions of an image in one dimension.

    Attributes:
        first: the first one, i64.
        count: their number.
        are_rows: True if they are rows; else they are columns of the only row.
    """

    first: str
    count: int
    are_rows: bool


class SourceCopy(ABC):
    """Copies the inputs of a product to scratch memory, in parts: when they are needed.

    A thread that computes a few of the work items thus copies only what these read.

    Args:
        target: the target of the code.
        given: the product.
        source: name of the input's memory.
        memory: address of the copy.
        kind: type of its elements.

    Attributes:
        product: the product that reads the copy.
        size_bytes: the size of the copy.
        is_whole: True if the inputs of a position are not contiguous, so that all inputs are copied
            at once.
    """

    product: WindowedProduct
    size_bytes: int
    is_whole = False

    def __init__(
        self,
        target: Target,
        given: WindowedProduct,
        source: str,
        memory: str,
        kind: Scalar = Scalar.FLOAT32,
    ) -> None:
        self._target, self._given, self._source, self._memory = target, given, source, memory
        self._kind = kind

    @abstractmethod
    def write(
        self, code: Instructions, at: tuple[Sequence[str], str], positions: OutputRange, continues: str
    ) -> None:
        """Copies the inputs of some positions.

        Args:
            code: receives the instructions.
            at: the index along each batch dimension, and the image.
            positions: the positions.
            continues: an i1 that is true if the inputs of the positions before these are copied.
        """

    def write_all(self, code: Instructions) -> None:
        """Copies all inputs."""
        given = self._given
        self._convert(code, given.source.count, self._source, self._memory)

    def _convert(self, code: Instructions, count: int, source: str, memory: str) -> None:
        """Copies consecutive elements. The last vector overlaps the one before."""
        _convert(code, self._target, (self._given.type, self._kind), count, source, memory)


class SpacedCopy(SourceCopy):
    """Copies single pixels of FLOAT32 to distances that are not a multiple of `_ALIASED_BYTES`.

    The positions of all images become the columns of one row.
    """

    def __init__(self, target: Target, given: WindowedProduct, source: str, memory: str) -> None:
        super().__init__(target, given, source, memory)
        pixel, positions = given.depth * _FLOAT_BYTES + LINE_BYTES, given.positions
        self.size_bytes = positions * pixel
        self.product = replace(
            given,
            images=1,
            rows=WindowDimension(length=1, positions=1),
            columns=WindowDimension(length=positions, positions=positions),
            pixel_bytes=pixel,
            element_bytes=_FLOAT_BYTES,
        )

    def write(
        self, code: Instructions, at: tuple[Sequence[str], str], positions: OutputRange, continues: str
    ) -> None:
        """See `SourceCopy.write`. Positions share no pixels, and there are no batches."""
        del at, continues
        given = self._given
        rows, columns = given.rows, given.columns
        with code.loop("0", str(positions.count)) as loop:
            position = total(code, positions.first, loop.index)
            line = code.value(f"udiv i64 {position}, {columns.positions}")
            column = code.value(f"urem i64 {position}, {columns.positions}")
            image = code.value(f"udiv i64 {line}, {rows.positions}")
            row = code.value(f"urem i64 {line}, {rows.positions}")
            pixel = address(
                code,
                self._source,
                multiple(code, image, given.image_bytes),
                multiple(code, row, rows.stride * given.row_bytes),
                multiple(code, column, columns.stride * given.pixel_bytes),
            )
            to = address(code, self._memory, multiple(code, position, self.product.pixel_bytes))
            self._convert(code, given.depth, pixel, to)


class ConvertingCopy(SourceCopy):
    """Converts elements to the type that is multiplied, in the same order.

    Args:
        target, given, source, memory: see `SourceCopy`.
        kind: FLOAT32 or FLOAT16.
    """

    def __init__(
        self, target: Target, given: WindowedProduct, source: str, memory: str, kind: Scalar
    ) -> None:
        super().__init__(target, given, source, memory, kind)
        has_pixels = given.pixel_bytes >= given.depth * given.type.size_bytes
        row_bytes = given.columns.length * given.pixel_bytes
        has_rows = is_one(given.rows.length) or given.row_bytes >= row_bytes
        is_dense = given.element_bytes == given.type.size_bytes
        self.is_whole = not (is_dense and has_pixels and has_rows)
        self.size_bytes = given.source.count * kind.size_bytes
        self.product = replace(
            given,
            batches=tuple(
                replace(each, source_bytes=self._converted(each.source_bytes)) for each in given.batches
            ),
            image_bytes=self._converted(given.image_bytes),
            row_bytes=self._converted(given.row_bytes),
            pixel_bytes=self._converted(given.pixel_bytes),
            element_bytes=self._converted(given.element_bytes),
            type=kind,
        )

    def _converted(self, distance: int) -> int:
        """Returns a distance of given elements, in bytes, after their conversion."""
        return distance // self._given.type.size_bytes * self._kind.size_bytes

    def write(
        self, code: Instructions, at: tuple[Sequence[str], str], positions: OutputRange, continues: str
    ) -> None:
        """See `SourceCopy.write`. Copies whole rows, or pixels of the only row."""
        given, first = self._given, positions.first
        side = given.rows if positions.are_rows else given.columns
        step = given.row_bytes if positions.are_rows else given.pixel_bytes
        single = Vector(code, self._target, 1)
        start = total(code, multiple(code, first, side.stride), str(-side.padding_before))
        reach = (side.taps - 1) * side.dilation + 1
        # The windows before these end here, if there are any.
        known = total(code, start, str(reach - side.stride))
        begin = single.call("llvm.smax", "i64", start, known)
        begin = code.value(f"select i1 {continues}, i64 {begin}, i64 {start}")
        begin = single.call("llvm.smax", "i64", begin, "0")
        end = total(code, start, str((positions.count - 1) * side.stride + reach))
        end = single.call("llvm.smin", "i64", end, str(side.length))
        batches, image = at
        offsets = [
            multiple(code, index, each.source_bytes)
            for index, each in zip(batches, given.batches, strict=True)
        ]
        offsets.append(multiple(code, image, given.image_bytes))
        size = given.type.size_bytes
        # A batch may have only some channels of each pixel; the others of the last pixel are beyond
        # what begins at the offset of the batch.
        others = given.pixel_bytes - given.depth * size
        copied = step if is_zero(step) or is_zero(others) else step - others
        with code.loop(begin, end, may_be_empty=True) as loop:
            offset = total(code, *offsets, multiple(code, loop.index, step))
            if self._kind.size_bytes < size:
                to = code.value(f"udiv i64 {offset}, {size // self._kind.size_bytes}")
            else:
                to = multiple(code, offset, self._kind.size_bytes // size)
            pointers = address(code, self._source, offset), address(code, self._memory, to)
            self._convert(code, copied // size, *pointers)


def _convert(
    code: Instructions, target: Target, kinds: tuple[Scalar, Scalar], count: int, source: str, memory: str
) -> None:
    """Converts consecutive elements from the first type to the second one."""
    kind, result = kinds
    if is_zero(count):
        # The rows of an image without width, whose windows are all on its padding.
        return
    lanes = lanes_for(count, target)
    v = Vector(code, target, lanes)
    with code.loop("0", str(count), step=lanes) as loop:
        first = loop.index
        if count % lanes:
            first = Vector(code, target, 1).call("llvm.smin", "i64", first, str(count - lanes))
        at = address(code, source, multiple(code, first, kind.size_bytes))
        to = address(code, memory, multiple(code, first, result.size_bytes))
        loaded = code.fresh(f"load {v.type(stored(kind))}, ptr {at}, align {kind.size_bytes}")
        value = to_stored(v, result, from_stored(v, kind, loaded))
        code.effect(f"store {v.type(stored(result))} {value}, ptr {to}, align {result.size_bytes}")


def pack_panel_at_run_time(
    code: Instructions, target: Target, product: WindowedProduct, tile: Tile, source: str, memory: str
) -> None:
    """Packs a panel of weights at run time, in the layout of `packing`.

    Args:
        code: receives the instructions.
        target: the target of the code.
        product: its weights are contiguous per channel.
        tile: size of panels.
        source: address of the panel's first channel.
        memory: address of the panel.
    """
    single, kind = Vector(code, target, 1), product.weights.value.type
    terms, step = product.terms, tile.lanes if product.terms >= tile.lanes else 1
    row_bytes = product.weights.channel_step * kind.size_bytes
    with code.loop("0", str(tile.vectors)) as vector:
        last = tile.offsets(product.channels)[-1]
        channel = single.call("llvm.smin", "i64", multiple(code, vector.index, tile.lanes), str(last))
        rows = address(code, source, multiple(code, channel, row_bytes))
        columns = address(code, memory, multiple(code, vector.index, tile.lanes * _FLOAT_BYTES))
        with code.loop("0", str(terms), step=step) as loop:
            term = loop.index
            if isinstance(terms, Extent) or terms % step:
                term = single.call("llvm.smin", "i64", term, str(terms - step))
            v = Vector(code, target, step)
            loaded = []
            for lane in range(tile.lanes):
                at = address(code, rows, multiple(code, term, kind.size_bytes), str(lane * row_bytes))
                text = code.fresh(f"load {v.type(stored(kind))}, ptr {at}, align {kind.size_bytes}")
                loaded.append(from_stored(v, kind, text))
            for number, column in enumerate(_columns(code, loaded, step)):
                index = multiple(code, term, tile.width * _FLOAT_BYTES)
                to = address(code, columns, index, str(number * tile.width * _FLOAT_BYTES))
                whole = vector_type("float", tile.lanes)
                code.effect(f"store {whole} {column}, ptr {to}, align {_FLOAT_BYTES}")


def copy_panel_at_run_time(
    code: Instructions, target: Target, product: WindowedProduct, tile: Tile, source: str, memory: str
) -> None:
    """Copies a panel of FLOAT32 weights with contiguous channels; see `pack_panel_at_run_time`."""
    v = Vector(code, target, tile.lanes)
    kind, row_bytes = v.type("float"), product.weights.term_step * _FLOAT_BYTES
    with code.loop("0", str(product.terms)) as loop:
        at = address(code, source, multiple(code, loop.index, row_bytes))
        to = address(code, memory, multiple(code, loop.index, tile.width * _FLOAT_BYTES))
        for number, channel in enumerate(tile.offsets(product.channels)):
            loaded = address(code, at, str(channel * _FLOAT_BYTES))
            loaded = code.fresh(f"load {kind}, ptr {loaded}, align {_FLOAT_BYTES}")
            stored = address(code, to, str(number * tile.lanes * _FLOAT_BYTES))
            code.effect(f"store {kind} {loaded}, ptr {stored}, align {_FLOAT_BYTES}")


def _columns(code: Instructions, rows: list[str], width: int) -> list[str]:
    """Returns the columns of a square matrix given by its rows, or its single column."""
    if len(rows) == 1 or width > 1:
        return transposed(code, "float", rows)
    kind, column = vector_type("float", len(rows)), "poison"
    for lane, number in enumerate(rows):
        column = code.fresh(f"insertelement {kind} {column}, float {number}, i64 {lane}")
    return [column]
