"""Sums of convolutions of any rank with simple loops, as integers or float64."""

import itertools

import numpy as np

from neurald.hal.operations.machinery.call import Array

SAME, VALID = 1, 2


def positions(scheme: int, size: int, extent: int, stride: int) -> tuple[int, int]:
    """Returns the number of window positions along an axis, and the padding before the image."""
    if scheme == VALID:
        return (size - extent) // stride + 1, 0
    count = -(-size // stride)
    return count, max(0, (count - 1) * stride + extent - size) // 2


def convolution_sums(
    image: Array,
    filter_: Array,
    scheme: int,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Array:
    """Convolves (batch, *lengths, depth) with (*window, depth, channels) along several axes."""
    axes = len(stride)
    kernel, lengths = filter_.shape[:axes], image.shape[1:-1]
    places = [
        positions(scheme, size, (taps - 1) * gap + 1, step)
        for size, taps, gap, step in zip(lengths, kernel, dilation, stride, strict=True)
    ]
    sums = np.zeros((len(image), *(count for count, _ in places), filter_.shape[-1]), np.float64)
    for place in np.ndindex(sums.shape[1:-1]):
        for tap in itertools.product(*map(range, kernel)):
            at = [
                p * s + t * d - head
                for p, s, t, d, (_, head) in zip(place, stride, tap, dilation, places, strict=True)
            ]
            if all(0 <= a < size for a, size in zip(at, lengths, strict=True)):
                sums[(slice(None), *place)] += image[(slice(None), *at)] @ filter_[tap]
    return sums


def transposed_sums(
    image: Array,
    filter_: Array,
    lengths: tuple[int, ...],
    scheme: int,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Array:
    """Computes the transposed convolution with an output of these lengths.

    `filter_` is (*window, depth, channels), as for `convolution_sums`.
    """
    axes = len(stride)
    kernel = filter_.shape[:axes]
    heads = [
        positions(scheme, size, (taps - 1) * gap + 1, step)[1]
        for size, taps, gap, step in zip(lengths, kernel, dilation, stride, strict=True)
    ]
    sums = np.zeros((len(image), *lengths, filter_.shape[-1]), np.float64)
    for place in np.ndindex(image.shape[1:-1]):
        for tap in itertools.product(*map(range, kernel)):
            at = [
                p * s + t * d - head
                for p, s, t, d, head in zip(place, stride, tap, dilation, heads, strict=True)
            ]
            if all(0 <= a < size for a, size in zip(at, lengths, strict=True)):
                sums[(slice(None), *at)] += image[(slice(None), *place)] @ filter_[tap]
    return sums
