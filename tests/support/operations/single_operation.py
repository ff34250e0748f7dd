"""Binds, checks and runs a single operation through its definition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.model.elements import array_to_store
from neurald.hal.model.graph import ChannelQuant, Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.signature import Binding
from neurald.hal.records import replace

FLOAT_TYPES = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
QUANT8_TYPES = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)

_SCALARS = {bool: OperandType.BOOL, int: OperandType.INT32, float: OperandType.FLOAT32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An input: its operand, and its value unless it is omitted or unknown."""

    operand: Operand
    value: Array | None


def given(
    operand_type: OperandType,
    value: Any,
    scale: float = 0.0,
    zero_point: int = 0,
    *,
    channel_quant: ChannelQuant | None = None,
) -> Given:
    """Creates a constant of a type, with a known shape and value."""
    array = np.asarray(value, operand_type.dtype)
    operand = Operand(
        type=operand_type,
        dimensions=array.shape,
        scale=scale,
        zero_point=zero_point,
        channel_quant=channel_quant,
        lifetime=Lifetime.CONSTANT_COPY,
        value=array_to_store(array, operand_type).tobytes(),
    )
    return Given(operand=operand, value=array)


def scalars(*values: bool | int | float) -> tuple[Given, ...]:
    """Creates scalar constants of the types that correspond to the Python types."""
    return tuple(given(_SCALARS[type(value)], value) for value in values)


def ints(*values: int) -> Given:
    """Creates a TENSOR_INT32 of rank 1."""
    return given(OperandType.TENSOR_INT32, list(values))


def unknown(source: Given) -> Given:
    """Returns the same input with unknown shape and value."""
    operand = replace(source.operand, dimensions=None, lifetime=Lifetime.SUBGRAPH_INPUT, value=b"")
    return Given(operand=operand, value=None)


def omitted(operand_type: OperandType) -> Given:
    """Creates an omitted optional input."""
    operand = Operand(type=operand_type, dimensions=None, lifetime=Lifetime.NO_VALUE)
    return Given(operand=operand, value=None)


def wanted(
    operand_type: OperandType, scale: float = 0.0, zero_point: int = 0, rank: int | None = None
) -> Operand:
    """Creates an output of unknown shape."""
    dimensions = None if rank is None else (0,) * rank
    return Operand(type=operand_type, dimensions=dimensions, scale=scale, zero_point=zero_point)


def call_of(operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand) -> Call:
    """Binds an operation; its inputs are the operands from 0 on."""
    operands = [*(source.operand for source in inputs), *outputs]
    values = dict(enumerate(source.value for source in inputs))

    def shape_of(index: int) -> tuple[int, ...] | None:
        value = values.get(index)
        return None if value is None else value.shape

    return Call(_bind(operation_type, len(inputs), operands), operands, shape_of, values.get)


def _bind(operation_type: OperationType, inputs: int, operands: Sequence[Operand]) -> Binding:
    operation = Operation(
        type=operation_type, inputs=tuple(range(inputs)), outputs=tuple(range(inputs, len(operands)))
    )
    return DEFINITIONS[operation_type].bind(operation, operands)


def level_of(operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand) -> FeatureLevel:
    """Returns the feature level that the operation needs with these operands."""
    operands = [*(source.operand for source in inputs), *outputs]
    return DEFINITIONS[operation_type].level_of(_bind(operation_type, len(inputs), operands), operands)


def evaluate_all(
    operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand
) -> tuple[Array, ...]:
    """Runs checks, shape rule and reference; returns all outputs.

    Asserts that the outputs have the inferred shapes and types.
    """
    call = call_of(operation_type, inputs, *outputs)
    definition = DEFINITIONS[operation_type]
    definition.check(call)
    shapes = definition.output_shapes(call)
    results = definition.reference(call)
    for result, shape, operand in zip(results, shapes, outputs, strict=True):
        assert result.shape == shape
        assert result.dtype == operand.type.dtype
    return results


def evaluate(operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand) -> Array:
    """Returns the first output; see `evaluate_all`."""
    return evaluate_all(operation_type, inputs, *outputs)[0]


def stored_values(generator: np.random.Generator, operand_type: OperandType, shape: tuple[int, ...]) -> Array:
    """Returns random values over the whole range of an integer type of at most 16 bits."""
    limits = np.iinfo(operand_type.dtype.name)
    return generator.integers(limits.min, limits.max + 1, shape).astype(operand_type.dtype)


def zero_points(operand_type: OperandType) -> Iterator[int]:
    """Yields the lowest, a middle and the highest zero point of an 8-bit asymmetric type."""
    lowest = 0 if operand_type is OperandType.TENSOR_QUANT8_ASYMM else -128
    yield from (lowest, lowest + 117, lowest + 255)


def counted(operand_type: OperandType, *shape: int) -> Given:
    """Creates a constant of counted elements: 0, 1, 2 and so on, up to 99 and again."""
    return given(operand_type, np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100, 0.5)
