"""Routines of tiled FLOAT32 products, including the preparation of operands."""

import math
from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import Apply
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, has_extents
from neurald.drivers.compiler.ir.kernel import Kernel, op_cost
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.narrow_weights import NarrowWeights, narrowed
from neurald.drivers.cpu.kernels.common.packing import by_channel, packed, packed_groups, packed_narrow
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.routine_cache import shared_routine
from neurald.drivers.cpu.kernels.common.tile import Tile, choose_tile
from neurald.drivers.cpu.kernels.gemm.digit_sums import DigitCopy, has_digits
from neurald.drivers.cpu.kernels.gemm.gemm import GemmWriter, PackPanel, ProductMemory
from neurald.drivers.cpu.kernels.gemm.micro_kernel import WeightLayout
from neurald.drivers.cpu.kernels.gemm.operand_packing import (
    ConvertingCopy,
    SourceCopy,
    SpacedCopy,
    is_aliased,
    pack_panel_at_run_time,
)
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Inputs beyond this size would come from the last-level cache again for each panel. Weights up to
#: this size come from the second-level cache instead for each tile.
_MAX_STREAMED_INPUT_BYTES, _MAX_STREAMED_WEIGHT_BYTES = 1 << 20, 1280 << 10
#: Weights up to this size stay in the second-level cache while tiles go through them.
_MAX_RESIDENT_BYTES = 384 << 10
#: Weights up to this size stay in the first-level cache; and inputs up to this size stay in the
#: second-level cache while panels go through them.
_MAX_NEAR_BYTES, _MAX_RESIDENT_INPUT_BYTES = 24 << 10, 256 << 10
#: With at most this many positions, and at least this many bytes of weights, reading weights takes
#: longer than multiplying them.
_MAX_STREAMED_POSITIONS, _MIN_STREAMED_BYTES = 4, 64 << 10
#: Threads that share a product read all weights rather than all inputs if weights are at most this
#: many times as large as inputs, which are in other threads' caches.
_MAX_REREAD_RATIO = 4
#: Inputs of a block of positions, which stay in the second-level cache while panels go through
#: them.
_BLOCK_BYTES = 512 << 10
_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
_FLOATS = (Scalar.FLOAT16, Scalar.FLOAT32)
#: Required relative cost of sums of float16, which are less precise.
_MAX_RELATIVE_COST = 0.8
_ALIGNMENT = 64
#: Least cost of a function of sums that is computed in a loop.
_MIN_FUNCTION_COST = 12
#: Copy bandwidth into a thread's scratch memory, per cycle.
_COPIED_BYTES_PER_CYCLE = 16


def routine(kernel: Kernel, product: WindowedProduct, target: Target) -> Routine:
    """Returns the routine of a FLOAT32 product.

    Args:
        kernel: its output is not empty.
        product: its contraction, with at least one term.
        target: the target of the code.
    """
    is_packed = product.weights.value.constant is not None
    tile = choose_tile(product, target, is_packed=is_packed)
    return _routine_of(kernel, product, tile, target)


def half_routine(kernel: Kernel, product: WindowedProduct, target: Target, other: float) -> Routine | None:
    """Returns the routine of a relaxed FLOAT32 product that is added up in float16.

    Sums of more than `MAX_HALF_TERMS` products are FLOAT32.

    Args:
        kernel, product, target: see `routine`.
        other: estimated cycles of another method than tiles.

    Returns:
        None if this is unsupported or slower.
    """
    constant = product.weights.value.constant
    if not (target.has_half_products and target.is_relaxed) or constant is None:
        return None
    if has_extents((product.channels, product.terms)) or product.type not in _FLOATS:
        return None
    if product.channels < target.lanes(Scalar.FLOAT16.size_bytes) or not _are_halves(constant):
        return None
    narrow = _narrowed(product, constant, target)
    if narrow is not None and narrow.scales is not None:
        # Bytes are read in less time.
        return None
    tile = choose_tile(product, target, is_packed=True, is_half=True)
    cycles = tile.cycles
    if product.type is not Scalar.FLOAT16:
        cycles += estimate(product.source.count) * Scalar.FLOAT16.size_bytes / _COPIED_BYTES_PER_CYCLE
    if cycles > _MAX_RELATIVE_COST * min(other, choose_tile(product, target, is_packed=True).cycles):
        return None
    return _routine_of(kernel, product, tile, target)


def _are_halves(constant: Array) -> bool:
    """Returns True if no weight exceeds the range of float16."""
    limit = float(np.finfo(np.float16).max)
    return bool(constant.max(initial=-limit) <= limit and constant.min(initial=limit) >= -limit)


