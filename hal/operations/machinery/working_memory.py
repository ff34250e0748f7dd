"""Estimates the memory that references need besides their arguments and results."""

import math
from collections.abc import Iterable, Sequence

from neurald.hal.operations.machinery.call import Array, Shape

#: References compute with 8-byte numbers, in a few arrays at a time. Intermediates that would grow
#: faster than arguments and results, such as convolution windows, are computed in blocks of a fixed
#: size.
_BYTES_OF_AN_ELEMENT = 8
_ARRAYS = 3
#: Larger results of operations on constants are kept if they have at most this many times as many
#: bytes as these, such as weights of 4 bits that are dequantised.
_MAX_KEPT_BYTES = 64 << 20
_MAX_GROWTH = 16


def reference_working_bytes(inputs: Sequence[Array], outputs: Sequence[Shape | None]) -> int:
    """Estimates the bytes that a reference needs besides its inputs and outputs.

    Args:
        inputs: its arguments.
        outputs: the shapes of its results, as far as they are known.
    """
    elements = sum(each.size for each in inputs) + sum(
        math.prod(each) for each in outputs if each is not None
    )
    return _BYTES_OF_AN_ELEMENT * _ARRAYS * elements


def is_inflated(size_bytes: int, inputs: Iterable[Array]) -> bool:
    """Returns True if results of this many bytes are too large to replace these constants.

    A tiny model may have operations on constants with results that fill the memory. Then only
    executions compute them.
    """
    return size_bytes > _MAX_KEPT_BYTES and size_bytes > _MAX_GROWTH * sum(each.nbytes for each in inputs)
