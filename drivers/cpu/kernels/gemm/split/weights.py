"""Constant weights as tiles of bfloat16 parts.

The parts of a weight are truncated, so that all have its sign, and none is 0 unless the weight is:
infinite inputs then give infinite results, as in FLOAT32. What the additional tiny parts contribute
is far below the precision of the result.
"""

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.packing import by_channel
from neurald.drivers.cpu.kernels.gemm.split.plan import HALF_BYTES, LANES, PARTS, WORD_BYTES, SplitPlan

#: Bits of a FLOAT32 number that its upper half has.
_UPPER = np.uint32(0xFFFF0000)
#: Magnitude of a part that would be 0, relative to the weight.
_TINY = 2.0**-40
#: Larger weights could not be divided.
_MAX_WEIGHT = 2.0**100


def are_divisible(constant: np.ndarray) -> bool:
    """Returns True if parts of the weights represent them."""
    return bool(np.isfinite(constant).all()) and float(np.abs(constant).max(initial=0)) < _MAX_WEIGHT


def packed_parts(plan: SplitPlan, constant: np.ndarray) -> Value:
    """Packs constant weights: (panels, chunks, parts, vectors, words, lanes, 2), INT16.

    Args:
        plan: the plan of their product.
        constant: see `are_divisible`.
    """
    product = plan.product
    weights = by_channel(product.weights, constant, product.channels, product.terms)[0].astype(np.float32)
    starts = np.array([plan.start(panel) for panel in range(plan.panels)])
    channels = starts[:, None, None] + np.array(plan.offsets())[:, None] + np.arange(LANES)
    terms = plan.words * WORD_BYTES // HALF_BYTES
    inner = np.arange(terms)
    # The terms of a word: (words, 2).
    pairs = inner.reshape(2, -1).T if plan.is_paired else inner.reshape(-1, 2)
    chunked = weights.reshape(product.channels, plan.chunks, terms)[:, :, pairs]
    parts = np.stack(weight_parts(chunked))
    # (parts, panels, vectors, lanes, chunks, words, 2)
    found = parts[:, channels].transpose(1, 4, 0, 2, 5, 3, 6)
    array = np.ascontiguousarray(found).view(np.int16)
    return Value(array.shape, Scalar.INT16, array, product.weights.value.name)


def weight_parts(weights: np.ndarray) -> list[np.ndarray]:
    """Returns the parts of weights as the upper halves of FLOAT32 numbers."""
    found: list[np.ndarray] = []
    rest = weights
    for _ in range(PARTS):
        part = (rest.view(np.uint32) & _UPPER).view(np.float32)
        rest = np.ascontiguousarray(rest - part)
        if found:
            tiny = np.copysign(np.abs(weights) * np.float32(_TINY), weights)
            part = np.where(part == 0, (tiny.view(np.uint32) & _UPPER).view(np.float32), part)
        found.append((part.view(np.uint32) >> 16).astype(np.uint16))
    return found
