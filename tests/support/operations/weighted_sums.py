"""Slow but simple convolutions with loops and Python's numbers, to test references."""

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from support.operations.single_operation import QUANT8_TYPES, Given, given, scalars, stored_values, wanted

from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
QUANT8, SIGNED = QUANT8_TYPES
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
INT32 = OperandType.TENSOR_INT32

#: Combinations of input and filter types.
TYPES = [
    (FLOAT32, FLOAT32),
    (FLOAT16, FLOAT16),
    (QUANT8, QUANT8),
    (QUANT8, PER_CHANNEL),
    (SIGNED, SIGNED),
    (SIGNED, PER_CHANNEL),
]
SAME, VALID = 1, 2
_BOUNDS = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def c_divide(value: int, divisor: int) -> int:
    """Divides like C, rounding towards zero."""
    quotient = abs(value) // divisor
    return quotient if value >= 0 else -quotient


def high_product(value: int, mantissa: int) -> int:
    """Returns the high half of twice the product, rounded to nearest like in C (first rounding)."""
    product = value * mantissa
    return c_divide(product + (1 << 30 if product >= 0 else 1 - (1 << 30)), 1 << 31)


def shift_away(value: int, shift: int) -> int:
    """Returns value / 2^shift, ties away from zero, like in C (second rounding)."""
    mask = (1 << shift) - 1
    threshold = (mask >> 1) + (value < 0)
    return (value >> shift) + ((value & mask) > threshold)


def multiplied(value: int, mantissa: int, exponent: int) -> int:
    """Returns a value times a quantised multiplier."""
    left = max(-(1 << 31), min((1 << 31) - 1, value << max(exponent, 0)))
    return shift_away(high_product(left, mantissa), max(-exponent, 0))


def multiplier(real: float) -> tuple[int, int]:
    """Returns mantissa and exponent of a real multiplier, from its exact value."""
    if real == 0:
        return 0, 0
    exact, exponent = Fraction(real), math.frexp(real)[1]
    mantissa = math.floor(exact * Fraction(2) ** (31 - exponent) + Fraction(1, 2))
    if mantissa == 1 << 31:
        mantissa, exponent = 1 << 30, exponent + 1
    if exponent < -31:
        return 0, 0
    return (mantissa, exponent) if exponent <= 30 else ((1 << 31) - 1, 30)


