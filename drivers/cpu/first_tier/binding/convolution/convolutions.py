"""Binds convolutions of images."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import (
    FirstFactor,
    kind_of,
    padded_depth,
    source,
)
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    Batches,
    SumsOfProducts,
    bind_sums,
    epilogue_of,
    width_of,
    windowed,
)
from neurald.drivers.cpu.first_tier.binding.convolution.windows import WindowAxis, axes_of, window_table
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import PRODUCTS_PER_NS, Bind, BindingScope, count_of
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.layout import is_nchw

#: Number of channels of integers up to which those of a depthwise convolution are the groups of
#: another one.
_FEW_GROUPS: Final = 4


def _expect_nhwc(call: Call) -> None:
    if is_nchw(call):
        raise NotBound("the layout is NCHW")


def bind_convolution(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_2D, also of groups and of quantised rows."""
    _expect_nhwc(call)
    if call.binding.type is OperationType.GROUPED_CONV_2D:
        from neurald.hal.operations.convolution import grouped_convolution

        window, shape = grouped_convolution.geometry(call)
    else:
        from neurald.hal.operations.convolution import convolution

        window, shape = convolution.geometry(call, grouped=call.binding.type is OperationType.TFLITE_CONV_2D)
    axes = axes_of(window, call.shape("input")[1:3])
    filter_ = scope.value(call.index("filter"))
    return windowed(scope, call, call.shape("filter"), filter_, axes, math.prod(shape[:3]))


