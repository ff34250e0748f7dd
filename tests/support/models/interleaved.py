"""Models that concatenate convolutions and other operations as channels of one image."""

import numpy as np
from support.opencl.models import FLOAT, INT32, QUANT8, Models

import neurald as nd
from neurald.hal.model.model import Model

_Op = nd.OperationType


def interleaved_model(seed: int, kind: nd.OperandType) -> Model:
    """Creates branches on a small image, their concatenation, and a convolution of it.

    Args:
        seed: for the random numbers.
        kind: of values, FLOAT or QUANT8.
    """
    models = Models(seed)
    generator = models.generator
    images, height, width = (int(generator.integers(low, high)) for low, high in ((1, 3), (1, 9), (1, 9)))
    depth = int(generator.integers(1, 60))
    source = models.input(kind, (images, height, width, depth))
    parts: list[tuple[int, int]] = []
    for _ in range(int(generator.integers(2, 6))):
        size, channels = int(generator.choice([1, 3])), int(generator.integers(32, 90))
        parts.append((_convolution(models, source, (images, height, width, depth), channels, size), channels))
    if generator.random() < 0.5:
        shape = images, height, width, depth
        sizes = [models.number(each) for each in (1, 1, 1, 3, 3, 0)]
        parts.append((models.add(_Op.AVERAGE_POOL_2D, [source, *sizes], shape=shape), depth))
    if generator.random() < 0.5:
        parts.append((_depthwise(models, source, (images, height, width, depth)), depth))
    channels = sum(each for _, each in parts)
    shape = images, height, width, channels
    together = models.add(_Op.CONCATENATION, [*(part for part, _ in parts), models.number(3)], shape=shape)
    outputs = [_convolution(models, together, shape, 7, 1)]
    if generator.random() < 0.5:
        outputs.append(together)
    if generator.random() < 0.5:
        outputs.append(parts[int(generator.integers(len(parts)))][0])
    return models.finish(*outputs)


def _depthwise(models: Models, source: int, shape: tuple[int, int, int, int]) -> int:
    """Adds a depthwise convolution."""
    weights, bias = _weights(models, source, (1, 3, 3, shape[3]), shape[3])
    options = [models.number(each) for each in (1, 1, 1, 1, 0)]
    return models.add(_Op.DEPTHWISE_CONV_2D, [source, weights, bias, *options], shape=shape)


def _convolution(
    models: Models, source: int, shape: tuple[int, int, int, int], channels: int, size: int
) -> int:
    """Adds a convolution that preserves height and width."""
    *outer, depth = shape
    weights, bias = _weights(models, source, (channels, size, size, depth), channels)
    options = [models.number(each) for each in (1, 1, 1, int(models.generator.integers(4)))]
    return models.add(_Op.CONV_2D, [source, weights, bias, *options], shape=(*outer, channels))


def _weights(models: Models, source: int, shape: tuple[int, ...], channels: int) -> tuple[int, int]:
    """Adds weights of a shape, and a bias for each channel."""
    generator, builder = models.generator, models.builder
    if models.types[source] is FLOAT:
        weights = models.constant(generator.normal(size=shape) * 0.2)
        return weights, models.constant(generator.normal(size=channels))
    weights = models.constant(generator.integers(-128, 128, shape), QUANT8)
    bias = builder.add_operand(INT32, (channels,), scale=0.25 * 0.25)
    builder.set_operand_value(bias, generator.integers(-99, 99, channels).astype(np.int32))
    return weights, bias
