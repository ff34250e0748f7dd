"""Binds sums of products, which convolutions, layers and products of matrices consist of."""

import math
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import FirstFactor, kind_of, source
from neurald.drivers.cpu.first_tier.binding.convolution.requantization import requantization
from neurald.drivers.cpu.first_tier.binding.convolution.windows import WindowAxis, rows_table, window_table
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    MAX_INT32,
    PRODUCTS_PER_NS,
    BindingScope,
    count_of,
    limits,
    scales_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BATCH_WORDS, BLOCK
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.fixed_point import Rounding, clamped_bias
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution.weighted_sum import product_scales
from neurald.hal.operations.machinery.call import Array, Call, Shape

#: The largest magnitude of an 8-bit weight or value without its zero point, and of usual biases.
MAX_WEIGHT: Final = 255
_MAX_BIAS: Final = 1 << 29
#: Number of weights whose magnitudes are added up at a time.
_SUMMED_ELEMENTS: Final = 1 << 15
#: Number of channels up to which the taps of a line of pixels are joined.
_FEW_CHANNELS: Final = 8
#: Maximum number of batches, which have offsets in a table.
_MAX_BATCHES: Final = 1 << 16


class BoundEpilogue(Struct, frozen=True, kw_only=True):
    """The constants and words of an epilogue."""

    constants: tuple[BoundConstant, ...]
    words: tuple[int, ...]


class Batches(Struct, frozen=True, kw_only=True):
    """Products with the same table.

    Attributes:
        offsets: `BATCH_WORDS` of each.
        stride: elements between rows of the output.
    """

    offsets: tuple[tuple[int, ...], ...]
    stride: int

    @classmethod
    def single(cls, channels: int) -> "Batches":
        """Returns one product."""
        return cls(offsets=((0,) * BATCH_WORDS,), stride=channels)


def width_of(scope: BindingScope, positions: int, channels: int) -> int:
    """Returns the channels of a panel."""
    return scope.tiles.lanes * scope.tiles.form(positions, channels).vectors


class SumsOfProducts(Struct, frozen=True, kw_only=True):
    """Sums of products of an input and weights.

    Attributes:
        kind: the kind of the products.
        positions, channels, taps: of a batch.
        depth: the elements of a pixel that are summed.
        given: the input.
        weights: the weights in panels.
        epilogue: what becomes of the sums.
        table: see `neurald.drivers.cpu.first_tier.kernels`.
        batches: the products.
    """

    kind: Products
    positions: int
    channels: int
    taps: int = 1
    depth: int
    given: FirstFactor
    weights: BoundConstant | BoundTemporary
    epilogue: BoundEpilogue
    table: BoundConstant
    batches: Batches

    @classmethod
    def of_rows(
        cls,
        scope: BindingScope,
        kind: Products,
        *,
        rows: int,
        channels: int,
        depth: int,
        given: FirstFactor,
        weights: BoundConstant | BoundTemporary,
        epilogue: BoundEpilogue,
    ) -> "SumsOfProducts":
        """Returns the products of one matrix's rows."""
        return cls(
            kind=kind,
            positions=rows,
            channels=channels,
            depth=depth,
            given=given,
            weights=weights,
            epilogue=epilogue,
            table=rows_table(scope, rows, given.padded),
            batches=Batches.single(channels),
        )


