"""Binds convolutions, fully connected layers, and products of pairs of matrices."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding import factors, requantization
from neurald.drivers.cpu.first_tier.binding.factors import FirstFactor, kind_of, padded_depth, source
from neurald.drivers.cpu.first_tier.binding.movement import moving_call
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import (
    PRODUCTS_PER_NS,
    UNLIMITED,
    BindingScope,
    count_of,
    limits,
    output_shape,
)
from neurald.drivers.cpu.first_tier.binding.windows import WindowAxis, axes_of, rows_table, window_table
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BATCH_WORDS, SCALES
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.fixed_point import Rounding
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution import (
    convolution,
    depthwise_convolution,
    grouped_convolution,
    transpose_convolution,
)
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.tflite.convolution import convolution_3d, fully_connected, hybrid
from neurald.hal.operations.tflite.convolution.convolution import has_zero_points

_MAX_INT32: Final = (1 << 31) - 1
#: The largest magnitude of an 8-bit weight or value without its zero point, and of usual biases.
_MAX_WEIGHT: Final = 255
_MAX_BIAS: Final = 1 << 29
#: Maximum number of batches, which have offsets in a table.
_MAX_BATCHES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epilogue:
    """The constants and words of an epilogue.

    Attributes:
        before: constants before the scales of rows.
        after: the constants that follow.
    """

    constants: tuple[BoundConstant, ...]
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batches:
    """Products with the same table.

    Attributes:
        offsets: `BATCH_WORDS` of each.
        stride: elements between rows of the output.
    """

    offsets: tuple[tuple[int, ...], ...]
    stride: int

    @classmethod
    def single(cls, channels: int) -> "_Batches":
        """Returns one product."""
        return cls(offsets=((0,) * BATCH_WORDS,), stride=channels)


def _is_panel(scope: BindingScope, positions: int) -> bool:
    """Returns True if positions are too few for tiles."""
    return positions < scope.tiles.rows // 2


def _width(scope: BindingScope, positions: int) -> int:
    """Returns the channels of a panel."""
    return scope.tiles.panel_width if _is_panel(scope, positions) else scope.tiles.width


def _products(
    scope: BindingScope,
    kind: Products,
    sizes: tuple[int, int, int, int],
    given: FirstFactor,
    weights: BoundConstant | BoundTemporary,
    epilogue: _Epilogue,
    table: BoundConstant,
    batches: _Batches,
    output: int | BoundTemporary,
) -> list[BoundCall]:
    """Binds sums of products.

    Args:
        scope: of the operation.
        kind: of the products.
        sizes: positions, channels, taps, and elements of a pixel that are summed; of a batch.
        given: the input.
        weights: in panels.
        epilogue: what becomes of the sums.
        table: see `neurald.drivers.cpu.first_tier.kernels`.
        batches: the products.
        output: of the call.
    """
    positions, channels, taps, depth = sizes
    is_panel, width = _is_panel(scope, positions), _width(scope, positions)
    terms = depth if kind.is_float else -(-depth // 2)
    panels, tiles = -(-channels // width), -(-positions // scope.tiles.rows)
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
            function=f"first_{'panels' if is_panel else 'tiles'}_{kind.value}",
            arguments=(
                output,
                given.argument,
                weights,
                *epilogue.constants,
                *rows,
                table,
                scope.zeros(np.uint32, terms),
                offsets,
            ),
            words=(positions, channels, taps, terms, panels, tiles, batches.stride, *epilogue.words),
            work_items=count * (panels if is_panel else tiles),
            cost_ns=count * positions * channels * taps * depth / PRODUCTS_PER_NS,
        ),
    ]


def _epilogue(
    scope: BindingScope,
    call: Call,
    kind: Products,
    weights: Array,
    width: int,
    *,
    groups: int = 1,
    is_first_axis: bool = True,
) -> _Epilogue:
    """Returns the parameters of the epilogue of constant weights.

    Args:
        scope: of the operation.
        call: the operation.
        kind: of the products.
        weights: as they are stored; the first or the last axis has the channels.
        width: a multiple of it is the number of channels that have parameters, of each group.
        groups: of channels.
        is_first_axis: True if the first axis of the weights has the channels.
    """
    channels = weights.shape[0 if is_first_axis else -1]
    own = channels // groups
    padded = -(-own // width) * width

    def spread(values: Array, kind: type[np.generic]) -> Array:
        result = np.zeros((groups, padded), kind)
        result[:, :own] = np.broadcast_to(values, (channels,)).reshape(groups, own)
        return result.reshape(-1)

    bias = scope.constant(call, "bias") if call.has("bias") else np.zeros(1, np.int32)
    if kind is Products.FLOAT:
        return _Epilogue(
            constants=(BoundConstant.of(spread(bias, np.float32)),), words=(*limits(call), groups * padded)
        )
    if kind is Products.HYBRID:
        scales = spread(hybrid.weight_scales(call.operand("filter")), np.float32)
        both = np.stack((spread(bias, np.float32), scales))
        _expect_exact(call, kind, weights, np.zeros(1), is_first_axis=is_first_axis)
        return _Epilogue(constants=(BoundConstant.of(both),), words=(*limits(call), groups * padded))
    _expect_exact(call, kind, weights, bias, is_first_axis=is_first_axis)
    output, filter_ = call.operand("output"), call.operand("filter")
    scales = (filter_.scale,) if filter_.channel_quant is None else filter_.channel_quant.scales
    multipliers = np.array(scales, np.float64) * call.operand("input").scale / output.scale
    mantissas, parameters = requantization.requantization(multipliers, is_twice=_is_twice(call))
    both = np.stack((spread(bias, np.int32), spread(mantissas, np.int32)))
    return _Epilogue(
        constants=(
            BoundConstant.of(both),
            BoundConstant.of(np.stack([spread(each, np.int64) for each in parameters])),
        ),
        words=(output.zero_point, *quantized_limits(output, call.activation), groups * padded),
    )


def _is_twice(call: Call) -> bool:
    """Returns True if sums are rounded twice."""
    if call.binding.type is not OperationType.TFLITE_FULLY_CONNECTED:
        return True
    return fully_connected.rounding(call) is Rounding.TWICE


def _expect_exact(
    call: Call, kind: Products, weights: Array, bias: Array, *, is_first_axis: bool = True
) -> None:
    """Raises NotBound if sums of products may exceed 32 bits."""
    largest = _MAX_WEIGHT if kind is Products.HYBRID else depthwise_convolution.largest(call)
    channels = weights.shape[0 if is_first_axis else -1]
    least, most = int(bias.min(initial=0)), int(bias.max(initial=0))
    bound = largest * _MAX_WEIGHT * (weights.size // channels) + _MAX_BIAS
    if max(most, -least) <= _MAX_BIAS and bound <= _MAX_INT32:
        return
    wide = np.abs(factors.centred(call, kind, weights))
    wide = wide.reshape(channels, -1) if is_first_axis else wide.reshape(-1, channels).T
    if (largest * wide.sum(axis=1, dtype=np.int64) + np.abs(bias.astype(np.int64)) > _MAX_INT32).any():
        raise NotBound("sums may exceed 32 bits")


def _expect_nhwc(call: Call) -> None:
    if is_nchw(call):
        raise NotBound("the layout is NCHW")


def bind_convolution(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_2D, also of groups and of quantised rows."""
    _expect_nhwc(call)
    if call.binding.type is OperationType.GROUPED_CONV_2D:
        window, shape = grouped_convolution.geometry(call)
    else:
        window, shape = convolution.geometry(call, grouped=call.binding.type is OperationType.TFLITE_CONV_2D)
    axes = axes_of(window, call.shape("input")[1:3])
    return _windowed(scope, call, scope.constant(call, "filter"), axes, math.prod(shape[:3]))


