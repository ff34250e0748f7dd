"""Packs constant weights into the order in which kernels read them, once for each layout.

Mostly the packed array is a view of the weights. Only the layouts that kernels use are copied, to
the memory of all constants.
"""

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

_packed: "WeakKeyDictionary[Value, dict[Hashable, Value]]" = WeakKeyDictionary()


def packed(weights: Value, layout: Hashable, pack: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Returns constant weights in another order; the same value for the same weights and layout.

    Args:
        weights: the weights with a constant.
        layout: identifies the order.
        pack: reorders the array.
    """
    known = _packed.setdefault(weights, {})
    if layout not in known:
        assert weights.constant is not None  # noqa: S101 - callers pack constants
        array = pack(weights.constant)
        known[layout] = Value(array.shape, Scalar.of(array.dtype), array, weights.name)
    return known[layout]


def padded(array: np.ndarray, dimension: int, multiple: int, fill: int) -> np.ndarray:
    """Pads a dimension of the array to a multiple; returns the array itself if it is one."""
    if array.shape[dimension] % multiple == 0:
        return array
    pads = [(0, 0)] * array.ndim
    pads[dimension] = (0, -array.shape[dimension] % multiple)
    return np.pad(array, pads, constant_values=fill)
