"""Blocks of a 1 × 1, a depthwise and another 1 × 1 convolution, in any type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.precision import Precision
from neurald.hal.model.model import Model

RELU6, SAME, VALID = 3, 1, 2
_Op, _Type = nd.OperationType, nd.OperandType
FLOAT, INT8, UINT8 = _Type.TENSOR_FLOAT32, _Type.TENSOR_QUANT8_ASYMM_SIGNED, _Type.TENSOR_QUANT8_ASYMM
_PER_CHANNEL = _Type.TENSOR_QUANT8_SYMM_PER_CHANNEL


@dataclass(frozen=True, kw_only=True)
class Block:
    """The parameters of a block.

    Attributes:
        type: of the values.
        per_channel: whether integer weights have a scale for each channel.
        has_expand: whether the block has the first layer.
        also: intermediate value that is an output as well.
    """

    type: nd.OperandType = FLOAT
    per_channel: bool = False
    relaxed: bool = False
    images: int = 1
    height: int = 7
    width: int = 7
    channels: int = 8
    wide: int = 24
    outputs: int = 8
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = SAME
    dilation: int = 1
    has_expand: bool = True
    has_residual: bool = False
    activation: int = 0
    also: str = ""

    def model(self) -> Model:
        """Creates the block as a model of one input."""
        return _Writer(self).model()


class _Writer:
    def __init__(self, block: Block) -> None:
        self.block = block
        self.builder = nd.ModelBuilder()
        self.random = np.random.default_rng(block.wide + block.outputs)

    def _value(self, shape: Sequence[int], scale: float, zero: int) -> int:
        kind = self.block.type
        if kind is FLOAT:
            return self.builder.add_operand(kind, shape)
        # The same number of steps above the smallest value, independent of the type.
        zero_point = zero + (128 if kind is UINT8 else 0)
        return self.builder.add_operand(kind, shape, scale=scale, zero_point=zero_point)

    def _number(self, value: bool | int) -> int:
        index = self.builder.add_operand(_Type.BOOL if isinstance(value, bool) else _Type.INT32)
        self.builder.set_operand_value(index, value)
        return index

    def _constant(self, array: np.ndarray, kind: nd.OperandType, **quantization: Any) -> int:
        index = self.builder.add_operand(kind, array.shape, **quantization)
        self.builder.set_operand_value(index, array.astype(kind.dtype))
        return index

    def _weights(self, shape: tuple[int, ...], dimension: int, depth: int, source_scale: float) -> list[int]:
        """Adds weights with their channels along a dimension, and a bias."""
        count, kind = shape[dimension], self.block.type
        if kind is FLOAT:
            weights = self.random.standard_normal(shape) / np.sqrt(depth)
            return [self._constant(weights, FLOAT), self._constant(self.random.standard_normal(count), FLOAT)]
        bias = self.random.integers(-300, 300, count)
        numbers = self.random.integers(-120, 121, shape)
        step = 0.02 / np.sqrt(depth)
        if self.block.per_channel:
            scales = (step * self.random.uniform(0.5, 2, count)).tolist()
            return [
                self._constant(numbers, _PER_CHANNEL, channel_quant=(dimension, scales)),
                self._constant(bias, _Type.TENSOR_INT32),
            ]
        zero = 131 if kind is UINT8 else 2
        weights = self._constant(
            np.clip(numbers + zero, *((0, 255) if kind is UINT8 else (-126, 127))),
            kind,
            scale=step,
            zero_point=zero,
        )
        return [weights, self._constant(bias, _Type.TENSOR_INT32, scale=source_scale * step)]

    def _add(
        self, operation: nd.OperationType, inputs: list[int], shape: Sequence[int], scale: float, zero: int
    ) -> int:
        output = self._value(shape, scale, zero)
        self.builder.add_operation(operation, inputs, [output])
        return output

    def model(self) -> Model:
        block = self.block
        shape = (block.images, block.height, block.width)
        one = self._number(1)
        source = wide = self._value((*shape, block.channels), 0.05, 3)
        wide_scale, wide_channels = 0.05, block.channels
        if block.has_expand:
            weights = self._weights((block.wide, 1, 1, block.channels), 0, block.channels, 0.05)
            options = [self._number(SAME), one, one, self._number(RELU6)]
            wide_scale, wide_channels = 0.03, block.wide
            wide = self._add(
                _Op.CONV_2D, [source, *weights, *options], (*shape, block.wide), wide_scale, -100
            )
        reach = [(length - 1) * block.dilation + 1 for length in block.kernel]
        size = tuple(
            -(-(length if block.padding == SAME else length - far + 1) // block.stride)
            for length, far in zip(shape[1:], reach, strict=True)
        )
        step = self._number(block.stride)
        options = [self._number(block.padding), step, step, one, self._number(RELU6)]
        if block.dilation > 1:
            options += [self._number(False), self._number(block.dilation), self._number(block.dilation)]
        depth = block.kernel[0] * block.kernel[1]
        weights = self._weights((1, *block.kernel, wide_channels), 3, depth, wide_scale)
        between = self._add(
            _Op.DEPTHWISE_CONV_2D,
            [wide, *weights, *options],
            (block.images, *size, wide_channels),
            0.028,
            -90,
        )
        weights = self._weights((block.outputs, 1, 1, wide_channels), 0, wide_channels, 0.028)
        options = [self._number(SAME), one, one, self._number(block.activation)]
        after_shape = (block.images, *size, block.outputs)
        after = self._add(_Op.CONV_2D, [between, *weights, *options], after_shape, 0.06, 5)
        if block.has_residual:
            after = self._add(_Op.ADD, [after, source, self._number(0)], after_shape, 0.07, -3)
        also = {"wide": (wide,), "between": (between,)}.get(block.also, ())
        self.builder.identify_inputs_and_outputs([source], [after, *also])
        self.builder.relax_computation_float32_to_float16(block.relaxed)
        return self.builder.finish()


def precision_of(block: Block) -> Precision:
    """Returns the precision of a block."""
    return Precision.F16 if block.relaxed else Precision.F32


def chain_of(block: Block, chains: Sequence[KernelChain]) -> KernelChain | None:
    """Returns the chain that covers all layers of a block; None if there is none."""
    count = 3 if block.has_expand else 2
    return next((each for each in chains if len(each.members) == count), None)


def sources_of(block: Block, facts: DeviceFacts) -> list[Source]:
    """Returns every source that computes a block as one kernel."""
    found: list[Source] = []

    def choose(kernels, chains):  # type: ignore[no-untyped-def]
        chain = chain_of(block, chains)
        found.extend(() if chain is None else chain.sources)
        return [sources[0] for sources in kernels]

    compile_model(block.model(), {}, facts, precision=precision_of(block), choose=choose)
    return found


def taken(
    block: Block, kernels: Sequence[Sequence[Source]], chains: Sequence[KernelChain], number: int
) -> list[Source | None]:
    """Returns the choice for `compile_model` that uses one of the sources of `sources_of`."""
    chain = chain_of(block, chains)
    assert chain is not None
    chosen: list[Source | None] = [sources[0] for sources in kernels]
    for position in chain.members:
        chosen[position] = None
    chosen[chain.members[-1]] = chain.sources[number]
    return chosen
