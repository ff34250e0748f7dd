"""Conversion between NCHW and NHWC images: references compute in NHWC."""

from collections.abc import Callable

import numpy as np

from neurald.hal.operations.machinery.call import Array, Call, Shape


def is_nchw(call: Call) -> bool:
    """Returns True if the operation's data are NCHW."""
    return bool(call.scalar("nchw"))


def to_nhwc(array: Array) -> Array:
    """Views an NCHW array as NHWC."""
    return np.moveaxis(array, 1, 3)


def from_nhwc(array: Array) -> Array:
    """Converts an NHWC array to contiguous NCHW."""
    return np.ascontiguousarray(np.moveaxis(array, 3, 1))


def shape_to_nhwc(shape: Shape) -> Shape:
    """Converts an NCHW shape to NHWC."""
    return shape[0], shape[2], shape[3], shape[1]


def shape_from_nhwc(shape: Shape) -> Shape:
    """Converts an NHWC shape to NCHW."""
    return shape[0], shape[3], shape[1], shape[2]


def shape_by(geometry: Callable[[Call], tuple[object, Shape]]) -> Callable[[Call], tuple[Shape, ...]]:
    """Returns the shape rule of an operation on images.

    Args:
        geometry: returns the window, and the shape of the output in NHWC.
    """

    def shape(call: Call) -> tuple[Shape, ...]:
        _, found = geometry(call)
        return (shape_from_nhwc(found) if is_nchw(call) else found,)

    return shape
