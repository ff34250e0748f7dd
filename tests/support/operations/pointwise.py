"""Operands for element-wise operations."""

import zlib
from collections.abc import Iterable

import numpy as np
from support.compiler.lowering_beside_reference import close
from support.operations.single_operation import Given, given, wanted

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

#: Shapes that broadcast against each other: rank 0, no elements, and lengths of 1 on both sides.
PAIRS_OF_SHAPES = (((), ()), ((0, 3), (3,)), ((2, 1, 5), (7, 1)), ((7,), (2, 3, 1)), ((4, 9), (4, 9)))
SHAPES = ((), (0, 2), (7,), (2, 1, 3, 2))

_SYMMETRIC = (
    OperandType.TENSOR_QUANT8_SYMM,
    OperandType.TENSOR_QUANT16_SYMM,
)


def rows(operations: Iterable[OperationType]) -> list[tuple[OperationType, dict[str, OperandType]]]:
    """Returns each operation with each row of types, except strings."""
    pairs = ((operation, dict(row.types)) for operation in operations for row in DEFINITIONS[operation].rows)
    return [
        (operation, types) for operation, types in pairs if OperandType.TENSOR_STRING not in types.values()
    ]


def label(value: object) -> str | None:
    """Returns the name of an operation or of its types in tests."""
    if isinstance(value, OperationType):
        return value.name
    return (
        "-".join(kind.name for name, kind in value.items() if name != "S")
        if isinstance(value, dict)
        else None
    )


def quantization(kind: OperandType, scale: float = 0.05) -> tuple[float, int]:
    """Returns scale and zero point for a type; 0 and 0 if it has none."""
    if kind not in QUANTIZED:
        return 0.0, 0
    limits = np.iinfo(kind.dtype.name)
    return scale, 0 if kind in _SYMMETRIC else int(limits.min) // 2 + int(limits.max) // 2 + 5


def numbers(
    kind: OperandType, shape: tuple[int, ...], *, seed: int = 0, scale: float = 0.05, low: float = -9.0
) -> Given:
    """Creates random numbers of a type: integers over its range, with its limits first.

    Args:
        kind: of the operand.
        shape: of the operand.
        seed: for the random numbers.
        scale: for types that have one.
        low: lower limit of floats; if it is negative, the first ones are infinities and NaN.
    """
    generator = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), *shape])
    return given(kind, _values(generator, kind, shape, low), *quantization(kind, scale))


def _values(generator: np.random.Generator, kind: OperandType, shape: tuple[int, ...], low: float) -> Array:
    dtype = kind.dtype
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind == "f":
        values = generator.uniform(low, 9, shape).astype(dtype)
        _put_first(values, [0] if low >= 0 else [0, np.inf, -np.inf, np.nan, -0.0])
        return values
    if dtype.kind == "c":
        part = OperandType.TENSOR_FLOAT32 if dtype.itemsize == 8 else OperandType.TENSOR_FLOAT64
        parts = _values(generator, part, (*shape, 2), low)
        return np.ascontiguousarray(parts).view(dtype).reshape(shape)
    limits = np.iinfo(dtype.name)
    values = generator.integers(limits.min, limits.max, shape, dtype.name, endpoint=True).astype(dtype)
    # Some numbers near 0, where integers have the largest relative effect.
    values = np.where(generator.random(shape) < 0.5, values % dtype.type(11), values)
    _put_first(values, [limits.min, limits.max])
    return values


def _put_first(values: Array, first: list[float]) -> None:
    if values.size > len(first):
        values.reshape(-1)[: len(first)] = first


def result(kind: OperandType, scale: float = 0.05) -> Operand:
    """Creates an output of a type."""
    return wanted(kind, *quantization(kind, scale))


def same(found: Array, expected: Array) -> None:
    """Asserts that floats are close, with equal NaN and infinities, and all others equal."""
    (close if found.dtype.kind == "f" else np.testing.assert_array_equal)(found, expected)