def _routine_of(kernel: Kernel, product: WindowedProduct, tile: Tile, target: Target) -> Routine:
    operand = product.weights
    weights_value = operand.value
    if operand.value.constant is not None:
        weights_value = _packed(product, operand.value.constant, tile, target)
    counts = () if kernel.limit is None else (kernel.limit.count,)
    arguments = arguments_with(kernel, (product.source, weights_value, *counts))
    return shared_routine(
        kernel,
        arguments,
        target,
        lambda: _new_routine(kernel, product, tile, weights_value, arguments, target),
    )


def _packed(product: WindowedProduct, constant: Array, tile: Tile, target: Target) -> Value:
    """Packs constant weights, in fewer bytes if reading them takes longer than the products."""
    operand = product.weights
    narrow = None if tile.is_half else _narrowed(product, constant, target)
    if narrow is not None:
        if narrow.scales is not None and has_digits(product, tile, Scalar.UINT8, target):
            return packed_groups(narrow.values, narrow.scales, tile, operand.value.name)
        return packed_narrow(narrow, tile, operand.value.name)
    return packed(operand, constant, tile, product.channels, product.terms)


def _narrowed(product: WindowedProduct, constant: Array, target: Target) -> NarrowWeights | None:
    """Returns the weights in fewer bytes; None if any changes, or if reading takes little time."""
    is_streamed = estimate(product.positions) <= _MAX_STREAMED_POSITIONS and target.has_fma
    if not is_streamed or constant.size * _FLOAT_BYTES < _MIN_STREAMED_BYTES:
        return None
    weights = by_channel(product.weights, constant, product.channels, product.terms)
    return narrowed(weights.astype(np.float32), with_half=target.has_half)


