"""MobileNetV2 and ResNet-50 with random weights, as `.tflite` files and as arrays.

Weights are scaled layer by layer so that sums have unit variance, as trained networks' have after normalisation: biases, limits of
activations and the range of half precision then matter as they do in practice.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.tflite_builder import TfliteGraph, TfliteModel

Array = np.ndarray[Any, np.dtype[Any]]

SIZE = 224
CLASSES = 1000
_NONE, _RELU, _RELU6 = 0, 1, 3
_SAME, _VALID = 0, 1


@dataclass
class Layer:
    """What a file has at a tensor, and its value for the input of the calibration."""

    tensor: int
    value: Array


@dataclass
class Network:
    """Writes a network layer by layer, computing as it goes.

    Attributes:
        image: the input of the calibration, (1, height, width, 3).
        output: what the network gives for it.
    """

    seed: int = 0
    image: Array = field(init=False)
    output: Array = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._model = TfliteModel()
        self._graph: TfliteGraph = self._model.subgraph()
        self.image = self._random.standard_normal((1, SIZE, SIZE, 3)).astype(np.float32)

    def input(self) -> Layer:
        """The image."""
        return Layer(self._graph.tensor(self.image.shape, name="image"), self.image)

    def convolution(
        self,
        source: Layer,
        channels: int,
        kernel: int,
        stride: int = 1,
        activation: int = _NONE,
        residual: Layer | None = None,
    ) -> Layer:
        """CONV_2D, padded to keep the size, and ADD of a residual, which the activation then comes after."""
        depth = source.value.shape[3]
        weights = self._random.standard_normal((channels, kernel, kernel, depth)).astype(np.float32)
        windows = _windows(source.value, kernel, stride)
        sums = windows.reshape(*windows.shape[:3], -1) @ weights.reshape(channels, -1).T
        weights /= sums.std()
        bias = (0.3 * self._random.standard_normal(channels)).astype(np.float32)
        value = sums / sums.std() + bias
        own = _NONE if residual is not None else activation
        operands = (source.tensor, self._constant(weights), self._constant(bias))
        result = self._layer(_activated(value, own))
        self._graph.operator(
            "CONV_2D",
            operands,
            (result.tensor,),
            "Conv2DOptions",
            Padding=_SAME,
            StrideW=stride,
            StrideH=stride,
            DilationWFactor=1,
            DilationHFactor=1,
            FusedActivationFunction=own,
        )
        return result if residual is None else self._sum(result, residual, activation)

    def depthwise(self, source: Layer, stride: int) -> Layer:
        """DEPTHWISE_CONV_2D of 3 × 3 with RELU6."""
        channels = source.value.shape[3]
        weights = self._random.standard_normal((1, 3, 3, channels)).astype(np.float32)
        sums = np.einsum("nyxijc,ijc->nyxc", _windows(source.value, 3, stride), weights[0], optimize=True)
        weights /= sums.std()
        bias = (0.3 * self._random.standard_normal(channels)).astype(np.float32)
        result = self._layer(_activated(sums / sums.std() + bias, _RELU6))
        self._graph.operator(
            "DEPTHWISE_CONV_2D",
            (source.tensor, self._constant(weights), self._constant(bias)),
            (result.tensor,),
            "DepthwiseConv2DOptions",
            Padding=_SAME,
            StrideW=stride,
            StrideH=stride,
            DepthMultiplier=1,
            DilationWFactor=1,
            DilationHFactor=1,
            FusedActivationFunction=_RELU6,
        )
        return result

    def _sum(self, first: Layer, second: Layer, activation: int) -> Layer:
        result = self._layer(_activated(first.value + second.value, activation))
        self._graph.operator(
            "ADD",
            (first.tensor, second.tensor),
            (result.tensor,),
            "AddOptions",
            FusedActivationFunction=activation,
        )
        return result

    def maximum_pool(self, source: Layer) -> Layer:
        """MAX_POOL_2D of 3 × 3 at every second position."""
        windows = _windows(source.value, 3, 2, outside=-np.inf)
        result = self._layer(windows.max(axis=(3, 4)))
        self._pool("MAX_POOL_2D", source, result, 3, 2, _SAME)
        return result

    def classify(self, source: Layer) -> Layer:
        """AVERAGE_POOL_2D of the whole image, RESHAPE and FULLY_CONNECTED."""
        channels = source.value.shape[3]
        pooled = self._layer(source.value.mean(axis=(1, 2), keepdims=True))
        self._pool("AVERAGE_POOL_2D", source, pooled, source.value.shape[1], 1, _VALID)
        flat = self._layer(pooled.value.reshape(1, channels))
        shape = self._graph.tensor((2,), "INT32", data=np.array([1, channels], np.int32))
        self._graph.operator(
            "RESHAPE", (pooled.tensor, shape), (flat.tensor,), "ReshapeOptions", NewShape=[1, channels]
        )
        weights = self._random.standard_normal((CLASSES, channels)).astype(np.float32)
        weights /= (flat.value @ weights.T).std()
        bias = np.zeros(CLASSES, np.float32)
        result = self._layer(flat.value @ weights.T)
        self._graph.operator(
            "FULLY_CONNECTED",
            (flat.tensor, self._constant(weights), self._constant(bias)),
            (result.tensor,),
            "FullyConnectedOptions",
            FusedActivationFunction=_NONE,
        )
        return result

    def _pool(self, kind: str, source: Layer, result: Layer, size: int, stride: int, padding: int) -> None:
        self._graph.operator(
            kind,
            (source.tensor,),
            (result.tensor,),
            "Pool2DOptions",
            Padding=padding,
            StrideW=stride,
            StrideH=stride,
            FilterWidth=size,
            FilterHeight=size,
            FusedActivationFunction=_NONE,
        )

    def _layer(self, value: Array) -> Layer:
        value = value.astype(np.float32)
        return Layer(self._graph.tensor(value.shape), value)

    def _constant(self, array: Array) -> int:
        return self._graph.tensor(array.shape, data=array)

    def finish(self, source: Layer, result: Layer) -> bytes:
        """The file."""
        self._graph.inputs, self._graph.outputs = (source.tensor,), (result.tensor,)
        self.output = result.value
        return self._model.build()


def mobilenet_v2(network: Network) -> bytes:
    """MobileNetV2 (Sandler et al., 2018), width 1."""
    image = network.input()
    layer = network.convolution(image, 32, 3, 2, _RELU6)
    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, channels, count, stride in blocks:
        for number in range(count):
            before, depth = layer, layer.value.shape[3]
            if expansion > 1:
                layer = network.convolution(layer, depth * expansion, 1, 1, _RELU6)
            layer = network.depthwise(layer, 1 if number else stride)
            layer = network.convolution(layer, channels, 1, residual=before if number else None)
    layer = network.convolution(layer, 1280, 1, 1, _RELU6)
    return network.finish(image, network.classify(layer))


def resnet_50(network: Network) -> bytes:
    """ResNet-50 (He et al., 2016), with the stride in the 3 × 3 convolutions."""
    image = network.input()
    layer = network.maximum_pool(network.convolution(image, 64, 7, 2, _RELU))
    for channels, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            step = 1 if number else stride
            before = layer
            layer = network.convolution(layer, channels, 1, 1, _RELU)
            layer = network.convolution(layer, channels, 3, step, _RELU)
            if number == 0:
                before = network.convolution(before, 4 * channels, 1, step)
            layer = network.convolution(layer, 4 * channels, 1, 1, _RELU, residual=before)
    return network.finish(image, network.classify(layer))


NETWORKS = {"mobilenet_v2": mobilenet_v2, "resnet_50": resnet_50}


def _activated(value: Array, activation: int) -> Array:
    if activation == _NONE:
        return value
    return np.clip(value, 0, 6 if activation == _RELU6 else None)


def _windows(value: Array, kernel: int, stride: int, outside: float = 0.0) -> Array:
    """(1, height, width, kernel, kernel, channels) of an image padded to keep its size."""
    pads = []
    for length in value.shape[1:3]:
        total = max(0, (-(-length // stride) - 1) * stride + kernel - length)
        pads.append((total // 2, total - total // 2))
    padded = np.pad(value, ((0, 0), *pads, (0, 0)), constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    return views[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
