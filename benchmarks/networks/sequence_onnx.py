"""Writes networks of sequences as `.onnx` files; images are NCHW."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .network import padding
from .onnx_format import Attribute, Graph, model, node, port, tensor
from .sequence import SequenceNetwork, Step, Value

#: The first with GELU.
_IR_VERSION, _OPSET = 9, 20


def sequence_onnx_file(network: SequenceNetwork) -> bytes:
    """Returns the file."""
    return _Writer(network).write()


class _Writer:
    def __init__(self, network: SequenceNetwork) -> None:
        self._network = network
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._names: dict[Value, str] = {}
        self._count = 0

    def write(self) -> bytes:
        images = {step.sources[0] for step in self._network.steps if step.kind == "convolution"}
        inputs = []
        for value in self._network.inputs:
            self._names[value] = self._name()
            shape = tuple(value.shape[axis] for axis in (0, 3, 1, 2)) if value in images else value.shape
            inputs.append(port(self._names[value], shape, value.dtype))
        for step in self._network.steps:
            write: Callable[[Step], str] = getattr(self, f"_{step.kind}")
            self._names[step.result] = write(step)
        outputs = [port(self._names[value], value.shape, value.dtype) for value in self._network.outputs]
        graph = Graph(self._nodes, self._constants, inputs, outputs)
        return model(graph, ir_version=_IR_VERSION, opset=_OPSET)

    def _dense(self, step: Step) -> str:
        x, weights, bias = step.sources
        product = self._node("MatMul", self._of(x), self._constant(_data(weights).T))
        return self._node("Add", product, self._of(bias))

    def _add(self, step: Step) -> str:
        return self._node("Add", *map(self._of, step.sources))

    def _multiply(self, step: Step) -> str:
        return self._node("Mul", *map(self._of, step.sources))

    def _gelu(self, step: Step) -> str:
        return self._node("Gelu", self._of(step.sources[0]))

    def _softmax(self, step: Step) -> str:
        return self._node("Softmax", self._of(step.sources[0]), axis=-1)

    def _layer_norm(self, step: Step) -> str:
        names = map(self._of, step.sources)
        return self._node("LayerNormalization", *names, axis=-1, epsilon=step.attributes["epsilon"])

    def _matmul(self, step: Step) -> str:
        a, b = map(self._of, step.sources)
        if step.attributes["transposes"]:
            axes = list(range(len(step.sources[1].shape)))
            b = self._node("Transpose", b, perm=(*axes[:-2], axes[-1], axes[-2]))
        return self._node("MatMul", a, b)

    def _transpose(self, step: Step) -> str:
        return self._node("Transpose", self._of(step.sources[0]), perm=step.attributes["axes"])

    def _reshape(self, step: Step) -> str:
        return self._reshaped(self._of(step.sources[0]), step.result.shape)

    def _concatenate(self, step: Step) -> str:
        return self._node("Concat", *map(self._of, step.sources), axis=step.attributes["axis"])

    def _gather(self, step: Step) -> str:
        return self._node("Gather", *map(self._of, step.sources), axis=0)

    def _convolution(self, step: Step) -> str:
        x, weights, bias = step.sources
        kernel, stride = weights.shape[1:3], step.attributes["stride"]
        (top, bottom), (left, right) = (
            padding(*each) if step.attributes["padding"] == "SAME" else (0, 0)
            for each in zip(x.shape[1:3], kernel, stride, strict=True)
        )
        result = self._node(
            "Conv",
            self._of(x),
            self._constant(_data(weights).transpose(0, 3, 1, 2)),
            self._of(bias),
            kernel_shape=kernel,
            strides=stride,
            pads=(top, left, bottom, right),
        )
        return self._node("Relu", result) if step.attributes["has_relu"] else result

    def _maximum_pool(self, step: Step) -> str:
        window = step.attributes["window"]
        return self._node("MaxPool", self._of(step.sources[0]), kernel_shape=window, strides=window)

    def _as_sequence(self, step: Step) -> str:
        batch, pixels, depth = step.result.shape
        columns = self._reshaped(self._of(step.sources[0]), (batch, depth, pixels))
        return self._node("Transpose", columns, perm=(0, 2, 1))

    def _gru(self, step: Step) -> str:
        names = [self._of(source) for source in step.sources]
        turned = self._node("Transpose", names[0], perm=(1, 0, 2))
        direction = "bidirectional" if step.sources[1].shape[0] == 2 else "forward"
        units = step.attributes["units"]
        result = self._node(
            "GRU", turned, *names[1:], direction=direction, hidden_size=units, linear_before_reset=1
        )
        # (time, directions, 1, units): the directions of a step are beside each other.
        return self._reshaped(result, step.result.shape)

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        return self._node("Reshape", name, self._constant(np.array(shape, np.int64)))

    def _of(self, value: Value) -> str:
        if value not in self._names:
            self._names[value] = self._constant(_data(value))
        return self._names[value]

    def _constant(self, value: Any) -> str:
        name = self._name()
        self._constants.append(tensor(name, value))
        return name

    def _node(self, kind: str, *inputs: str, **attributes: Attribute) -> str:
        name = self._name()
        self._nodes.append(node(kind, inputs, [name], attributes))
        return name

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _data(value: Value) -> Any:
    if value.data is None:
        raise ValueError(f"a value of shape {value.shape} is neither computed nor a constant")
    return value.data
