"""Contractions of random shapes with epilogues, for tests of specialised kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, load, maximum
from neurald.drivers.compiler.ir.graph import Convolution, Graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse

Array = np.ndarray[Any, np.dtype[Any]]

#: Types of the inputs; sums are FLOAT32 or INT32.
TYPES = (Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT8, Scalar.UINT8)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A chain of kernels, their inputs, and the expected output of the last one."""

    kernels: tuple[Kernel, ...]
    arrays: dict[Value, Array]
    expected: Array
    label: str

    @property
    def kernel(self) -> Kernel:
        """The last kernel."""
        return self.kernels[-1]

    def assert_equal(self, result: Array, label: str = "") -> None:
        """Asserts that integers are equal, and floats up to the order of summation."""
        what = f"{self.label}; {label}"
        if self.expected.dtype.kind != "f":
            np.testing.assert_array_equal(result, self.expected, err_msg=what)
            return
        limit = 1e-5 if self.expected.dtype == np.float32 else 2e-3
        scale = float(np.abs(self.expected.astype(np.float64)).max()) + 1e-3
        np.testing.assert_allclose(
            result.astype(np.float64), self.expected, rtol=limit, atol=limit * scale, err_msg=what
        )


class Cases:
    """Creates random cases.

    Args:
        seed: for the random numbers.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._graph = Graph(inputs=[], outputs=[])
        self._arrays: list[Array] = []

    def _integer(self, low: int, high: int) -> int:
        return int(self._random.integers(low, high))

    def _is(self, one_in: int) -> bool:
        return self._integer(0, one_in) == 0

    def _length(self, limit: int) -> int:
        """Returns a random length, often a multiple of 4, for which there are faster kernels."""
        return 4 * self._integer(1, max(2, limit // 4)) if self._is(2) else self._integer(1, limit)

    def _value(self, shape: Sequence[int], kind: Scalar, *, is_constant: bool) -> Value:
        if kind.is_float:
            array = self._random.standard_normal(tuple(shape)).astype(kind.dtype)
        else:
            info = np.iinfo(kind.value)
            high = min(info.max, 1 << 15)
            array = self._random.integers(max(info.min, -high), high + 1, tuple(shape)).astype(kind.dtype)
        value = Value(tuple(shape), kind, array if is_constant else None)
        if not is_constant:
            self._graph.inputs.append(value)
            self._arrays.append(array)
        return value

    def _zero(self, kind: Scalar) -> int:
        if kind.is_float or self._is(3):
            return 0
        info = np.iinfo(kind.value)
        return self._integer(info.min, info.max + 1)

    def _begin(self) -> Builder:
        self._graph, self._arrays = Graph(inputs=[], outputs=[]), []
        return Builder(self._graph, lambda operand: Value((), Scalar.FLOAT32))

    def convolution(self, kind: Scalar, *, groups: int = 1) -> Case:
        """Creates a convolution with random stride, dilation and padding."""
        builder = self._begin()
        depth, each = self._length(20), self._length(40)
        kernel, window, shape = self._window()
        source = self._value((*shape[:3], groups * depth), kind, is_constant=False)
        weights = self._value(
            (groups * each, *kernel, depth), self._weights_type(kind), is_constant=not self._is(4)
        )
        sums = builder.convolution(
            source,
            weights,
            output=(*shape[:1], *shape[3:], groups * each),
            type=_sum_type(kind),
            groups=groups,
            input_zero=self._zero(kind),
            weights_zero=self._zero(weights.type),
            **window,
        )
        label = f"{kind.name} {source.shape} * {weights.shape}, {groups} groups, {window}"
        return self._finish(builder, sums, kind, label)

    def few_windows(self, kind: Scalar) -> Case:
        """Creates a convolution with few output positions, and windows that exceed the images."""
        while True:
            case = self.convolution(kind)
            contraction = case.kernel.contraction
            assert isinstance(contraction, Convolution)
            positions = contraction.output.count // contraction.output.shape[-1]
            is_padded = any(any(pair) for pair in contraction.padding)
            if positions <= 8 and is_padded and contraction.weights.constant is not None:
                return case

    def depthwise(self, kind: Scalar, *, multiplier: int = 1) -> Case:
        """Creates a depthwise convolution."""
        builder = self._begin()
        channels = self._length(24)
        kernel, window, shape = self._window()
        source = self._value((*shape[:3], channels), kind, is_constant=False)
        weights = self._value(
            (*kernel, channels * multiplier), self._weights_type(kind), is_constant=not self._is(4)
        )
        sums = builder.depthwise_convolution(
            source,
            weights,
            output=(*shape[:1], *shape[3:], channels * multiplier),
            type=_sum_type(kind),
            input_zero=self._zero(kind),
            weights_zero=self._zero(weights.type),
            **window,
        )
        label = f"{kind.name} {source.shape} * {weights.shape}, {window}"
        return self._finish(builder, sums, kind, label)

    def separable(self, kind: Scalar) -> Case:
        """Creates a depthwise convolution with bias and limits, followed by a 1 × 1 convolution."""
        builder = self._begin()
        channels, outputs = 4 * self._integer(1, 8), 4 * self._integer(1, 12)
        kernel, window, shape = self._window()
        source = self._value((*shape[:3], channels), kind, is_constant=False)
        weights = self._value((*kernel, channels), kind, is_constant=True)
        size = (*shape[:1], *shape[3:])
        sums = builder.depthwise_convolution(source, weights, output=(*size, channels), **window)
        bias = self._value((channels,), Scalar.FLOAT32, is_constant=True)
        between = builder.compute(
            sums.shape, lambda *at: clamp(load(sums, at) + load(bias, at[-1:]), 0.0, 6.0).to(kind)
        )
        products = self._value((outputs, 1, 1, channels), kind, is_constant=True)
        result = builder.convolution(between, products, output=(*size, outputs))
        return self._finish(builder, result, kind, f"{kind.name} {source.shape} * {weights.shape}, {window}")

    def matrix_product(self, kind: Scalar, *, rows: int | None = None, batch: tuple[int, ...] = ()) -> Case:
        """Creates a batched, broadcasting matrix product with random layouts."""
        builder = self._begin()
        m, n, k = rows or self._length(80), self._length(80), self._length(100)
        left_transposed, right_transposed = self._is(2), self._is(2)
        left_batch, right_batch = (tuple(1 if self._is(3) else length for length in batch) for _ in range(2))
        is_constant = not self._is(3)
        left = self._value((*left_batch, *((k, m) if left_transposed else (m, k))), kind, is_constant=False)
        right = self._value(
            (*(() if is_constant else right_batch), *((k, n) if right_transposed else (n, k))),
            self._weights_type(kind),
            is_constant=is_constant,
        )
        sums = builder.matrix_product(
            left,
            right,
            type=_sum_type(kind),
            left_transposed=left_transposed,
            right_transposed=right_transposed,
            left_zero=self._zero(kind),
            right_zero=self._zero(right.type),
        )
        label = f"{kind.name} {left.shape} * {right.shape}, {left_transposed=} {right_transposed=}"
        return self._finish(builder, sums, kind, label)

    def _weights_type(self, kind: Scalar) -> Scalar:
        return Scalar.INT8 if kind is Scalar.UINT8 and self._is(2) else kind

    def _window(self) -> tuple[tuple[int, int], dict[str, Any], tuple[int, ...]]:
        """Returns the kernel size, the other window parameters, and the sizes.

        Sizes are (images, height, width, output height, output width).
        """
        while True:
            size = self._integer(1, 14), self._integer(1, 14)
            kernel = (1, 1) if self._is(3) else (self._integer(1, 4), self._integer(1, 4))
            stride, dilation = ((self._integer(1, 3), self._integer(1, 3)) for _ in range(2))
            padding = tuple((self._integer(0, 3), self._integer(0, 3)) for _ in range(2))
            output = [
                (n + sum(p) - (k - 1) * d - 1) // s + 1
                for n, p, k, d, s in zip(size, padding, kernel, dilation, stride, strict=True)
            ]
            if min(output) > 0:
                window = {"stride": stride, "dilation": dilation, "padding": padding}
                return kernel, window, (self._integer(1, 3), *size, *output)

    def _finish(self, builder: Builder, sums: Value, kind: Scalar, label: str) -> Case:
        """Adds a bias, sometimes a residual, limits, and a conversion to the inputs' type."""
        way = self._integer(0, 4)
        bias = self._value(sums.shape[-1:], sums.type, is_constant=True)
        residual = self._value(sums.shape, kind if kind.is_float else Scalar.INT8, is_constant=False)

        def body(*at: Expression) -> Expression:
            total = load(sums, at)
            if way == 0:
                return total
            total = total + load(bias, at[-1:])
            if way > 1:
                total = total + load(residual, at).to(sums.type)
            if not kind.is_float:
                return clamp(total >> 4, -100, 100).to(Scalar.INT8)
            return (clamp(total, 0.0, 6.0) if way == 2 else maximum(total, 0.0)).to(kind)

        self._graph.outputs = [builder.compute(sums.shape, body)]
        fused = fuse(self._graph)
        kernels = fused.kernels
        assert all(kernel.contraction is not None for kernel in kernels)
        expected = evaluate_fused(fused, self._arrays)[0].reshape(kernels[-1].output.shape)
        arrays = dict(zip(self._graph.inputs, self._arrays, strict=True))
        return Case(kernels=kernels, arrays=arrays, expected=expected, label=f"{label}, epilogue {way}")


def _sum_type(kind: Scalar) -> Scalar:
    return Scalar.FLOAT32 if kind.is_float else Scalar.INT32
