"""Writes networks of layers as `.onnx` files.

Images are NCHW. Quantised files have unsigned activations, with signed ones shifted by 128, and
express quantisation with QuantizeLinear and DequantizeLinear. Activation functions then need no
operators: the limits of quantised values implement them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .network import Activation, Array, Layer, Network
from .onnx_format import Graph, model, node, port, tensor
from .quantization import Quantized, quantized_activations, quantized_bias, quantized_weights

_IR_VERSION, _OPSET = 8, 17


def onnx_file(network: Network, dtype: Any = np.float32) -> bytes:
    """Returns the file.

    Args:
        network: the network to write.
        dtype: float32; or int8 or uint8 for weights of that type with uint8 inputs and outputs.
    """
    dtype = np.dtype(dtype)
    writer = _Writer() if dtype == np.float32 else _QuantizedWriter(network, dtype)
    return writer.write(network)


class _Writer:
    """Writes float32 networks."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []
        self._names: dict[Layer, str] = {}
        self._count = 0

    def write(self, network: Network) -> bytes:
        image, output = network.image, network.output
        self._names[image] = self._image(image)
        for layer in network.layers[1:]:
            self._names[layer] = self._layer(layer)
        ports = (
            port("image", _channels_first(image.value).shape, self._port_type()),
            port(self._end(output), _channels_first(output.value).shape, self._port_type()),
        )
        graph = Graph(self._nodes, self._initializers, ports[:1], ports[1:])
        return model(graph, ir_version=_IR_VERSION, opset=_OPSET)

    def _port_type(self) -> "np.dtype[Any]":
        return np.dtype(np.float32)

    def _image(self, image: Layer) -> str:
        return "image"

    def _end(self, output: Layer) -> str:
        return self._names[output]

    def _layer(self, layer: Layer) -> str:
        sources = [self._names[source] for source in layer.sources]
        if layer.weights is not None:
            sources += self._constants(layer)
        return self._activated(layer, self._operator(layer, sources))

    def _operator(self, layer: Layer, sources: Sequence[str]) -> str:
        if layer.kind == "FULLY_CONNECTED":
            return self._node("Gemm", sources, transB=1)
        if layer.kind == "RESHAPE":
            return self._node("Flatten", sources)
        if layer.kind == "AVERAGE_POOL_2D":
            return self._node("GlobalAveragePool", sources)
        if layer.kind == "ADD":
            return self._node("Add", sources)
        (top, bottom), (left, right) = layer.pads()
        window = {
            "kernel_shape": (layer.kernel, layer.kernel),
            "strides": (layer.stride, layer.stride),
            "pads": (top, left, bottom, right),
        }
        if layer.kind == "MAX_POOL_2D":
            return self._node("MaxPool", sources, **window)
        groups = layer.value.shape[3] if layer.kind == "DEPTHWISE_CONV_2D" else 1
        return self._node("Conv", sources, group=groups, **window)

    def _activated(self, layer: Layer, result: str) -> str:
        if layer.activation is Activation.RELU:
            return self._node("Relu", [result])
        if layer.activation is Activation.RELU6:
            return self._node("Clip", [result, *(self._constant(np.float32(each)) for each in (0, 6))])
        return result

    def _constants(self, layer: Layer) -> list[str]:
        """Adds weights and bias."""
        if layer.weights is None or layer.bias is None:
            return []
        return [self._constant(_outputs_first(layer, layer.weights)), self._constant(layer.bias)]

    def _constant(self, value: Any) -> str:
        name = self._name()
        self._initializers.append(tensor(name, value))
        return name

    def _node(self, kind: str, inputs: Sequence[str], **attributes: int | tuple[int, ...]) -> str:
        result = self._name()
        self._nodes.append(node(kind, inputs, [result], attributes))
        return result

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Names of a scale and a zero point."""

    scale: str
    zero_point: str


class _QuantizedWriter(_Writer):
    """Writes quantised networks."""

    def __init__(self, network: Network, dtype: "np.dtype[Any]") -> None:
        super().__init__()
        self._dtype = dtype
        self._quantized = quantized_activations(network, dtype)
        self._stored: dict[Layer, str] = {}

    def _port_type(self) -> "np.dtype[Any]":
        return np.dtype(np.uint8)

    def _image(self, image: Layer) -> str:
        return self._dequantized("image", self._parameters(image))

    def _end(self, output: Layer) -> str:
        return self._stored[output]

    def _activated(self, layer: Layer, result: str) -> str:
        parameters = self._parameters(layer)
        self._stored[layer] = self._node("QuantizeLinear", [result, parameters.scale, parameters.zero_point])
        return self._dequantized(self._stored[layer], parameters)

    def _dequantized(self, stored: str, parameters: _Parameters, **attributes: int) -> str:
        return self._node("DequantizeLinear", [stored, parameters.scale, parameters.zero_point], **attributes)

    def _parameters(self, layer: Layer) -> _Parameters:
        how = self._quantized[layer]
        zero_point = how.zero_point - int(np.iinfo(self._dtype).min)
        return _Parameters(
            self._constant(np.float32(how.scales[0])), self._constant(np.array(zero_point, np.uint8))
        )

    def _constants(self, layer: Layer) -> list[str]:
        weights = quantized_weights(layer, self._dtype)
        bias = quantized_bias(layer, self._quantized[layer.sources[0]], weights)
        if weights.data is None or bias.data is None:
            return []
        return [
            self._stored_constant(_outputs_first(layer, weights.data), weights),
            self._stored_constant(bias.data, bias),
        ]

    def _stored_constant(self, data: Array, how: Quantized) -> str:
        """Adds a constant whose outputs come first."""
        scales: Any = np.array(how.scales, np.float32)
        zero_points: Any = np.full(scales.shape, how.zero_point, data.dtype)
        if len(how.scales) == 1:
            return self._dequantized(
                self._constant(data), _Parameters(self._constant(scales[0]), self._constant(zero_points[0]))
            )
        parameters = _Parameters(self._constant(scales), self._constant(zero_points))
        return self._dequantized(self._constant(data), parameters, axis=0)


def _outputs_first(layer: Layer, weights: Array) -> Array:
    """Returns weights in ONNX's order: (outputs, inputs, height, width)."""
    if layer.kind == "FULLY_CONNECTED":
        return weights
    return weights.transpose((3, 0, 1, 2) if layer.kind == "DEPTHWISE_CONV_2D" else (0, 3, 1, 2))


def _channels_first(value: Array) -> Array:
    return value.transpose(0, 3, 1, 2) if value.ndim == 4 else value