def bind_convolution_3d(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_3D."""
    image = call.shape("input")[1:4]
    filter_ = scope.constant(call, "filter")
    positions, heads = convolution_3d.window_positions(call, image, filter_.shape[:3])
    strides, dilations = convolution_3d.steps(call, "stride"), convolution_3d.steps(call, "dilation")
    axes = tuple(
        WindowAxis(*each)
        for each in zip(image, positions, filter_.shape[:3], strides, dilations, heads, strict=True)
    )
    weights = np.moveaxis(filter_, 4, 0)
    return _windowed(scope, call, weights, axes, call.shape("input")[0] * math.prod(positions))


def _windowed(
    scope: BindingScope, call: Call, filter_: Array, axes: tuple[WindowAxis, ...], positions: int
) -> list[BoundCall]:
    """Binds a convolution with weights of shape (channels, taps, depth), along any number of axes."""
    kind = kind_of(call)
    channels, *kernel, depth = filter_.shape
    taps, images = math.prod(kernel), call.shape("input")[0]
    whole = call.shape("input")[-1]
    groups, own = whole // depth, channels // (whole // depth)
    if groups > 1 and (depth % 2 and not kind.is_float):
        raise NotBound("groups have an odd number of channels")
    given = source(
        call,
        kind,
        whole,
        row_length=count_of(call, "input") // images,
        repeats=positions // images,
        asymmetric=kind is Products.HYBRID and has_zero_points(call),
    )
    width = _width(scope, positions)
    panels, terms = -(-own // width), depth if kind.is_float else -(-depth // 2)
    weights = filter_.reshape(groups, own, taps, depth)
    offsets = tuple(
        (group * depth, group * panels * taps * terms * width, group * own, group * panels * width, 0)
        for group in range(groups)
    )
    return _products(
        scope,
        kind,
        (positions, own, taps, depth),
        given,
        factors.packed(kind, weights, call, width),
        _epilogue(scope, call, kind, filter_, width, groups=groups),
        window_table(scope, images, axes, given.padded),
        _Batches(offsets=offsets, stride=channels),
        call.index("output"),
    )


def bind_transposed_convolution(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds TRANSPOSE_CONV_2D: a convolution for each phase of the output's positions.

    Positions at the same distance from multiples of the strides read the same weights.
    """
    _expect_nhwc(call)
    window, shape = transpose_convolution.geometry(call)
    batches, *image, depth = call.shape("input")
    kind, filter_ = kind_of(call), scope.constant(call, "filter")
    if kind is Products.HYBRID and batches > 1:
        raise NotBound("images are quantised separately")
    # All positions of an image have the scale of its row.
    given = source(
        call,
        kind,
        depth,
        row_length=count_of(call, "input") // batches,
        repeats=math.prod(shape[1:3]),
        asymmetric=True,
    )
    calls, output = list(given.calls), call.index("output")
    given = FirstFactor(calls=(), argument=given.argument, padded=given.padded, rows=given.rows)
    itemsize, channels = call.operand("output").type.dtype.itemsize, shape[3]
    strides = strides_of(shape)
    for phase in np.ndindex(*window.stride):
        taken, axes, counts = [], [], []
        for axis, first in enumerate(phase):
            stride, before = window.stride[axis], window.padding[axis][0]
            # An output at o is reached from (o + before - tap) / stride.
            taps = range((first + before) % stride, window.kernel[axis], stride)
            count = len(range(first, shape[1 + axis], stride))
            head = (first + before - (taps[-1] if taps else 0)) // stride
            taken.append(taps)
            counts.append(count)
            axes.append(WindowAxis(image[axis], count, len(taps), 1, 1, -head))
        if not math.prod(counts):
            continue
        if not all(taken):
            raise NotBound("some outputs have no weights")
        part = filter_[:, taken[0].start :: taken[0].step, taken[1].start :: taken[1].step][:, ::-1, ::-1]
        positions = batches * math.prod(counts)
        width = _width(scope, positions)
        taps_here = math.prod(map(len, taken))
        result = BoundTemporary(size_bytes=itemsize * positions * channels)
        calls += _products(
            scope,
            kind,
            (positions, channels, taps_here, depth),
            given,
            factors.packed(kind, part.reshape(1, channels, taps_here, depth), call, width),
            _epilogue(scope, call, kind, part, width),
            window_table(scope, batches, tuple(axes), given.padded),
            _Batches.single(channels),
            result,
        )
        lengths = (batches, *counts, channels)
        calls.append(
            moving_call(
                output,
                result,
                itemsize,
                lengths,
                (strides[0], strides[1] * window.stride[0], strides[2] * window.stride[1], 1),
                strides_of(lengths),
                phase[0] * strides[1] + phase[1] * strides[2],
                0,
            )
        )
    return calls


def bind_depthwise(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DEPTHWISE_CONV_2D; inputs with several outputs are repeated before."""
    _expect_nhwc(call)
    window, shape = depthwise_convolution.geometry(call)
    filter_ = scope.constant(call, "filter")
    channels, taps = filter_.shape[3], math.prod(filter_.shape[1:3])
    kind, lanes = kind_of(call), scope.tiles.lanes
    images, height, width, depth = call.shape("input")
    padded, positions = -(-channels // lanes) * lanes, math.prod(shape[:3])
    given = source(
        call,
        kind,
        depth,
        row_length=count_of(call, "input") // images,
        repeats=positions // images,
        asymmetric=True,
    )
    calls, argument, pixel = list(given.calls), given.argument, given.padded
    if channels != depth:
        itemsize, times = 4 if kind.is_float else 2, channels // depth
        pixel = padded_depth(kind, channels)
        lengths = (images * height * width, depth, times)
        argument = BoundTemporary(size_bytes=itemsize * lengths[0] * pixel)
        calls.append(
            moving_call(
                argument, given.argument, itemsize, lengths, (pixel, times, 1), (given.padded, 1, 0), 0, 0
            )
        )
    epilogue = _epilogue(scope, call, kind, filter_, lanes, is_first_axis=False)

    def fill(target: Array) -> None:
        target[:, :channels] = factors.centred(call, kind, filter_).reshape(taps, channels)

    dtype = np.dtype(np.float32 if kind.is_float else np.int32)
    calls.append(
        BoundCall(
            function=f"first_depthwise_{kind.value}",
            arguments=(
                call.index("output"),
                argument,
                BoundConstant(dtype=dtype, shape=(taps, padded), fill=fill),
                *epilogue.constants,
                *(() if given.rows is None else (given.rows,)),
                window_table(scope, images, axes_of(window, (height, width)), pixel),
                scope.zeros(np.uint32, channels),
            ),
            words=(positions, channels, taps, padded, *epilogue.words),
            work_items=positions,
            cost_ns=positions * channels * taps / PRODUCTS_PER_NS * 4,
        )
    )
    return calls


def _is_asymmetric(call: Call) -> bool:
    """Returns True if quantised rows have zero points."""
    return "asymmetric" in call.binding.inputs and bool(call.scalar("asymmetric"))


def bind_fully_connected(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds FULLY_CONNECTED."""
    channels, depth = call.shape("filter")
    rows, kind = count_of(call, "input") // depth, kind_of(call)
    width = _width(scope, rows)
    given = source(call, kind, depth, row_length=depth, asymmetric=_is_asymmetric(call))
    table, output = rows_table(scope, rows, given.padded), call.index("output")
    filter_ = scope.value(call.index("filter"))
    batches, sizes = _Batches.single(channels), (rows, channels, 1, depth)
    if filter_ is None:
        if not kind.is_float:
            raise NotBound("the weights are quantised variables")
        calls, matrix = factors.packed_matrix(
            call, "filter", kind, (1, depth, channels), width, are_rows_terms=False
        )
        padded = -(-channels // width) * width
        added = np.zeros(padded, np.float32)
        if call.has("bias"):
            added[:channels] = scope.constant(call, "bias")
        epilogue = _Epilogue(constants=(BoundConstant.of(added),), words=(*limits(call), padded))
        return [*calls, *_products(scope, kind, sizes, given, matrix, epilogue, table, batches, output)]
    if call.has("block_scales"):
        return _in_blocks(scope, call, filter_, given, rows)
    weights = factors.packed(kind, filter_.reshape(1, channels, 1, depth), call, width)
    epilogue = _epilogue(scope, call, kind, filter_, width)
    return _products(scope, kind, sizes, given, weights, epilogue, table, batches, output)


def _in_blocks(
    scope: BindingScope, call: Call, filter_: Array, given: FirstFactor, rows: int
) -> list[BoundCall]:
    """Binds FULLY_CONNECTED whose weights have a scale for each block of a row, which is a tap."""
    scales = scope.constant(call, "block_scales")
    (channels, blocks), depth = scales.shape, filter_.shape[1]
    length, kind = depth // blocks, Products.BLOCKS
    if length % 2 or given.rows is None:
        raise NotBound("blocks have an odd number of weights")
    width = _width(scope, rows)
    padded = -(-channels // width) * width
    added, each = np.zeros(padded, np.float32), np.zeros((blocks, padded), np.float32)
    each[:, :channels] = scales.T
    if call.has("bias"):
        added[:channels] = scope.constant(call, "bias")
    epilogue = _Epilogue(
        constants=(BoundConstant.of(added), BoundConstant.of(each)), words=(*limits(call), padded)
    )
    axes = WindowAxis(rows * blocks, rows, blocks, blocks, 1, 0)
    return _products(
        scope,
        kind,
        (rows, channels, blocks, length),
        given,
        factors.packed(kind, filter_.reshape(1, channels, blocks, length), call, width),
        epilogue,
        window_table(scope, 1, (axes,), length),
        _Batches.single(channels),
        call.index("output"),
    )


def bind_matrix_product(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BATCH_MATMUL, whose second matrix may be quantised."""
    kind = kind_of(call, "input1", "input2")
    first, second, shape = call.shape("input1"), call.shape("input2"), output_shape(call)
    *outer, rows, channels = shape
    depth = first[-2] if call.scalar("adjoint1") else first[-1]
    count, counts = math.prod(outer), [math.prod(each[:-2]) for each in (first, second)]
    if not count or not rows or not channels or not depth:
        raise NotBound("there are no elements")
    width = _width(scope, rows)
    calls: list[BoundCall] = []
    moved = None
    if call.scalar("adjoint1"):
        itemsize = call.operand("input1").type.dtype.itemsize
        moved, lengths = BoundTemporary(size_bytes=itemsize * math.prod(first)), (counts[0], rows, depth)
        calls.append(
            moving_call(
                moved, call.index("input1"), itemsize, lengths, strides_of(lengths), (rows * depth, 1, rows)
            )
        )
    given = source(
        call,
        kind,
        depth,
        name="input1",
        row_length=depth,
        asymmetric=_is_asymmetric(call),
        moved=moved,
    )
    packing, matrix = factors.packed_matrix(
        call,
        "input2",
        kind,
        (counts[1], depth, channels),
        width,
        are_rows_terms=not call.scalar("adjoint2"),
    )
    calls += packing
    panels, terms = -(-channels // width), depth if kind.is_float else -(-depth // 2)
    numbers = [
        np.broadcast_to(np.arange(each).reshape(matrices[:-2]), outer).reshape(-1).tolist()
        for each, matrices in zip(counts, (first, second), strict=True)
    ]
    offsets = tuple(
        (
            one * rows * given.padded,
            other * panels * terms * width,
            number * rows * channels,
            0,
            one * rows,
        )
        for number, (one, other) in enumerate(zip(*numbers, strict=True))
    )
    return [
        *calls,
        *_products(
            scope,
            kind,
            (rows, channels, 1, depth),
            given,
            matrix,
            _epilogue_of_matrices(call, kind, depth, panels * width),
            rows_table(scope, rows, given.padded),
            _Batches(offsets=offsets, stride=channels),
            call.index("output"),
        ),
    ]


def _epilogue_of_matrices(call: Call, kind: Products, depth: int, padded: int) -> _Epilogue:
    """Returns the parameters of the epilogue of two matrices."""
    zeros = np.zeros(padded, np.float32)
    if kind is Products.FLOAT:
        return _Epilogue(constants=(BoundConstant.of(zeros),), words=(*UNLIMITED, padded))
    if depth * _MAX_WEIGHT * _MAX_WEIGHT > _MAX_INT32:
        raise NotBound("sums may exceed 32 bits")
    first, second, output = (call.operand(name) for name in ("input1", "input2", "output"))
    if kind is Products.HYBRID:
        scales = zeros.copy()
        scales[: output_shape(call)[-1]] = hybrid.weight_scales(second)
        both = np.stack((zeros, scales))
        return _Epilogue(constants=(BoundConstant.of(both),), words=(*UNLIMITED, padded))
    multiplier = first.scale * second.scale / output.scale
    (mantissa,), parameters = requantization.requantization(np.array([multiplier]))
    both = np.zeros((2, padded), np.int32)
    both[1] = mantissa
    scales = np.zeros((SCALES, padded), np.int64)
    scales[:] = parameters
    return _Epilogue(
        constants=(BoundConstant.of(both), BoundConstant.of(scales)),
        words=(output.zero_point, *quantized_limits(output), padded),
    )