def stored_bounds(operand: Operand, activation: int) -> tuple[int, int]:
    """Returns the smallest and largest quantised value after an activation."""
    limits = np.iinfo(operand.type.dtype.name)
    bounds = []
    for real, limit in zip(_BOUNDS[activation], (limits.min, limits.max), strict=True):
        if math.isinf(real):
            bounds.append(int(limit))
        else:
            ratio = float(np.float32(real) / np.float32(operand.scale))
            quantized_limit = int(math.copysign(math.floor(abs(ratio) + 0.5), ratio)) + operand.zero_point
            bounds.append(max(int(limits.min), min(int(limits.max), quantized_limit)))
    return bounds[0], bounds[1]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Padding, strides and dilation of a case; pairs are (height, width)."""

    scheme: int | None
    explicit: tuple[tuple[int, int], tuple[int, int]]
    stride: tuple[int, int]
    dilation: tuple[int, int] | None
    nchw: bool | None

    def padding(self, size: tuple[int, int], kernel: tuple[int, int]) -> list[tuple[int, int]]:
        """Returns (head, tail) for height and width."""
        if self.scheme is None:
            return list(self.explicit)
        pads = []
        for length, taps, stride, gap in zip(size, kernel, self.stride, self.dilation or (1, 1), strict=True):
            wanted_positions = math.ceil(length / stride)
            missing = (wanted_positions - 1) * stride + (taps - 1) * gap + 1 - length
            total = max(0, missing) if self.scheme == SAME else 0
            pads.append((total // 2, total - total // 2))
        return pads

    def scalars(self, *extra: int, activation: int) -> tuple[Given, ...]:
        """Returns the scalar inputs in order, without omitted ones at the end."""
        (top, bottom), (left, right) = self.explicit
        padding = (left, right, top, bottom) if self.scheme is None else (self.scheme,)
        tail: tuple[Any, ...] = ()
        if self.nchw is not None or self.dilation:
            tail = (bool(self.nchw),)
        if self.dilation:
            tail += self.dilation[::-1]
        return scalars(*padding, *self.stride[::-1], *extra, activation, *tail)


def random_placement(
    generator: np.random.Generator, size: tuple[int, int], kernel: tuple[int, int]
) -> Placement:
    """Creates random parameters with which the window fits on the image."""
    while True:
        dilation = _pair(generator, 1, 4) if generator.random() < 0.5 else None
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation or (1, 1), strict=True)]
        placement = Placement(
            scheme=[None, SAME, VALID][generator.integers(3)],
            explicit=(_pair(generator, 0, extent[0]), _pair(generator, 0, extent[1])),
            stride=_pair(generator, 1, 4),
            dilation=dilation,
            nchw=[None, False, True][generator.integers(3)],
        )
        pads = placement.padding(size, kernel)
        if all(n + sum(p) >= e for n, p, e in zip(size, pads, extent, strict=True)):
            return placement


def _pair(generator: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    return int(generator.integers(low, high)), int(generator.integers(low, high))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A convolution and its data; `values` (NHWC) and `filter` are quantised values."""

    values: Given
    filter: Given
    bias: Given
    placement: Placement
    activation: int
    output: Operand
    depth_multiplier: int | None = None
    scales: tuple[float, ...] = field(default=())

    @property
    def inputs(self) -> tuple[Given, ...]:
        """Returns the operation's inputs in its layout."""
        assert self.values.value is not None
        values = self.values
        if self.placement.nchw:
            operand = values.operand
            moved = np.ascontiguousarray(np.transpose(self.values.value, (0, 3, 1, 2)))
            values = given(operand.type, moved, operand.scale, operand.zero_point)
        extra = () if self.depth_multiplier is None else (self.depth_multiplier,)
        return (
            values,
            self.filter,
            self.bias,
            *self.placement.scalars(*extra, activation=self.activation),
        )

    def expected(self) -> Array:
        """Computes the output in the operation's layout: quantised integers, or float64."""
        sums = self._sums()
        result = np.empty(sums.shape, np.float64 if self.output.scale == 0 else np.int64)
        for index in np.ndindex(sums.shape):
            result[index] = self._stored(sums[index], index[3])
        return np.transpose(result, (0, 3, 1, 2)) if self.placement.nchw else result

    def _stored(self, total: Any, channel: int) -> Any:
        if self.output.scale == 0:
            low, high = _BOUNDS[self.activation]
            return max(low, min(high, total))
        real = self.values.operand.scale * self.scales[channel] / self.output.scale
        low, high = stored_bounds(self.output, self.activation)
        return max(low, min(high, multiplied(total, *multiplier(real)) + self.output.zero_point))

    def _sums(self) -> Array:
        values, filter_, bias = (part.value.tolist() for part in (self.values, self.filter, self.bias))  # type: ignore[union-attr]
        shape, filter_shape = self.values.value.shape, self.filter.value.shape  # type: ignore[union-attr]
        size, kernel = shape[1:3], filter_shape[1:3]
        zero, filter_zero = self.values.operand.zero_point, self.filter.operand.zero_point
        dilation, stride = self.placement.dilation or (1, 1), self.placement.stride
        pads = self.placement.padding(size, kernel)
        positions = [
            (n + sum(p) - (k - 1) * d - 1) // s + 1
            for n, p, k, d, s in zip(size, pads, kernel, dilation, stride, strict=True)
        ]
        depthwise = self.depth_multiplier is not None
        channels = filter_shape[3 if depthwise else 0]
        sums = np.empty((shape[0], *positions, channels), object)
        for b, row, column, c in np.ndindex(sums.shape):
            total = bias[c]
            for ky, kx in itertools.product(range(kernel[0]), range(kernel[1])):
                y = row * stride[0] - pads[0][0] + ky * dilation[0]
                x = column * stride[1] - pads[1][0] + kx * dilation[1]
                if not (0 <= y < size[0] and 0 <= x < size[1]):
                    continue
                if self.depth_multiplier is not None:
                    value = values[b][y][x][c // self.depth_multiplier]
                    total += (value - zero) * (filter_[0][ky][kx][c] - filter_zero)
                else:
                    for depth in range(shape[3]):
                        total += (values[b][y][x][depth] - zero) * (filter_[c][ky][kx][depth] - filter_zero)
            sums[b, row, column, c] = total
        return sums


def random_case(
    generator: np.random.Generator,
    types: tuple[OperandType, OperandType],
    *,
    shape: tuple[int, int, int, int] | None = None,
    depth_multiplier: int | None = None,
) -> Case:
    """Creates a random convolution, or a depthwise one if there is a depth multiplier."""
    integers = generator.integers
    shape = shape or (int(integers(1, 3)), int(integers(1, 8)), int(integers(1, 8)), int(integers(1, 4)))
    kernel = (int(integers(1, 4)), int(integers(1, 4)))
    placement = random_placement(generator, shape[1:3], kernel)
    channels = int(integers(1, 5)) if depth_multiplier is None else shape[3] * depth_multiplier
    filter_shape = (channels, *kernel, shape[3]) if depth_multiplier is None else (1, *kernel, channels)
    activation = int(integers(4))
    if types[0] not in QUANT8_TYPES:
        values, filter_, bias = (
            given(types[0], generator.standard_normal(s)) for s in (shape, filter_shape, (channels,))
        )
        output = wanted(types[0], rank=4)
        return Case(
            values=values,
            filter=filter_,
            bias=bias,
            placement=placement,
            activation=activation,
            output=output,
            depth_multiplier=depth_multiplier,
        )
    limits = np.iinfo(types[0].dtype.name)
    scale = _random_scale(generator, -8, 0)
    zero_point = int(integers(limits.min, limits.max + 1))
    per_channel = types[1] is PER_CHANNEL
    scales = tuple(_random_scale(generator, -8, 0) for _ in range(channels if per_channel else 1))
    dimension = 0 if depth_multiplier is None else 3
    filter_ = given(
        types[1],
        stored_values(generator, types[1], filter_shape),
        0.0 if per_channel else scales[0],
        0 if per_channel else int(integers(limits.min, limits.max + 1)),
        channel_quant=ChannelQuant(dimension=dimension, scales=scales) if per_channel else None,
    )
    return Case(
        values=given(types[0], stored_values(generator, types[0], shape), scale, zero_point),
        filter=filter_,
        bias=given(
            INT32,
            integers(-20_000, 20_000, channels),
            0.0 if per_channel else float(np.float32(scale * scales[0])),
        ),
        placement=placement,
        activation=activation,
        # From outputs that all saturate to outputs that are all equal.
        output=wanted(
            types[0],
            float(np.float32(scale * scales[0] * 2.0 ** generator.uniform(-2, 18))),
            int(integers(limits.min, limits.max + 1)),
            rank=4,
        ),
        depth_multiplier=depth_multiplier,
        scales=scales if per_channel else scales * channels,
    )


def _random_scale(generator: np.random.Generator, low: int, high: int) -> float:
    return float(np.float32(2.0 ** generator.uniform(low, high)))


def assert_as_expected(case: Case, result: Array) -> None:
    """Asserts that quantised results are equal, and floats as close as their type allows."""
    expected = case.expected()
    assert result.shape == expected.shape
    assert result.flags.c_contiguous
    if case.output.scale:
        np.testing.assert_array_equal(result, expected)
    else:
        # One float16 rounding at the end; float32 sums of some tens of products.
        limit = {FLOAT32: 1e-5, FLOAT16: 2.0**-10}[case.output.type]
        np.testing.assert_allclose(result, expected, rtol=limit, atol=limit / 10)