def bind_transposed_convolution(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds TRANSPOSE_CONV_2D."""
    _expect_nhwc(call)
    from neurald.hal.operations.convolution import transpose_convolution

    window, shape = transpose_convolution.geometry(call)
    before = [padding[0] for padding in window.padding]
    filter_ = scope.value(call.index("filter"))
    return transposed(scope, call, call.shape("filter"), filter_, window.stride, before, shape)


class _Phase(Struct, frozen=True, kw_only=True):
    """A convolution that computes some positions of a transposed convolution's output.

    Attributes:
        taps: those of the filter along each axis, from the last to the first; None without any.
        axes: the window along each axis of the input.
        counts: the number of positions along each axis.
    """

    taps: tuple[range, ...] | None
    axes: tuple[WindowAxis, ...]
    counts: tuple[int, ...]


def transposed(
    scope: BindingScope,
    call: Call,
    filter_shape: Shape,
    filter_: Array | None,
    strides: Sequence[int],
    before: Sequence[int],
    shape: Shape,
) -> list[BoundCall]:
    """Binds a transposed convolution: a convolution for each phase of the output's positions.

    Positions at the same distance from multiples of the strides read the same weights.

    Args:
        scope: the scope of the operation.
        call: the operation.
        filter_shape: the shape of the weights, (channels, taps along each axis, depth).
        filter_: the weights; None if they are a variable input, which has this shape.
        strides, before: steps, and elements that are cut off before the output, of each axis.
        shape: the shape of the output.
    """
    batches, *image, depth = call.shape("input")
    kind, channels = kind_of(call), shape[-1]
    if kind is Products.HYBRID and batches > 1:
        raise NotBound("images are quantised separately")
    # All positions of an image have the scale of its row.
    given = source(
        call,
        kind,
        depth,
        row_length=count_of(call, "input") // batches,
        repeats=math.prod(shape[1:-1]),
        asymmetric=True,
    )
    calls, itemsize = list(given.calls), call.operand("output").type.dtype.itemsize
    given = FirstFactor(calls=(), argument=given.argument, padded=given.padded, rows=given.rows)
    for first in np.ndindex(*strides):
        phase = _phase(filter_shape[1:-1], image, first, strides, before, shape)
        if not math.prod(phase.counts):
            continue
        positions, taps = batches * math.prod(phase.counts), math.prod(axis.taps for axis in phase.axes)
        width = width_of(scope, positions, channels)
        stored = (1, channels, taps, depth)
        constant = _constant_weights(call, phase, filter_shape, filter_)
        weights: BoundConstant | BoundTemporary
        if constant is None:
            moved, moving = _weights_of_phase(call, kind, phase, filter_shape)
            packing, weights = factors.packed_filter(call, "filter", kind, stored, width, moved=moved)
            calls += [moving, *packing]
        else:
            weights = factors.packed(kind, constant.reshape(stored), call, width)
        result = BoundTemporary(size_bytes=itemsize * positions * channels)
        sums = SumsOfProducts(
            kind=kind,
            positions=positions,
            channels=channels,
            taps=taps,
            depth=depth,
            given=given,
            weights=weights,
            epilogue=epilogue_of(scope, call, kind, (channels, taps, depth), constant, width),
            table=window_table(scope, batches, phase.axes, given.padded),
            batches=Batches.single(channels),
        )
        calls += bind_sums(scope, sums, result)
        lengths, steps = (batches, *phase.counts, channels), strides_of(shape)
        calls.append(
            moving_call(
                StridedMove(
                    output=call.index("output"),
                    given=result,
                    itemsize=itemsize,
                    shape=lengths,
                    output_strides=(
                        steps[0],
                        *(step * stride for step, stride in zip(steps[1:-1], strides, strict=True)),
                        1,
                    ),
                    strides=strides_of(lengths),
                    output_start=sum(number * step for number, step in zip(first, steps[1:-1], strict=True)),
                )
            )
        )
    return calls


def _phase(
    kernel: Sequence[int],
    image: Sequence[int],
    first: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    shape: Shape,
) -> _Phase:
    """Returns the convolution whose results are every `strides`-th position of an output.

    Args:
        kernel: the taps along each axis.
        strides, before, shape: see `transposed`.
        image: the lengths of the input's axes.
        first: the first of these positions.
    """
    taken, axes, counts, has_weights = [], [], [], True
    for axis, start in enumerate(first):
        stride, cut = strides[axis], before[axis]
        # An output at o is reached from (o + cut - tap) / stride.
        taps = range((start + cut) % stride, kernel[axis], stride)
        count = len(range(start, shape[1 + axis], stride))
        if taps:
            head = (start + cut - taps[-1]) // stride
        else:
            # One tap, whose places are all before the image, where zeros are read.
            taps, head, has_weights = range(1), -count, False
        taken.append(taps[::-1])
        counts.append(count)
        axes.append(WindowAxis(image[axis], count, len(taps), 1, 1, -head))
    return _Phase(taps=tuple(taken) if has_weights else None, axes=tuple(axes), counts=tuple(counts))


def _constant_weights(call: Call, phase: _Phase, shape: Shape, filter_: Array | None) -> Array | None:
    """Returns the weights of a phase; None if they are not constant.

    Args:
        call: the operation.
        phase: the phase.
        shape, filter_: see `transposed`.
    """
    if phase.taps is None:
        lengths = (shape[0], *(axis.taps for axis in phase.axes), shape[-1])
        return np.zeros(lengths, call.operand("filter").type.dtype if filter_ is None else filter_.dtype)
    if filter_ is None:
        return None
    slices = (slice(taps[-1], taps[0] + 1, -taps.step) for taps in phase.taps)
    return np.flip(filter_[:, *slices], tuple(range(1, filter_.ndim - 1)))


def _weights_of_phase(
    call: Call, kind: Products, phase: _Phase, shape: Shape
) -> tuple[BoundTemporary, BoundCall]:
    """Returns memory for the variable weights of a phase, and the call that writes it.

    Args:
        call: the operation.
        kind: the kind of the products.
        phase: the phase, which has weights.
        shape: the shape of all weights.
    """
    if not kind.is_float or phase.taps is None:
        raise NotBound("the weights are quantised variables")
    lengths, steps = (shape[0], *map(len, phase.taps), shape[-1]), strides_of(shape)
    moved = BoundTemporary(size_bytes=4 * math.prod(lengths))
    pairs = list(zip(phase.taps, steps[1:-1], strict=True))
    move = StridedMove(
        output=moved,
        given=call.index("filter"),
        itemsize=4,
        shape=lengths,
        output_strides=strides_of(lengths),
        strides=(steps[0], *(taps.step * step for taps, step in pairs), 1),
        start=sum(taps[0] * step for taps, step in pairs),
    )
    return moved, moving_call(move)


def bind_depthwise(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds DEPTHWISE_CONV_2D; inputs with several outputs are repeated before.

    Few channels with several outputs each are the groups of a convolution.
    """
    _expect_nhwc(call)
    from neurald.hal.operations.convolution import depthwise_convolution

    window, shape = depthwise_convolution.geometry(call)
    filter_, weights_shape = scope.value(call.index("filter")), call.shape("filter")
    channels, taps = weights_shape[3], math.prod(weights_shape[1:3])
    few = 1 if kind_of(call).is_float else _FEW_GROUPS
    if filter_ is not None and channels > call.shape("input")[3] <= few:
        axes = axes_of(window, call.shape("input")[1:3])
        moved = np.ascontiguousarray(np.moveaxis(filter_, 3, 0)).reshape(-1, *weights_shape[1:3], 1)
        return windowed(scope, call, moved.shape, moved, axes, math.prod(shape[:3]), asymmetric=True)
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
                StridedMove(
                    output=argument,
                    given=given.argument,
                    itemsize=itemsize,
                    shape=lengths,
                    output_strides=(pixel, times, 1),
                    strides=(given.padded, 1, 0),
                )
            )
        )
    epilogue = epilogue_of(scope, call, kind, weights_shape, filter_, lanes, is_first_axis=False)
    weights: BoundConstant | BoundTemporary
    if filter_ is None:
        packing, weights = _depthwise_variables(call, kind, (taps, channels), padded)
        calls.append(packing)
    else:
        constant = filter_

        def fill(target: Array) -> None:
            target[:, :channels] = factors.centred(call, kind, constant).reshape(taps, channels)

        dtype = np.dtype(np.float32 if kind.is_float else np.int32)
        weights = BoundConstant(dtype=dtype, shape=(taps, padded), fill=fill)
    calls.append(
        BoundCall(
            function=f"first_depthwise_{kind.value}",
            arguments=(
                call.index("output"),
                argument,
                weights,
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


def _depthwise_variables(
    call: Call, kind: Products, shape: tuple[int, int], padded: int
) -> tuple[BoundCall, BoundTemporary]:
    """Returns the call that copies variable weights to memory with whole vectors, and this memory.

    Args:
        call: the operation.
        kind: the kind of the products.
        shape: taps and channels.
        padded: channels in the memory.
    """
    if not kind.is_float:
        raise NotBound("the weights are quantised variables")
    taps, channels = shape
    weights = BoundTemporary(size_bytes=4 * taps * padded)
    move = StridedMove(
        output=weights,
        given=call.index("filter"),
        itemsize=4,
        shape=(taps, channels),
        output_strides=(padded, 1),
        strides=(channels, 1),
    )
    return moving_call(move), weights


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.CONV_2D: bind_convolution,
    OperationType.TFLITE_CONV_2D: bind_convolution,
    OperationType.GROUPED_CONV_2D: bind_convolution,
    OperationType.TRANSPOSE_CONV_2D: bind_transposed_convolution,
    OperationType.TFLITE_TRANSPOSE_CONV: bind_transposed_convolution,
    OperationType.DEPTHWISE_CONV_2D: bind_depthwise,
    OperationType.TFLITE_DEPTHWISE_CONV_2D: bind_depthwise,
}
