"""A small image network with every kind of layer that kernels read four elements at a time."""

import numpy as np

import neurald as nd
from neurald.hal.model.model import Model

FLOAT32, FLOAT16 = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_FLOAT16
UNSIGNED, SIGNED = nd.OperandType.TENSOR_QUANT8_ASYMM, nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
_Op = nd.OperationType
_SCALE = 0.05


class _Network:
    """Builds a network.

    Args:
        kind: type of all values.
        seed: for the constants.
    """

    def __init__(self, kind: nd.OperandType, seed: int) -> None:
        self.kind = kind
        self.builder = nd.ModelBuilder()
        self._random = np.random.default_rng(seed)
        self._zero = {UNSIGNED: 128, SIGNED: -3}.get(kind, 0)

    @property
    def _is_float(self) -> bool:
        return self.kind in (FLOAT32, FLOAT16)

    def value(self, *shape: int) -> int:
        scale = 0.0 if self._is_float else _SCALE
        return self.builder.add_operand(self.kind, shape, scale=scale, zero_point=self._zero)

    def weights(self, *shape: int) -> int:
        if self._is_float:
            index = self.builder.add_operand(self.kind, shape)
            array = self._random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        else:
            zero = 130 if self.kind is UNSIGNED else 2
            index = self.builder.add_operand(self.kind, shape, scale=0.01, zero_point=zero)
            limits = np.iinfo(self.kind.dtype.name)
            array = self._random.integers(limits.min, limits.max + 1, shape)
        self.builder.set_operand_value(index, array.astype(self.kind.dtype))
        return index

    def bias(self, channels: int) -> int:
        if self._is_float:
            index = self.builder.add_operand(self.kind, (channels,))
            array = self._random.normal(size=channels).astype(self.kind.dtype)
        else:
            scale = float(np.float32(np.float32(_SCALE) * np.float32(0.01)))
            index = self.builder.add_operand(nd.OperandType.TENSOR_INT32, (channels,), scale=scale)
            array = self._random.integers(-999, 999, channels).astype(np.int32)
        self.builder.set_operand_value(index, array)
        return index

    def numbers(self, *values: int) -> list[int]:
        found = []
        for value in values:
            found.append(self.builder.add_operand(nd.OperandType.INT32))
            self.builder.set_operand_value(found[-1], value)
        return found

    def shape(self, *lengths: int) -> int:
        index = self.builder.add_operand(nd.OperandType.TENSOR_INT32, (len(lengths),))
        self.builder.set_operand_value(index, np.array(lengths, np.int32))
        return index

    def add(self, operation: nd.OperationType, inputs: list[int], *shape: int) -> int:
        output = self.value(*shape)
        self.builder.add_operation(operation, inputs, [output])
        return output


def small_network(kind: nd.OperandType, size: int, depth: int, channels: int, seed: int = 0) -> Model:
    """Creates CONV_2D, DEPTHWISE_CONV_2D, 1 × 1 CONV_2D, ADD, RELU6, FULLY_CONNECTED.

    Args:
        kind: type of all values: FLOAT32, FLOAT16, UNSIGNED or SIGNED.
        size: height and width of the image.
        depth: channels of the image.
        channels: channels of the layers.
        seed: for the constants.
    """
    network = _Network(kind, seed)
    half = -(-size // 2)
    area = (1, half, half, channels)
    image = network.value(1, size, size, depth)
    window = [image, network.weights(channels, 3, 3, depth), network.bias(channels)]
    first = network.add(_Op.CONV_2D, [*window, *network.numbers(1, 2, 2, 0)], *area)
    across = [first, network.weights(1, 3, 3, channels), network.bias(channels)]
    second = network.add(_Op.DEPTHWISE_CONV_2D, [*across, *network.numbers(1, 1, 1, 1, 3)], *area)
    points = [second, network.weights(channels, 1, 1, channels), network.bias(channels)]
    third = network.add(_Op.CONV_2D, [*points, *network.numbers(1, 1, 1, 0)], *area)
    total = network.add(_Op.ADD, [third, first, *network.numbers(0)], *area)
    limited = network.add(_Op.RELU6, [total], *area)
    count = half * half * channels
    flat = network.add(_Op.RESHAPE, [limited, network.shape(1, count)], 1, count)
    last = [flat, network.weights(10, count), network.bias(10), *network.numbers(0)]
    result = network.add(_Op.FULLY_CONNECTED, last, 1, 10)
    network.builder.identify_inputs_and_outputs([image], [result, limited, second])
    return network.builder.finish()
