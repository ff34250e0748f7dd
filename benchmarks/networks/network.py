"""Networks built layer by layer, with weights, and values for one image.

Weights are random and scaled by layer such that sums have unit variance, like those of trained
networks after normalisation: biases, limits of activations, quantisation and the range of half
precision then matter as they do in practice.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Activation(Enum):
    """Activation function of a layer, by TFLite's numbers."""

    NONE = 0
    RELU = 1
    RELU6 = 3


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Layer:
    """Layer of a network.

    Attributes:
        kind: TFLite's name of its operator, "" for the image.
        sources: the layers that it reads.
        value: its output for the image.
        weights: (outputs, height, width, inputs), (1, height, width, channels) for
            DEPTHWISE_CONV_2D, and (outputs, inputs) for FULLY_CONNECTED.
        bias: one value for each output.
        kernel, stride: those of windows, in both directions; windows smaller than the image are
            padded to keep the size.
    """

    kind: str
    sources: tuple["Layer", ...] = ()
    value: Array
    weights: Array | None = None
    bias: Array | None = None
    kernel: int = 1
    stride: int = 1
    activation: Activation = Activation.NONE

    def pads(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns the padding of a window above and below, left and right."""
        height, width = (
            padding(length, self.kernel, self.stride) for length in self.sources[0].value.shape[1:3]
        )
        return height, width


class Network:
    """Builds a network layer by layer, and computes its values.

    Args:
        size: height and width of the image.
        channels: of the image.
        seed: the seed of the image and the weights.
    """

    def __init__(self, size: int = 224, channels: int = 3, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        image = self._random.standard_normal((1, size, size, channels)).astype(np.float32)
        self.layers = [Layer(kind="", value=image)]

    @property
    def image(self) -> Layer:
        """Input of the network."""
        return self.layers[0]

    @property
    def output(self) -> Layer:
        """Last layer."""
        return self.layers[-1]

    def convolution(
        self,
        source: Layer,
        channels: int,
        kernel: int,
        stride: int = 1,
        activation: Activation = Activation.NONE,
    ) -> Layer:
        """Adds a CONV_2D."""
        depth = source.value.shape[3]
        weights = self._random.standard_normal((channels, kernel, kernel, depth)).astype(np.float32)
        windows = _windows(source.value, kernel, stride)
        sums = windows.reshape(*windows.shape[:3], -1) @ weights.reshape(channels, -1).T
        return self._weighted("CONV_2D", source, sums, weights, kernel, stride, activation)

    def depthwise(self, source: Layer, stride: int, kernel: int = 3) -> Layer:
        """Adds a DEPTHWISE_CONV_2D with RELU6."""
        shape = (1, kernel, kernel, source.value.shape[3])
        weights = self._random.standard_normal(shape).astype(np.float32)
        windows = _windows(source.value, kernel, stride)
        sums = np.einsum("nyxijc,ijc->nyxc", windows, weights[0], optimize=True)
        return self._weighted("DEPTHWISE_CONV_2D", source, sums, weights, kernel, stride, Activation.RELU6)

    def _weighted(
        self,
        kind: str,
        source: Layer,
        sums: Array,
        weights: Array,
        kernel: int,
        stride: int,
        activation: Activation,
    ) -> Layer:
        deviation = sums.std()
        bias = (0.3 * self._random.standard_normal(sums.shape[-1])).astype(np.float32)
        return self._add(
            kind,
            (source,),
            _activated(sums / deviation + bias, activation),
            weights=weights / deviation,
            bias=bias,
            kernel=kernel,
            stride=stride,
            activation=activation,
        )

    def sum(self, first: Layer, second: Layer, activation: Activation = Activation.NONE) -> Layer:
        """Adds an ADD."""
        value = _activated(first.value + second.value, activation)
        return self._add("ADD", (first, second), value, activation=activation)

    def maximum_pool(self, source: Layer, kernel: int, stride: int) -> Layer:
        """Adds a MAX_POOL_2D."""
        windows = _windows(source.value, kernel, stride, outside=-np.inf)
        return self._add("MAX_POOL_2D", (source,), windows.max(axis=(3, 4)), kernel=kernel, stride=stride)

    def classify(self, source: Layer, classes: int = 1000) -> Layer:
        """Adds an AVERAGE_POOL_2D of the whole image, RESHAPE and FULLY_CONNECTED."""
        size, channels = source.value.shape[1], source.value.shape[3]
        mean = source.value.mean(axis=(1, 2), keepdims=True)
        pooled = self._add("AVERAGE_POOL_2D", (source,), mean, kernel=size)
        flat = self._add("RESHAPE", (pooled,), mean.reshape(1, channels))
        weights = self._random.standard_normal((classes, channels)).astype(np.float32)
        sums = flat.value @ weights.T
        return self._add(
            "FULLY_CONNECTED",
            (flat,),
            sums / sums.std(),
            weights=weights / sums.std(),
            bias=np.zeros(classes, np.float32),
        )

    def _add(self, kind: str, sources: tuple[Layer, ...], value: Array, **attributes: Any) -> Layer:
        layer = Layer(kind=kind, sources=sources, value=value.astype(np.float32), **attributes)
        self.layers.append(layer)
        return layer


def padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns the padding before and after that keeps the size of an image in one direction."""
    total = max(0, (-(-length // stride) - 1) * stride + kernel - length)
    return total // 2, total - total // 2


def _activated(value: Array, activation: Activation) -> Array:
    if activation is Activation.NONE:
        return value
    return np.clip(value, 0, 6 if activation is Activation.RELU6 else None)


def _windows(value: Array, kernel: int, stride: int, outside: float = 0.0) -> Array:
    """Returns windows of shape (1, height, width, kernel, kernel, channels)."""
    pads = [padding(length, kernel, stride) for length in value.shape[1:3]]
    padded = np.pad(value, ((0, 0), *pads, (0, 0)), constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    return views[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
