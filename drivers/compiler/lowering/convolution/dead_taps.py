"""Drops the rows and columns of a window that are outside of the image wherever the window is.

Windows of large dilation have them on small images, such as those of atrous pyramids.
"""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import sliced
from neurald.hal.operations.convolution.windowing import Pair, Window, shows_padding
from neurald.hal.records import replace


def without_dead_taps(
    builder: Builder, window: Window, weights: Value, image: Pair, first_dimension: int
) -> tuple[Window, Value]:
    """Returns the window and its weights without rows and columns that multiply padding only.

    Args:
        builder: the builder of the operation.
        window: the window.
        weights: its weights, of which the result has a part.
        image: height and width of the image.
        first_dimension: the dimension of the weights along the height; that of the width follows.
    """
    if has_extents((*image, *window.output)):
        return window, weights
    if weights.constant is not None and shows_padding(weights.constant):
        return window, weights
    ranges = [_live_taps(window, axis, image[axis]) for axis in (0, 1)]
    kernel = tuple(len(each) for each in ranges)
    if kernel == window.kernel:
        return window, weights
    parts = [slice(None)] * len(weights.shape)
    padding = []
    for axis, live in enumerate(ranges):
        parts[first_dimension + axis] = slice(live.start, live.stop)
        dilation, (head, tail) = window.dilation[axis], window.padding[axis]
        dropped = window.kernel[axis] - live.stop
        padding.append((head - live.start * dilation, tail - dropped * dilation))
    if weights.constant is not None:
        kept = builder.constant(weights.constant[tuple(parts)], weights.name)
    else:
        shape = list(weights.shape)
        shape[first_dimension : first_dimension + 2] = kernel
        kept = sliced(builder, weights, parts, tuple(shape))
    return replace(window, kernel=kernel, padding=tuple(padding)), kept


def _live_taps(window: Window, axis: int, length: int) -> range:
    """Returns the taps along an axis from the first to the last that is anywhere on the image.

    There are more if padding would become negative without them, and all if no tap is.
    """
    count, dilation, (head, tail) = window.kernel[axis], window.dilation[axis], window.padding[axis]
    positions = window.output[axis]
    live = [
        tap
        for tap in range(count)
        if (placed := window.overlap(axis, tap, length, 0, positions)[0]).stop > placed.start
    ]
    if not live:
        return range(count)
    return range(min(live[0], head // dilation), max(live[-1] + 1, count - tail // dilation))
