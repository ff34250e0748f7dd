"""Packs operands into thread-local scratch memory in the layout that the register tiles read."""

import math

from neurald.drivers.compiler.ir.extent import Extent
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import from_stored, stored
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


def pad_pixels(
    code: Instructions, target: Target, product: WindowedProduct, source: str, memory: str
) -> tuple[WindowedProduct, int]:
    """Copies the inputs of single-pixel windows with padding between pixels.

    Args:
        code: receives the instructions.
        target: the target of the code.
        product: a FLOAT32 product.
        source: name of the input's memory.
        memory: address of the copy.

    Returns:
        The product that reads the copy, and the copy's size in bytes.
    """
    pixel = product.depth * _FLOAT_BYTES + LINE_BYTES
    rows, columns = product.rows, product.columns
    with (
        code.loop("0", str(product.images)) as image,
        code.loop("0", str(rows.positions)) as row,
        code.loop("0", str(columns.positions)) as column,
    ):
        at = address(
            code,
            source,
            multiple(code, image.index, product.image_bytes),
            multiple(code, row.index, rows.stride * product.row_bytes),
            multiple(code, column.index, columns.stride * product.pixel_bytes),
        )
        line = total(code, multiple(code, image.index, rows.positions), row.index)
        index = total(code, multiple(code, line, columns.positions), column.index)
        to = address(code, memory, multiple(code, index, pixel))
        _write_floats(code, target, product.type, product.depth, at, to)
    positions = product.positions
    padded_product = replace(
        product,
        images=1,
        rows=WindowDimension(length=1, positions=1),
        columns=WindowDimension(length=positions, positions=positions),
        pixel_bytes=pixel,
        element_bytes=_FLOAT_BYTES,
        type=Scalar.FLOAT32,
    )
    return padded_product, positions * pixel


def convert_to_float(
    code: Instructions, target: Target, product: WindowedProduct, source: str, memory: str
) -> tuple[WindowedProduct, int]:
    """Converts the whole input to FLOAT32; otherwise like `pad_pixels`."""
    _write_floats(code, target, product.type, product.source.count, source, memory)
    factor = _FLOAT_BYTES // product.type.size_bytes
    wide = replace(
        product,
        batches=tuple(replace(each, source_bytes=each.source_bytes * factor) for each in product.batches),
        image_bytes=product.image_bytes * factor,
        row_bytes=product.row_bytes * factor,
        pixel_bytes=product.pixel_bytes * factor,
        element_bytes=product.element_bytes * factor,
        type=Scalar.FLOAT32,
    )
    return wide, product.source.count * _FLOAT_BYTES


def _write_floats(
    code: Instructions, target: Target, kind: Scalar, count: int, source: str, memory: str
) -> None:
    """Converts consecutive elements to FLOAT32. The last vector overlaps the one before."""
    lanes = lanes_for(count, target)
    v = Vector(code, target, lanes)
    with code.loop("0", str(count), step=lanes) as loop:
        first = loop.index
        if count % lanes:
            first = Vector(code, target, 1).call("llvm.smin", "i64", first, str(count - lanes))
        at = address(code, source, multiple(code, first, kind.size_bytes))
        to = address(code, memory, multiple(code, first, _FLOAT_BYTES))
        loaded = code.fresh(f"load {v.type(stored(kind))}, ptr {at}, align {kind.size_bytes}")
        code.effect(f"store {v.type('float')} {from_stored(v, kind, loaded)}, ptr {to}, align {_FLOAT_BYTES}")


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
    """Copies a panel of FLOAT32 weights whose channels are contiguous; see `pack_panel_at_run_time`."""
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
