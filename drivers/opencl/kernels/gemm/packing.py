"""Packs constant weights into the order in which kernels read them, once for each layout.

Mostly the packed array is a view of the weights. Only the layouts that kernels use are copied, to
the memory of all constants.
"""

from collections.abc import Callable, Hashable, Mapping
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

_Pack = Callable[[np.ndarray], np.ndarray]
_packed: "WeakKeyDictionary[Value, dict[Hashable, Value]]" = WeakKeyDictionary()
#: The weights, the layout and the function that packed values come from.
_origins: "WeakKeyDictionary[Value, tuple[ReferenceType[Value], Hashable, _Pack]]" = WeakKeyDictionary()


def packed(weights: Value, layout: Hashable, pack: _Pack) -> Value:
    """Returns constant weights in another order; the same value for the same weights and layout.

    Args:
        weights: the weights with a constant.
        layout: identifies the order.
        pack: reorders the array. It must not refer to the weights, which it would keep in memory.
    """
    known = _packed.setdefault(weights, {})
    if layout not in known:
        assert weights.constant is not None  # noqa: S101 - callers pack constants
        array = pack(weights.constant)
        value = known[layout] = Value(array.shape, Scalar.of(array.dtype), array, weights.name)
        _origins[value] = ref(weights), layout, pack
    return known[layout]


def packed_as(value: Value, others: Mapping[Value, Value]) -> Value | None:
    """Returns what takes the place of a value where others take the place of what it may come from.

    Returns None if it neither has another in its place nor is packed from such a value.

    Args:
        value: a value, which may be packed.
        others: maps values to those in their places, which have the same shapes and types.
    """
    if value in others:
        return others[value]
    if value not in _origins:
        return None
    weights, layout, pack = _origins[value]
    before = weights()
    other = None if before is None else packed_as(before, others)
    return None if other is None else packed(other, layout, pack)


def padded(array: np.ndarray, dimension: int, multiple: int, fill: int) -> np.ndarray:
    """Pads a dimension of the array to a multiple; returns the array itself if it is one."""
    if array.shape[dimension] % multiple == 0:
        return array
    pads = [(0, 0)] * array.ndim
    pads[dimension] = (0, -array.shape[dimension] % multiple)
    return np.pad(array, pads, constant_values=fill)