def _new_routine(
    kernel: Kernel,
    product: WindowedProduct,
    tile: Tile,
    weights_value: Value,
    arguments: tuple[Value, ...],
    target: Target,
) -> Routine:
    operand = product.weights
    names = pointer_names(arguments)
    code = Instructions(parameter_names(arguments))
    weights = _weights(product, tile, names[weights_value], weights_value.type)
    source, seen, scratch_bytes, cycles = names[product.source], product, 0, tile.cycles
    copy: SourceCopy | None = None
    multiplied = Scalar.FLOAT16 if tile.is_half else Scalar.FLOAT32
    by_digits = has_digits(product, tile, weights_value.type, target)
    if by_digits:
        copy = DigitCopy(target, product, source, "%scratch")
    elif product.type is not multiplied:
        copy = ConvertingCopy(target, product, source, "%scratch", multiplied)
    elif weights.is_panel_major and is_aliased(product):
        copy = SpacedCopy(target, product, source, "%scratch")
    if copy is not None:
        seen, scratch_bytes, source = copy.product, copy.size_bytes, "%scratch"
    cycles += estimate(scratch_bytes) / _COPIED_BYTES_PER_CYCLE
    pack_panel: PackPanel | None = None
    if weights.pointer == "%scratch":
        begin = -(-scratch_bytes // _ALIGNMENT) * _ALIGNMENT
        scratch_bytes = begin + product.terms * weights.term_bytes
        weights = replace(weights, pointer=address(code, "%scratch", str(begin)))
        cycles += estimate(operand.value.count)
        pack_panel = _panel_packer(code, target, product, tile, names[weights_value], weights.pointer)
    totals: str | None = None
    if _has_function(kernel):
        begin = -(-scratch_bytes // _ALIGNMENT) * _ALIGNMENT
        scratch_bytes = begin + tile.positions * tile.width * _FLOAT_BYTES
        totals = address(code, "%scratch", str(begin))
    memory = ProductMemory(source=source, pointers=names, pack_panel=pack_panel, copy=copy, totals=totals)
    writer = GemmWriter(code, target, flattened(kernel), seen, tile, weights, memory)
    writer.write()
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=math.prod(writer.extents),
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=scratch_bytes,
        label=("float16 " if tile.is_half else "")
        + f"tiles of {tile.positions} positions and {tile.own_vectors:g} x {tile.lanes} channels"
        + (", by digits" if by_digits else ""),
        operations=kernel.operations,
        units=writer.units,
    )


def _has_function(kernel: Kernel) -> bool:
    """Returns True if results are functions of the sums that take many instructions.

    Written out for each vector of a tile, they would take most of the time to compile. In a loop
    they run as fast.
    """
    return any(
        isinstance(each, Apply) and op_cost(each.op) >= _MIN_FUNCTION_COST for each in walk(kernel.body)
    )


def _is_panel_major(product: WindowedProduct) -> bool:
    """Returns True if a panel of weights is used for all positions before the next one.

    The next panel is then prefetched, so it does not matter if the weights come from memory. But
    inputs are not, so they should be in the second-level cache.
    """
    weights = estimate(product.channels * product.terms) * _FLOAT_BYTES
    inputs = estimate(product.source.count) * _FLOAT_BYTES
    is_resident = inputs <= _MAX_RESIDENT_INPUT_BYTES
    if inputs > _MAX_STREAMED_INPUT_BYTES and weights <= _MAX_STREAMED_WEIGHT_BYTES:
        return False
    return weights > _MAX_RESIDENT_BYTES or (weights > _MAX_NEAR_BYTES and is_resident)


def _shares_positions(product: WindowedProduct) -> bool:
    """Returns True if threads should have positions of their own and read all weights."""
    weights = estimate(product.channels * product.terms) * _FLOAT_BYTES
    inputs = estimate(product.source.count) * _FLOAT_BYTES
    return weights <= min(_MAX_STREAMED_WEIGHT_BYTES, _MAX_REREAD_RATIO * inputs)


def _blocks(product: WindowedProduct) -> int:
    """Returns the number of blocks of positions, if a panel is used for all positions of a block.

    A panel is read again for each block, but prefetched. Inputs are not prefetched, so that reading
    them from the last-level cache for each panel takes longer.
    """
    lengths = product.channels, product.terms, product.source.count, product.positions
    if any(isinstance(each, Extent) for each in lengths) or any(each.extent != 1 for each in product.batches):
        return 1
    weights = product.channels * product.terms * _FLOAT_BYTES
    inputs = min(product.source.count, product.positions * product.terms) * _FLOAT_BYTES
    if weights <= _MAX_STREAMED_WEIGHT_BYTES or inputs <= _MAX_STREAMED_INPUT_BYTES:
        return 1
    return -(-inputs // _BLOCK_BYTES)


def _weights(product: WindowedProduct, tile: Tile, pointer: str, stored: Scalar) -> WeightLayout:
    """Returns the layout of the weights.

    They are packed at compile time, read in place, or packed to `%scratch` at run time.

    Args:
        product: the product.
        tile: size of panels.
        pointer: name of their memory.
        stored: type of the stored value, see `packed_narrow`.
    """
    operand = product.weights
    size = operand.value.type.size_bytes
    is_panel_major, shares_positions = _is_panel_major(product), _shares_positions(product)
    blocks = _blocks(product) if is_panel_major and not shares_positions else 1
    if operand.value.constant is None and operand.channel_step == 1:
        return WeightLayout(
            pointer=pointer,
            type=operand.value.type,
            set_bytes=product.channels * product.terms * size,
            panel_bytes=0,
            term_bytes=operand.term_step * size,
            channel_bytes=size,
            vectors=tuple(each * size for each in tile.offsets(product.channels)),
            align=size,
            is_panel_major=is_panel_major,
            shares_positions=shares_positions,
            blocks=blocks,
        )
    is_packed = operand.value.constant is not None
    kind = (Scalar.INT8 if stored is Scalar.UINT8 else stored) if is_packed else Scalar.FLOAT32
    scale_bytes = tile.width * _FLOAT_BYTES if kind is Scalar.INT8 else 0
    term_bytes = tile.width * kind.size_bytes
    panel_bytes = scale_bytes + product.terms * term_bytes if is_packed else 0
    return WeightLayout(
        pointer=pointer if is_packed else "%scratch",
        type=kind,
        set_bytes=tile.panels * panel_bytes,
        panel_bytes=panel_bytes,
        term_bytes=term_bytes,
        channel_bytes=0,
        vectors=tuple(each * tile.lanes * kind.size_bytes for each in range(tile.vectors)),
        align=tile.lanes * kind.size_bytes,
        is_panel_major=is_panel_major,
        shares_positions=shares_positions,
        blocks=blocks,
        scale_bytes=scale_bytes,
    )


def _panel_packer(
    code: Instructions, target: Target, product: WindowedProduct, tile: Tile, pointer: str, memory: str
) -> PackPanel:
    """Returns a function that packs a panel of weights at run time."""
    operand = product.weights
    size = operand.value.type.size_bytes

    def pack(batches: Sequence[str], channel: str) -> None:
        sets = (
            multiple(code, at, each.weights * product.channels * product.terms * size)
            for at, each in zip(batches, product.batches, strict=True)
        )
        first = address(code, pointer, *sets, multiple(code, channel, operand.channel_step * size))
        pack_panel_at_run_time(code, target, product, tile, first, memory)

    return pack
