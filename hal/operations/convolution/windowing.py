"""Placement of windows on images: padding, strides and dilation of convolutions and poolings.

All pairs are (height, width).
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.types import FeatureLevel, PaddingScheme
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.signature import scalar

Pair = tuple[int, int]
EXPLICIT_PADDING = (
    scalar("padding_left"),
    scalar("padding_right"),
    scalar("padding_top"),
    scalar("padding_bottom"),
)
IMPLICIT_PADDING = (scalar("padding_scheme"),)
STRIDES = (scalar("stride_width"), scalar("stride_height"))
DILATIONS = (
    scalar("dilation_width", default=1, level=FeatureLevel.LEVEL_3),
    scalar("dilation_height", default=1, level=FeatureLevel.LEVEL_3),
)
_AXES = ("height", "width")
_SIDES = (("padding_top", "padding_bottom"), ("padding_left", "padding_right"))


class Window(Struct, frozen=True, kw_only=True):
    """A window and its positions on an image.

    Attributes:
        kernel: size of the window without the gaps of dilation.
        padding: elements outside of the image, ((top, bottom), (left, right)).
        output: number of positions.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: tuple[Pair, Pair]
    output: Pair

    @property
    def is_pointwise(self) -> bool:
        """True if each output position covers one element of the image, and none outside."""
        return self.kernel == (1, 1) and self.padding == ((0, 0), (0, 0))

    def overlap(self, axis: int, tap: int, length: int, start: int, stop: int) -> tuple[slice, slice]:
        """Returns the positions where a window element is inside the image, and those elements.

        Args:
            axis: 0 for height, 1 for width.
            tap: index of the element in the window along that axis.
            length: the length of the image along that axis.
            start, stop: the range of output positions to examine.

        Returns:
            The positions, relative to `start`, and the image elements: slices of equal length,
            possibly empty.
        """
        stride = self.stride[axis]
        offset = tap * self.dilation[axis] - self.padding[axis][0]
        first = max(start, -(offset // stride))
        last = max(first, min(stop, (length - 1 - offset) // stride + 1))
        if first == last:
            return slice(0, 0), slice(0, 0)
        begin = first * stride + offset
        return slice(first - start, last - start), slice(
            begin, begin + (last - first - 1) * stride + 1, stride
        )


def sliding_window(call: Call, input_hw: Pair, kernel_hw: Pair) -> Window:
    """Builds the window of an operation from its padding, strides and dilations.

    Raises:
        BadData: a number is out of range, or the window does not fit on an image with explicit
            padding. With implicit padding, it then has no positions.
        UnknownValue: a parameter is not known.
    """
    scheme = call.padding_scheme if "padding_scheme" in call.binding.inputs else None
    axes = [_axis(call, scheme, axis, input_hw[axis], kernel_hw[axis]) for axis in (0, 1)]
    stride, dilation, padding, output = zip(*axes, strict=True)
    return Window(kernel=kernel_hw, stride=stride, dilation=dilation, padding=padding, output=output)


def _axis(
    call: Call, scheme: PaddingScheme | None, axis: int, size: int, kernel: int
) -> tuple[int, int, Pair, int]:
    """Returns stride, dilation, padding and number of output positions along one axis.

    Args:
        call: the operation.
        scheme: its implicit padding; None if its padding is explicit.
        axis: 0 for height, 1 for width.
        size, kernel: the lengths of image and window.
    """
    name, along, is_implicit = call.binding.type.name, _AXES[axis], scheme is not None
    for what, length, least in (("image", size, 0 if is_implicit else 1), ("window", kernel, 1)):
        if length < least:
            raise BadData(f"{name}: the {along} of the {what} is {length}; it must be at least 1")
    stride = call.scalar_in(f"stride_{along}", 1)
    dilated = f"dilation_{along}" in call.binding.inputs
    dilation = call.scalar_in(f"dilation_{along}", 1) if dilated else 1
    extent = (kernel - 1) * dilation + 1
    if scheme is not None:
        head, tail = _implicit_padding(scheme, size, extent, stride)
        is_same = scheme is PaddingScheme.SAME
    else:
        # A window must not lie completely outside of the image.
        head, tail = (call.scalar_in(side, 0, extent - 1) for side in _SIDES[axis])
        is_same = False
    output = -(-size // stride) if is_same else (size + head + tail - extent) // stride + 1
    if output < 1:
        if not is_implicit:
            raise BadData(
                f"{name}: a window of {along} {extent} does not fit on an image of {along} {size} "
                f"with padding {head} and {tail}"
            )
        output = 0
    return stride, dilation, (head, tail), output


def _implicit_padding(scheme: PaddingScheme, size: int, extent: int, stride: int) -> Pair:
    """Returns the padding at both ends: 0 for VALID, for ceil(size / stride) positions for SAME.

    If the total is odd, the end gets one element more.
    """
    if scheme is PaddingScheme.VALID or extent == 1:
        return 0, 0
    # The excess of (ceil(size / stride) - 1) * stride + extent over the size, which a compiler may
    # not know.
    total = extent - stride + (-size) % stride
    if extent < stride:
        total = max(0, int(total))
    return total // 2, total - total // 2


def shows_padding(filter_: Array) -> bool:
    """Returns True if weights give results other than 0 for the zeros outside of an image."""
    return filter_.dtype.kind == "f" and not np.isfinite(filter_).all()


def blocks(positions: Shape, limit: int) -> Iterator[tuple[slice, slice, slice]]:
    """Splits positions (images, height, width) into blocks.

    Yields:
        The ranges of each block, of at most `limit` positions: a part of a row, rows of an image,
        or whole images.
    """
    _, height, width = positions
    steps = (
        max(1, limit // max(1, height * width)),
        max(1, min(height, limit // max(1, width))),
        max(1, min(width, limit)),
    )
    images, rows, columns = (_ranges(length, step) for length, step in zip(positions, steps, strict=True))
    return product(images, rows, columns)


def _ranges(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))
