"""Quantises a network to bytes, based on its values for the image.

Signed bytes: activations are asymmetric, weights symmetric with a scale for each output (one for
FULLY_CONNECTED), like in newer converters. Unsigned bytes: everything is asymmetric with one scale,
like in older ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .network import Array, Layer, Network

#: Operators that pass values on unchanged.
_MOVERS = ("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESHAPE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantized:
    """Quantisation of values: real = scale × (stored − zero point).

    Attributes:
        scales: one, or one for each index of an axis.
        axis: the axis of several scales.
        data: the stored values of constants.
    """

    scales: tuple[float, ...]
    zero_point: int
    axis: int = 0
    data: Array | None = None


def quantized_activations(
    network: Network, dtype: "np.dtype[np.uint8 | np.int8]"
) -> Mapping[Layer, Quantized]:
    """Returns the quantisation of every layer's output."""
    found: dict[Layer, Quantized] = {}
    for layer in network.layers:
        if layer.kind in _MOVERS:
            found[layer] = found[layer.sources[0]]
        else:
            scale, zero_point = _asymmetric(layer.value, dtype)
            found[layer] = Quantized(scales=(scale,), zero_point=zero_point)
    return found


def quantized_weights(layer: Layer, dtype: "np.dtype[np.uint8 | np.int8]") -> Quantized:
    """Quantises the weights of a layer that has some."""
    weights = layer.weights
    if weights is None:
        raise ValueError(f"{layer.kind} has no weights")
    if dtype == np.uint8:
        scale, zero_point = _asymmetric(weights, dtype)
        data = np.clip(np.rint(weights / scale) + zero_point, 0, 255).astype(np.uint8)
        return Quantized(scales=(scale,), zero_point=zero_point, data=data)
    if layer.kind == "FULLY_CONNECTED":
        scales, axis = np.abs(weights).max(keepdims=True) / np.float32(127), 0
    else:
        axis = 3 if layer.kind == "DEPTHWISE_CONV_2D" else 0
        others = tuple(each for each in range(weights.ndim) if each != axis)
        scales = np.abs(weights).max(axis=others, keepdims=True) / np.float32(127)
    data = np.clip(np.rint(weights / scales), -127, 127).astype(np.int8)
    return Quantized(scales=tuple(scales.reshape(-1).tolist()), zero_point=0, axis=axis, data=data)


def quantized_bias(layer: Layer, source: Quantized, weights: Quantized) -> Quantized:
    """Quantises the bias of a layer, with the scale of its accumulators."""
    if layer.bias is None:
        raise ValueError(f"{layer.kind} has no bias")
    scales = np.float32(source.scales[0]) * np.array(weights.scales, np.float32)
    data = np.rint(layer.bias / scales).astype(np.int32)
    return Quantized(scales=tuple(scales.tolist()), zero_point=0, data=data)


def _asymmetric(values: Array, dtype: "np.dtype[np.uint8 | np.int8]") -> tuple[float, int]:
    """Returns the scale and zero point that cover all values and zero."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    scale = float(np.float32((high - low) / 255)) or 1.0
    return scale, int(np.iinfo(dtype).min + np.rint(-low / scale))
