"""Networks of sequences: operations on values, with random weights, that both file formats have.

Weights are scaled by the number of their inputs, and transformers normalise their values, so that
values stay in the range of trained networks. Images are NHWC, sequences (batch, time, channels).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Value:
    """A value of a graph; constants have `data`."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    data: Array | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Step:
    """An operation on values; the methods of `SequenceNetwork` say which there are."""

    kind: str
    sources: tuple[Value, ...]
    result: Value
    attributes: dict[str, Any] = field(default_factory=dict)


class SequenceNetwork:
    """Builds a network operation by operation.

    Args:
        seed: the seed of the weights.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.steps: list[Step] = []

    def input(self, *shape: int, dtype: Any = np.float32) -> Value:
        """Adds an input."""
        self.inputs.append(Value(shape=shape, dtype=np.dtype(dtype)))
        return self.inputs[-1]

    def constant(self, array: Array) -> Value:
        """Returns a constant."""
        return Value(shape=array.shape, dtype=array.dtype, data=array)

    def weights(self, *shape: int, inputs: int) -> Value:
        """Returns random weights for sums of a number of inputs."""
        values = self._random.standard_normal(shape) / math.sqrt(inputs)
        return self.constant(values.astype(np.float32))

    def step(
        self,
        kind: str,
        sources: Sequence[Value],
        shape: Sequence[int],
        dtype: Any = np.float32,
        **attributes: Any,
    ) -> Value:
        """Adds an operation."""
        result = Value(shape=tuple(shape), dtype=np.dtype(dtype))
        self.steps.append(Step(kind=kind, sources=tuple(sources), result=result, attributes=attributes))
        return result

    def dense(self, x: Value, outputs: int) -> Value:
        """Multiplies the last axis by weights (outputs, inputs), and adds a bias."""
        weights = self.weights(outputs, x.shape[-1], inputs=x.shape[-1])
        bias = self.weights(outputs, inputs=100)
        return self.step("dense", (x, weights, bias), (*x.shape[:-1], outputs))

    def add(self, a: Value, b: Value) -> Value:
        """Adds two values, with broadcasting."""
        return self.step("add", (a, b), np.broadcast_shapes(a.shape, b.shape))

    def scale(self, x: Value, factor: float) -> Value:
        """Multiplies by a number."""
        return self.step("multiply", (x, self.constant(np.float32([factor]))), x.shape)

    def gelu(self, x: Value) -> Value:
        """Applies the Gaussian error linear unit, without approximation."""
        return self.step("gelu", (x,), x.shape)

    def softmax(self, x: Value) -> Value:
        """Applies softmax to the last axis."""
        return self.step("softmax", (x,), x.shape)

    def layer_norm(self, x: Value) -> Value:
        """Normalises the last axis, with a scale and an offset."""
        width = x.shape[-1]
        scale = self.constant(1 + 0.1 * self._random.standard_normal(width).astype(np.float32))
        return self.step("layer_norm", (x, scale, self.weights(width, inputs=100)), x.shape, epsilon=1e-5)

    def matmul(self, a: Value, b: Value, *, transposes: bool = False) -> Value:
        """Multiplies matrices; `transposes` swaps the last two axes of `b`."""
        columns = b.shape[-2] if transposes else b.shape[-1]
        return self.step("matmul", (a, b), (*a.shape[:-1], columns), transposes=transposes)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Permutes axes."""
        return self.step("transpose", (x,), [x.shape[axis] for axis in axes], axes=tuple(axes))

    def reshape(self, x: Value, *shape: int) -> Value:
        """Changes the shape, not the order of elements."""
        return self.step("reshape", (x,), shape)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """Joins values along an axis."""
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.step("concatenate", values, shape, axis=axis)

    def gather(self, table: Value, indices: Value) -> Value:
        """Selects rows of a table."""
        return self.step("gather", (table, indices), (*indices.shape, *table.shape[1:]))

    def convolution(
        self,
        x: Value,
        channels: int,
        kernel: tuple[int, int],
        *,
        stride: tuple[int, int] = (1, 1),
        padding: str = "SAME",
        has_relu: bool = False,
    ) -> Value:
        """Convolves an image; weights are (outputs, height, width, inputs).

        Args:
            x: the image.
            channels: the number of outputs.
            kernel, stride: height and width.
            padding: SAME or VALID, as TFLite defines them.
            has_relu: whether to replace negative results by zero.
        """
        depth = x.shape[3]
        weights = self.weights(channels, *kernel, depth, inputs=depth * kernel[0] * kernel[1])
        lengths = [
            -(-length // step) if padding == "SAME" else (length - size) // step + 1
            for length, size, step in zip(x.shape[1:3], kernel, stride, strict=True)
        ]
        return self.step(
            "convolution",
            (x, weights, self.weights(channels, inputs=100)),
            (x.shape[0], *lengths, channels),
            stride=stride,
            padding=padding,
            has_relu=has_relu,
        )

    def maximum_pool(self, x: Value, height: int, width: int) -> Value:
        """Takes maxima of windows that touch."""
        batch, rows, columns, depth = x.shape
        return self.step(
            "maximum_pool", (x,), (batch, rows // height, columns // width, depth), window=(height, width)
        )

    def as_sequence(self, image: Value) -> Value:
        """Returns the pixels of an image, row by row, as a sequence."""
        batch, rows, columns, depth = image.shape
        return self.step("as_sequence", (image,), (batch, rows * columns, depth))

    def gru(self, x: Value, units: int, *, is_bidirectional: bool = False) -> Value:
        """Applies a gated recurrent unit (Cho et al., 2014) to one sequence.

        The reset gate applies after the product, as in cuDNN. Weights are (directions, 3 × units,
        inputs), with the gates in the order update, reset, new.
        """
        directions, width = 1 + is_bidirectional, x.shape[2]
        sources = (
            x,
            self.weights(directions, 3 * units, width, inputs=width),
            self.weights(directions, 3 * units, units, inputs=units),
            self.weights(directions, 6 * units, inputs=100),
        )
        return self.step("gru", sources, (*x.shape[:2], directions * units), units=units)
