"""Models that are long chains of operations, which compilers fuse into one kernel."""

from collections.abc import Callable

from support.opencl.models import COLUMNS, INT32, QUANT8, ROWS, Models

import neurald as nd
from neurald.hal.model.model import Model

_Op = nd.OperationType


def _elementwise(models: Models, length: int) -> int:
    value, other = models.input(), models.input()
    half, none = models.constant([0.5]), models.number(0)
    for step in range(length):
        if step % 3 == 0:
            value = models.add(_Op.ADD, [value, other, none])
        elif step % 3 == 1:
            value = models.add(_Op.MUL, [value, half, none])
        else:
            value = models.add(_Op.MAXIMUM, [value, other])
    return value


def _whole_numbers(models: Models, length: int) -> int:
    value, other = models.input(INT32), models.input(INT32)
    none = models.number(0)
    for step in range(length):
        if step % 2 == 0:
            value = models.add(_Op.ADD, [value, other, none])
        else:
            value = models.add(_Op.MINIMUM, [value, other])
    return value


def _stored_values(models: Models, length: int) -> int:
    value, other = models.input(QUANT8), models.input(QUANT8)
    none = models.number(0)
    for step in range(length):
        value = models.add(_Op.ADD if step % 2 else _Op.SUB, [value, other, none])
    return value


def _behind_a_product(models: Models, length: int) -> int:
    value, other = models.input(), models.input()
    weights = models.constant(models.generator.normal(size=(COLUMNS, COLUMNS)))
    bias, none = models.constant(models.generator.normal(size=COLUMNS)), models.number(0)
    value = models.add(_Op.FULLY_CONNECTED, [value, weights, bias, none])
    for _ in range(length):
        value = models.add(_Op.ADD, [value, other, none])
    return value


def _behind_a_fold(models: Models, length: int) -> int:
    value, other = models.input(), models.input(shape=(ROWS, 1))
    total = models.add(_Op.REDUCE_SUM, [value, models.constant([1]), models.number(True)], shape=(ROWS, 1))
    for _ in range(length):
        total = models.add(_Op.ADD, [total, other, models.number(0)], shape=(ROWS, 1))
    return total


def _in_a_fold(models: Models, length: int) -> int:
    value = _elementwise(models, length)
    return models.add(_Op.REDUCE_MAX, [value, models.constant([0]), models.number(True)], shape=(1, COLUMNS))


def _moved(models: Models, length: int) -> int:
    value = models.input()
    pads, size = models.constant([[1, 0], [0, 2]]), models.constant([ROWS, COLUMNS])
    begin = models.constant([0, 1])
    for _ in range(length // 2):
        wide = models.add(_Op.PAD, [value, pads], shape=(ROWS + 1, COLUMNS + 2))
        value = models.add(_Op.SLICE, [wide, begin, size])
    return value


_CHAINS: dict[str, Callable[[Models, int], int]] = {
    "elementwise": _elementwise,
    "whole numbers": _whole_numbers,
    "stored values": _stored_values,
    "behind a product": _behind_a_product,
    "behind a fold": _behind_a_fold,
    "in a fold": _in_a_fold,
    "moved": _moved,
}
CHAINS = tuple(_CHAINS)


def deep_model(chain: str, length: int) -> Model:
    """Creates a chain of `length` operations of one of the `CHAINS`."""
    models = Models()
    return models.finish(_CHAINS[chain](models, length))
