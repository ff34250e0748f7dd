"""Tables of the taps of windows."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.scope import BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundConstant, NotBound
from neurald.hal.operations.convolution.windowing import Window
from neurald.hal.operations.machinery.call import Array

#: Maximum number of entries of a table, which is a part of the model's constants.
_MAX_TABLE: Final = 1 << 22
_MAX_INT32: Final = (1 << 31) - 1


class WindowAxis(Struct, frozen=True):
    """A window along one axis.

    Attributes:
        length: the length of the image.
        positions: their number.
        taps: their number.
        stride: image elements from one position to the next.
        dilation: image elements from one tap to the next.
        before: elements before the image that the first position covers.
    """

    length: int
    positions: int
    taps: int
    stride: int
    dilation: int
    before: int

    def places(self) -> Array:
        """Returns the image element of each tap of each position, also of those outside."""
        begins = np.arange(self.positions, dtype=np.int32)[:, None] * np.int32(self.stride)
        taps = np.arange(self.taps, dtype=np.int32)[None, :] * np.int32(self.dilation)
        return begins + taps - np.int32(self.before)

    def positions_inside(self, tap: int) -> tuple[int, int]:
        """Returns the first position whose tap is inside the image, and the first after these."""
        shift = tap * self.dilation - self.before
        first, end = -(shift // self.stride), -((shift - self.length) // self.stride)
        first = min(max(first, 0), self.positions)
        return first, min(max(end, first), self.positions)

    def is_inside(self) -> Array:
        """Returns which taps of each position are inside the image."""
        places = self.places()
        return (places >= 0) & (places < self.length)


def axes_of(window: Window, image: Sequence[int]) -> tuple[WindowAxis, ...]:
    """Returns the axes of a window on an image of (height, width)."""
    return tuple(
        WindowAxis(
            image[axis],
            window.output[axis],
            window.kernel[axis],
            window.stride[axis],
            window.dilation[axis],
            window.padding[axis][0],
        )
        for axis in (0, 1)
    )


def window_table(
    scope: BindingScope, batches: int, axes: tuple[WindowAxis, ...], depth: int
) -> BoundConstant:
    """Returns the offsets of all positions' taps; see `neurald.drivers.cpu.first_tier.kernels`.

    Args:
        scope: the scope of the operation.
        batches: number of images.
        axes: the window along all axes of an image.
        depth: elements of a pixel.

    Raises:
        NotBound: there are too many.
    """
    entries = batches * math.prod(axis.positions * axis.taps for axis in axes)
    if entries > _MAX_TABLE or batches * math.prod(axis.length for axis in axes) * depth > _MAX_INT32:
        raise NotBound("the table of the window is too large")

    def make() -> BoundConstant:
        # Computed where it is kept.
        return BoundConstant(
            dtype=np.dtype(np.int32),
            shape=(entries,),
            fill=lambda target: _fill(target, batches, axes, depth),
        )

    return scope.shared(("window", batches, axes, depth), make)


def _fill(target: Array, batches: int, axes: tuple[WindowAxis, ...], depth: int) -> None:
    """Writes the offsets of all taps: positions first, then taps.

    Positions along the first axis differ by a number, so that one sum of two axes is most of it.
    Taps outside of the image may have any offset before they are replaced.
    """
    # Elements from one image element to the next along each axis, and from one image to the next.
    steps = [depth]
    for axis in reversed(axes):
        steps.insert(0, steps[0] * axis.length)
    image, first_step, *_ = steps
    first = axes[0]
    taps = np.arange(first.taps) * (first.dilation * first_step) - first.before * first_step
    places = np.zeros(1, np.int64)
    for axis, step in zip(axes[1:], steps[2:], strict=True):
        places = np.add.outer(places, np.arange(axis.positions) * (axis.stride * step))
        taps = np.add.outer(taps, np.arange(axis.taps) * (axis.dilation * step) - axis.before * step)
    line = np.add.outer(places.reshape(-1), taps.reshape(-1)).astype(np.int32)
    begins = np.add.outer(
        np.arange(batches) * image, np.arange(first.positions) * (first.stride * first_step)
    )
    lines = target.reshape(begins.size, line.size)
    np.add.outer(begins.astype(np.int32).reshape(-1), line.reshape(-1), out=lines)
    count = len(axes)
    whole: Array | None = None
    for number, axis in enumerate(axes, 1):
        for tap in range(axis.taps):
            begin, end = axis.positions_inside(tap)
            if not begin and end == axis.positions:
                continue
            if whole is None:
                lengths = [axis.positions for axis in axes] + [axis.taps for axis in axes]
                whole = target.reshape(batches, *lengths)
            of_tap = whole[(slice(None),) * (count + number) + (tap,)]
            outer = (slice(None),) * number
            if begin:
                of_tap[(*outer, slice(begin))] = -1
            if end < axis.positions:
                of_tap[(*outer, slice(end, None))] = -1


def rows_table(scope: BindingScope, rows: int, depth: int) -> BoundConstant:
    """Returns the table of rows of elements, which have one tap."""
    return window_table(scope, 1, (WindowAxis(rows, rows, 1, 1, 1, 0),), depth)
