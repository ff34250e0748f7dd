"""Lossless storage of FLOAT32 weights in fewer bytes.

A product of few rows reads each weight once or a few times, so memory limits its speed. Weights
that were stored as float16 or as integers with a scale per channel, and then converted, are stored
in that form again if this reproduces every bit.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array

#: Largest magnitudes of the integers that weights of 8, 4 and 2 bits use.
_LARGEST = (127.0, 7.0, 1.0)
#: Channels and terms of a sample that rejects most other weights.
_SAMPLED_CHANNELS, _SAMPLED_TERMS = 4, 64


class NarrowWeights(Struct, frozen=True, kw_only=True):
    """Weights in fewer bytes.

    Attributes:
        values: INT8 or FLOAT16, in the shape of the weights.
        scales: FLOAT32, (…, channels, 1); a weight is the product of its value as FLOAT32 and the
            scale. None if weights are the values.
    """

    values: Array
    scales: Array | None


def narrowed(weights: Array, *, with_half: bool) -> NarrowWeights | None:
    """Returns weights in fewer bytes, or None if that would change any.

    Args:
        weights: FLOAT32, (…, channels, terms).
        with_half: True if FLOAT16 is possible too.
    """
    weights = np.asarray(weights, np.float32)
    if not weights.size:
        return None
    sample = weights[..., :_SAMPLED_CHANNELS, :_SAMPLED_TERMS]
    with np.errstate(all="ignore"):
        largest = np.abs(weights).max(axis=-1, keepdims=True)
        limits = largest, np.broadcast_to(largest.max(), largest.shape)
        if _integers(sample, [each[..., :_SAMPLED_CHANNELS, :] for each in limits]) is not None:
            integers = _integers(weights, limits)
            if integers is not None:
                return integers
        if with_half and _halves(sample) is not None and (halves := _halves(weights)) is not None:
            return NarrowWeights(values=halves, scales=None)
    return None


def _integers(weights: Array, limits: Sequence[Array]) -> NarrowWeights | None:
    """Returns weights as INT8 and scales, or None if they are not such products.

    Args:
        weights: FLOAT32, (…, channels, terms).
        limits: what the largest integer may stand for, each (…, channels, 1).
    """
    values, scales = np.zeros(weights.shape, np.int8), np.ones(limits[0].shape, np.float32)
    is_found = np.zeros(scales.shape[:-1], bool)
    for candidate in _candidates(limits):
        integers = np.rint(weights / candidate)
        # Bits are compared because integers have no negative zero.
        products = ((integers + np.float32(0)) * candidate).astype(np.float32)
        is_exact = products.view(np.uint32) == weights.view(np.uint32)
        is_new = (is_exact & (np.abs(integers) <= _LARGEST[0])).all(axis=-1) & ~is_found
        if is_new.any():
            values[is_new], scales[is_new] = integers[is_new].astype(np.int8), candidate[is_new]
            is_found |= is_new
        if is_found.all():
            return NarrowWeights(values=values, scales=scales)
    return None


def _candidates(limits: Sequence[Array]) -> Iterator[Array]:
    """Yields scales that weights may have: (…, channels, 1)."""
    for each in limits:
        for number in _LARGEST:
            scales = (each / np.float32(number)).astype(np.float32)
            # The limit is a rounded product, so its quotient may be off by one place.
            for scale in (scales, *(np.nextafter(scales, np.float32(end)) for end in (0, np.inf))):
                yield np.where(scale > 0, scale, np.float32(1))


def _halves(weights: Array) -> Array | None:
    """Returns weights as FLOAT16, or None if that would change any."""
    values = weights.astype(np.float16)
    is_same = np.array_equal(values.astype(np.float32).view(np.uint32), weights.view(np.uint32))
    return values if is_same else None
