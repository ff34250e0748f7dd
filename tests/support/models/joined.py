"""Models that concatenate matrix products, at offsets that are not always aligned."""

import numpy as np
from support.opencl.models import FLOAT, INT32, QUANT8, Models

import neurald as nd
from neurald.hal.model.model import Model

_Op = nd.OperationType


def joined_model(seed: int, kind: nd.OperandType) -> Model:
    """Creates two to five matrix products, their concatenation, and readers of them.

    Args:
        seed: for the random numbers.
        kind: of values, FLOAT or QUANT8.
    """
    models = Models(seed)
    generator = models.generator
    columns = int(generator.integers(1, 9))
    source = models.input(kind, (3, 8))
    parts: list[tuple[int, int]] = []
    for _ in range(int(generator.integers(2, 6))):
        count = 3 * int(generator.integers(1, 4))
        product = _product(models, source, kind, columns * count // 3)
        shape: tuple[int, ...] = (1, count, columns)
        parts.append((models.add(_Op.RESHAPE, [product, models.constant(shape)], shape=shape), count))
    rows = sum(count for _, count in parts)
    values = [part for part, _ in parts]
    together = models.add(_Op.CONCATENATION, [*values, models.number(1)], shape=(1, rows, columns))
    outputs = [together]
    for value, count in (parts[int(generator.integers(len(parts)))], (together, rows)):
        if generator.random() < 0.5:
            continue
        shape = (count, columns)
        flat = models.add(_Op.RESHAPE, [value, models.constant(shape)], shape=shape)
        outputs.append(_product(models, flat, kind, 5, depth=columns, rows=count))
    return models.finish(*outputs)


def _product(
    models: Models, source: int, kind: nd.OperandType, columns: int, *, depth: int = 8, rows: int = 3
) -> int:
    """Adds a product of a value of `rows` × `depth` with constant weights."""
    generator, builder = models.generator, models.builder
    if kind is FLOAT:
        weights = models.constant(generator.normal(size=(columns, depth)))
        bias = models.constant(generator.normal(size=columns))
    else:
        weights = models.constant(generator.integers(-128, 128, (columns, depth)), QUANT8)
        bias = builder.add_operand(INT32, (columns,), scale=0.25 * 0.25)
        builder.set_operand_value(bias, generator.integers(-99, 99, columns).astype(np.int32))
    return models.add(_Op.FULLY_CONNECTED, [source, weights, bias, models.number(0)], shape=(rows, columns))
