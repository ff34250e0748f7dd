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
        length: of the image.
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

    def indexes(self) -> Array:
        """Returns the image element of each tap of each position; -1 for those outside."""
        found = (
            np.arange(self.positions, dtype=np.int32)[:, None] * np.int32(self.stride)
            + np.arange(self.taps, dtype=np.int32)[None, :] * np.int32(self.dilation)
            - np.int32(self.before)
        )
        found[(found < 0) | (found >= self.length)] = -1
        return found


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
    """Returns the offsets of all taps of all positions; see `neurald.drivers.cpu.first_tier.kernels`.

    Args:
        scope: of the operation.
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
    pixels = np.zeros((1, 1), np.int32)
    for axis in axes:
        indexes = axis.indexes()
        # Positions first, then taps.
        before, after = pixels[:, None, :, None], indexes[None, :, None, :]
        found = before * np.int32(axis.length) + after
        if before.min() < 0 or after.min() < 0:
            found = np.where((before < 0) | (after < 0), np.int32(-1), found)
        pixels = found.reshape(found.shape[0] * found.shape[1], -1)
    flat, size = pixels.reshape(-1), math.prod(axis.length for axis in axes)
    is_outside = flat < 0
    has_outside = bool(is_outside.any())
    for batch, part in enumerate(target.reshape(batches, -1)):
        np.multiply(flat, np.int32(depth), out=part)
        part += np.int32(batch * size * depth)
        if has_outside:
            part[is_outside] = -1


def rows_table(scope: BindingScope, rows: int, depth: int) -> BoundConstant:
    """Returns the table of rows of elements, which have one tap."""
    return window_table(scope, 1, (WindowAxis(rows, rows, 1, 1, 1, 0),), depth)
