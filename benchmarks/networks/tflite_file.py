"""Writes networks as `.tflite` files."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.tflite.builder import TfliteGraph, TfliteModel

from .network import Layer, Network
from .quantization import Quantized, quantized_activations, quantized_bias, quantized_weights

_SAME, _VALID = 0, 1
_NAMES = {np.dtype(np.float32): "FLOAT32", np.dtype(np.int8): "INT8", np.dtype(np.uint8): "UINT8"}


def tflite_file(network: Network, dtype: Any = np.float32) -> bytes:
    """Returns the file.

    Args:
        network: the network to write.
        dtype: float32, or int8 or uint8 for a quantised file, including inputs and outputs.
    """
    return _Writer(network, np.dtype(dtype)).write()


class _Writer:
    def __init__(self, network: Network, dtype: "np.dtype[Any]") -> None:
        self._network = network
        self._dtype = dtype
        self._model = TfliteModel()
        self._graph: TfliteGraph = self._model.subgraph()
        self._quantized = None if dtype == np.float32 else quantized_activations(network, dtype)
        self._tensors: dict[Layer, int] = {}
        self._count = 0

    def write(self) -> bytes:
        for layer in self._network.layers:
            self._tensors[layer] = self._activation(layer)
            if layer.kind:
                self._operator(layer)
        self._graph.inputs = (self._tensors[self._network.image],)
        self._graph.outputs = (self._tensors[self._network.output],)
        return self._model.build()

    def _activation(self, layer: Layer) -> int:
        type_ = _NAMES[self._dtype]
        if self._quantized is None:
            return self._tensor(layer.value.shape, type_)
        how = self._quantized[layer]
        return self._tensor(layer.value.shape, type_, scale=how.scales, zero_point=(how.zero_point,))

    def _operator(self, layer: Layer) -> None:
        inputs = [self._tensors[source] for source in layer.sources]
        if layer.weights is not None:
            inputs += self._constants(layer)
        if layer.kind == "RESHAPE":
            # For any number of images.
            shape = np.array([-1, *layer.value.shape[1:]], np.int32)
            inputs.append(self._tensor(shape.shape, "INT32", data=shape))
        options, values = _options(layer)
        self._graph.operator(layer.kind, inputs, (self._tensors[layer],), options, **values)

    def _constants(self, layer: Layer) -> list[int]:
        """Adds weights and bias."""
        if self._quantized is None:
            arrays = (layer.weights, layer.bias)
            return [self._tensor(each.shape, data=each) for each in arrays if each is not None]
        weights = quantized_weights(layer, self._dtype)
        bias = quantized_bias(layer, self._quantized[layer.sources[0]], weights)
        return [self._constant(weights, _NAMES[self._dtype]), self._constant(bias, "INT32")]

    def _constant(self, how: Quantized, type_: str) -> int:
        shape = () if how.data is None else how.data.shape
        return self._tensor(
            shape,
            type_,
            data=how.data,
            scale=how.scales,
            zero_point=(how.zero_point,) * len(how.scales),
            quantized_dimension=how.axis,
        )

    def _tensor(self, *arguments: Any, **attributes: Any) -> int:
        """Adds a tensor with a unique name: some readers identify tensors by name."""
        self._count += 1
        return self._graph.tensor(*arguments, name=f"t{self._count}", **attributes)


def _options(layer: Layer) -> tuple[str, dict[str, Any]]:
    """Returns the table of options of a layer's operator, and its fields."""
    activation = {"FusedActivationFunction": layer.activation.value}
    strides = {"StrideW": layer.stride, "StrideH": layer.stride}
    window = {"FilterWidth": layer.kernel, "FilterHeight": layer.kernel, **strides}
    dilation = {"DilationWFactor": 1, "DilationHFactor": 1}
    convolution = {"Padding": _SAME, **strides, **dilation, **activation}
    tables: dict[str, tuple[str, dict[str, Any]]] = {
        "CONV_2D": ("Conv2DOptions", convolution),
        "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", {"DepthMultiplier": 1, **convolution}),
        "FULLY_CONNECTED": ("FullyConnectedOptions", activation),
        "ADD": ("AddOptions", activation),
        "MAX_POOL_2D": ("Pool2DOptions", {"Padding": _SAME, **window, **activation}),
        "AVERAGE_POOL_2D": ("Pool2DOptions", {"Padding": _VALID, **window, **activation}),
        "RESHAPE": ("ReshapeOptions", {"NewShape": [-1, *layer.value.shape[1:]]}),
    }
    return tables[layer.kind]