def bind_sums(scope: BindingScope, sums: SumsOfProducts, output: int | BoundTemporary) -> list[BoundCall]:
    """Binds sums of products, which are written to an operand or to memory."""
    kind, given, batches = sums.kind, sums.given, sums.batches
    positions, channels, taps, depth = sums.positions, sums.channels, sums.taps, sums.depth
    form, width = scope.tiles.form(positions, channels), width_of(scope, positions, channels)
    terms = depth if kind.is_float else -(-depth // 2)
    panels, tiles = -(-channels // width), -(-positions // form.rows)
    count = len(batches.offsets)
    if count > _MAX_BATCHES:
        raise NotBound("there are too many batches")
    offsets = scope.shared(
        ("batches", batches.offsets), lambda: BoundConstant.of(np.array(batches.offsets, np.int64))
    )
    rows = () if given.rows is None else (given.rows,)
    return [
        *given.calls,
        BoundCall(
            function=f"first_{form.name}_{kind.value}",
            arguments=(
                output,
                given.argument,
                sums.weights,
                *sums.epilogue.constants,
                *rows,
                sums.table,
                scope.zeros(np.uint32, terms),
                offsets,
            ),
            words=(positions, channels, taps, terms, panels, tiles, batches.stride, *sums.epilogue.words),
            work_items=count * (panels if form.rows == 1 else tiles),
            cost_ns=count * positions * channels * taps * depth / PRODUCTS_PER_NS,
        ),
    ]


def epilogue_of(
    scope: BindingScope,
    call: Call,
    kind: Products,
    shape: Shape,
    weights: Array | None,
    width: int,
    *,
    groups: int = 1,
    is_first_axis: bool = True,
) -> BoundEpilogue:
    """Returns the parameters of the epilogue of a layer's weights.

    Args:
        scope: the scope of the operation.
        call: the operation.
        kind: the kind of the products.
        shape: the shape of the weights; the first or the last axis has the channels.
        weights: as they are stored; None if they are not constant.
        width: a multiple of it is the number of channels that have parameters, of each group.
        groups: the groups of channels.
        is_first_axis: True if the first axis of the weights has the channels.
    """
    channels = shape[0 if is_first_axis else -1]
    own = channels // groups
    padded = -(-own // width) * width
    bias = scope.constant(call, "bias") if call.has("bias") else None

    def table(dtype: type[np.generic], *rows: Array | None) -> BoundConstant:
        def fill(target: Array) -> None:
            for place, row in zip(target, rows, strict=True):
                if row is not None:
                    place[:, :own] = row if row.size == 1 else row.reshape(groups, own)

        return BoundConstant(dtype=np.dtype(dtype), shape=(len(rows), groups, padded), fill=fill)

    if kind is Products.FLOAT:
        return BoundEpilogue(constants=(table(np.float32, bias),), words=(*limits(call), groups * padded))
    filter_, output = call.operand("filter"), call.operand("output")
    if kind is Products.HYBRID:
        if weights is None:
            raise NotBound("floats have quantised variables as weights")
        _expect_exact(call, kind, shape, weights, None, is_first_axis=is_first_axis)
        both = table(np.float32, bias, scales_of(filter_, np.float32))
        return BoundEpilogue(constants=(both,), words=(*limits(call), groups * padded))
    _expect_exact(call, kind, shape, weights, bias, is_first_axis=is_first_axis)
    multipliers = product_scales(call) / output.scale
    mantissas, parameters = requantization(multipliers, _rounding(call, kind))
    return BoundEpilogue(
        constants=(table(np.int32, bias, mantissas), table(np.int64, *parameters)),
        words=(output.zero_point, *quantized_limits(output, call.activation), groups * padded),
    )


def _rounding(call: Call, kind: Products) -> Rounding:
    """Returns the rounding of quantised sums."""
    if call.binding.type is OperationType.TFLITE_FULLY_CONNECTED:
        from neurald.hal.operations.tflite.convolution.fully_connected import rounding

        return rounding(call)
    return Rounding.SHORT if kind is Products.SHORT else Rounding.TWICE


def _expect_exact(
    call: Call,
    kind: Products,
    shape: Shape,
    weights: Array | None,
    bias: Array | None,
    *,
    is_first_axis: bool,
) -> None:
    """Raises NotBound if sums of products may exceed 32 bits."""
    operand, largest = call.operand("input"), MAX_WEIGHT
    if kind is Products.INT:
        low, high = quantized_limits(operand)
        largest = max(high - operand.zero_point, operand.zero_point - low)
    elif kind is Products.SHORT:
        largest = 1 << 15
    channels = shape[0 if is_first_axis else -1]
    bound = largest * MAX_WEIGHT * (math.prod(shape) // channels) + _MAX_BIAS
    if bound <= MAX_INT32 and (bias is None or -_MAX_BIAS <= bias.min() <= bias.max() <= _MAX_BIAS):
        return
    if weights is None:
        raise NotBound("sums may exceed 32 bits")
    rows = weights.reshape(channels, -1) if is_first_axis else weights.reshape(-1, channels).T
    sums = np.zeros(channels, np.int64) if bias is None else np.abs(clamped_bias(bias))
    # Some channels at a time, which stay in a cache. New pages for all would take longer than that.
    count = max(1, _SUMMED_ELEMENTS // rows.shape[1])
    for first in range(0, channels, count):
        wide = np.abs(factors.centred(call, kind, rows[first : first + count]))
        sums[first : first + count] += largest * wide.sum(axis=1, dtype=np.int64)
    if (sums > MAX_INT32).any():
        raise NotBound("sums may exceed 32 bits")


def windowed(
    scope: BindingScope,
    call: Call,
    shape: Shape,
    filter_: Array | None,
    axes: tuple[WindowAxis, ...],
    positions: int,
    *,
    asymmetric: bool = False,
) -> list[BoundCall]:
    """Binds a convolution along any axes.

    Args:
        scope: the scope of the operation.
        call: the operation.
        shape: the shape of the weights, (channels, taps along each axis, depth).
        filter_: the weights; None if they are a variable input, which has this shape.
        axes: the axes of the window.
        positions: the number of positions of all images.
        asymmetric: True if images that are quantised always get a zero point.
    """
    kind = kind_of(call)
    whole = call.shape("input")[-1]
    if filter_ is not None:
        filter_ = _with_joined_groups(scope, call, kind, filter_, whole // shape[-1])
        shape = filter_.shape
    elif whole != shape[-1] and shape[-1] % 2 and not kind.is_float:
        raise NotBound("groups of variable weights have an odd number of channels")
    channels, *kernel, depth = shape
    taps, images = math.prod(kernel), call.shape("input")[0]
    groups, own = whole // depth, channels // (whole // depth)
    # Images get a zero point if the weights have different scales.
    scales = set(scales_of(call.operand("filter"), np.float32).tolist()) if kind is Products.HYBRID else ()
    given = source(
        call,
        kind,
        whole,
        row_length=count_of(call, "input") // images,
        repeats=positions // images,
        asymmetric=asymmetric or len(scales) > 1,
    )
    between = depth
    if groups > 1 and depth % 2 and not kind.is_float:
        given, between = _with_even_groups(given, count_of(call, "input") // whole, groups, depth)
    width = width_of(scope, positions, own)
    epilogue = epilogue_of(scope, call, kind, shape, filter_, width, groups=groups)
    calls: list[BoundCall] = []
    weights: BoundConstant | BoundTemporary
    if filter_ is None:
        calls, weights = factors.packed_filter(call, "filter", kind, (groups, own, taps, depth), width)
    pixel = given.padded
    if groups == 1 and _can_join_taps(axes[-1], depth):
        given, axes = _with_joined_taps(scope, call, kind, given, axes)
        if filter_ is not None and pixel != depth:
            filter_ = _with_whole_pixels(call, kind, filter_, pixel)
        taps, depth = math.prod(kernel[:-1]), kernel[-1] * pixel
    if filter_ is not None:
        weights = factors.packed(kind, filter_.reshape(groups, own, taps, depth), call, width)
    panels, terms = -(-own // width), depth if kind.is_float else -(-depth // 2)
    offsets = tuple(
        (group * between, group * panels * taps * terms * width, group * own, group * panels * width, 0)
        for group in range(groups)
    )
    sums = SumsOfProducts(
        kind=kind,
        positions=positions,
        channels=own,
        taps=taps,
        depth=depth,
        given=given,
        weights=weights,
        epilogue=epilogue,
        table=window_table(scope, images, axes, pixel),
        batches=Batches(offsets=offsets, stride=channels),
    )
    return [*calls, *bind_sums(scope, sums, call.index("output"))]


def _with_joined_groups(
    scope: BindingScope, call: Call, kind: Products, filter_: Array, groups: int
) -> Array:
    """Returns weights of fewer groups, which have zeros where groups were apart.

    Channels that share a vector are computed at a time, whatever their groups are. Floats keep
    their groups, since products of zeros with infinite numbers are no zeros.

    Args:
        scope: the scope of the operation.
        call: the operation.
        kind: the kind of the products.
        filter_: the weights as they are stored, (channels, taps along each axis, depth).
        groups: the groups of their channels.
    """
    channels, *kernel, depth = filter_.shape
    own = channels // groups
    most = 1 if kind.is_float else scope.tiles.lanes // own
    joined = max((each for each in range(1, min(groups, most) + 1) if groups % each == 0), default=1)
    if joined == 1:
        return filter_
    zero_point = call.operand("filter").zero_point if kind is Products.INT else 0
    parts = filter_.reshape(groups // joined, joined, own, math.prod(kernel), depth)
    wide = np.full((*parts.shape[:-1], joined, depth), zero_point, filter_.dtype)
    for number in range(joined):
        wide[:, number, :, :, number] = parts[:, number]
    return wide.reshape(channels, *kernel, joined * depth)


def _with_even_groups(given: FirstFactor, pixels: int, groups: int, depth: int) -> tuple[FirstFactor, int]:
    """Returns an input of 16-bit integers whose groups begin at even places, and their distance.

    Args:
        given: the input.
        pixels: the number of its pixels.
        groups: the groups of a pixel.
        depth: the elements of a group, an odd number.
    """
    between = depth + 1
    result = BoundTemporary(size_bytes=2 * pixels * groups * between)
    # What is behind a group is multiplied by 0.
    copy = moving_call(
        StridedMove(
            output=result,
            given=given.argument,
            itemsize=2,
            shape=(pixels, groups, depth),
            output_strides=(groups * between, between, 1),
            strides=(given.padded, depth, 1),
        )
    )
    moved = FirstFactor(calls=(*given.calls, copy), argument=result, padded=groups * between, rows=given.rows)
    return moved, between


def _can_join_taps(axis: WindowAxis, depth: int) -> bool:
    """Returns True if neighbouring taps of a line are joined to one with more terms."""
    return axis.taps > 1 and axis.dilation == 1 and depth <= _FEW_CHANNELS


def _with_joined_taps(
    scope: BindingScope,
    call: Call,
    kind: Products,
    given: FirstFactor,
    axes: tuple[WindowAxis, ...],
) -> tuple[FirstFactor, tuple[WindowAxis, ...]]:
    """Returns the input and the window of a convolution that reads lines of pixels.

    Args:
        scope: the scope of the operation.
        call: the operation.
        kind: the kind of the products.
        given: the input.
        axes: the axes of the window.
    """
    *outer, line = axes
    length = (line.positions - 1) * line.stride + line.taps
    if line.before or length > line.length:
        # Borders are copied, so that all taps of a line exist.
        length = max(length, line.before + line.length)
        lines = call.shape("input")[0] * math.prod(axis.length for axis in outer)
        given = _with_borders(scope, given, lines, line, length, 4 if kind.is_float else 2)
    joined = WindowAxis(max(length, line.length), line.positions, 1, line.stride, 1, 0)
    return given, (*outer, joined)


def _with_whole_pixels(call: Call, kind: Products, filter_: Array, pixel: int) -> Array:
    """Returns weights that are 0 where only pixels of the input have elements."""
    zero_point = call.operand("filter").zero_point if kind is Products.INT else 0
    weights = np.full((*filter_.shape[:-1], pixel), zero_point, filter_.dtype)
    weights[..., : filter_.shape[-1]] = filter_
    return weights


def _with_borders(
    scope: BindingScope, given: FirstFactor, lines: int, line: WindowAxis, length: int, itemsize: int
) -> FirstFactor:
    """Returns an input whose lines of pixels have zeros before and after them.

    Args:
        scope: the scope of the operation.
        given: the input.
        lines: number of lines of all images.
        line: the window along a line.
        length: the length of a line of the result, in pixels.
        itemsize: size of an element.
    """
    pixel, count = given.padded, lines * length * given.padded
    result = BoundTemporary(size_bytes=itemsize * count)
    block = min(count, BLOCK)
    zeros = scope.zeros(np.uint32 if itemsize == np.uint32().itemsize else np.uint16, block)
    fill = moving_call(
        StridedMove(
            output=result,
            given=zeros,
            itemsize=itemsize,
            shape=(-(-count // block), block),
            output_strides=(block, 1),
            strides=(0, 1),
        ),
        count=count,
    )
    run = line.length * pixel
    copy = moving_call(
        StridedMove(
            output=result,
            given=given.argument,
            itemsize=itemsize,
            shape=(lines, run),
            output_strides=(length * pixel, 1),
            strides=(run, 1),
            output_start=line.before * pixel,
        )
    )
    return FirstFactor(
        calls=(*given.calls, fill, copy), argument=result, padded=given.padded, rows=given.rows
    )
