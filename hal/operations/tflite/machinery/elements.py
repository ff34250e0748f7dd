"""Common parts of operations that only move elements: they accept all types and copy raw values."""

from collections.abc import Callable
from functools import cache

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, Parameter, Row, row
from neurald.hal.records import replace

#: ELEMENTS that have an order.
ORDERED_ELEMENTS = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT16_SYMM,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_UINT32,
    OperandType.TENSOR_UINT64,
    OperandType.TENSOR_FLOAT64,
)
#: Types of elements that are moved as raw values.
ELEMENTS = (*ORDERED_ELEMENTS, OperandType.TENSOR_COMPLEX64, OperandType.TENSOR_COMPLEX128)
#: ELEMENTS and strings, which most operations do not support.
ELEMENTS_AND_STRINGS = (*ELEMENTS, OperandType.TENSOR_STRING)
#: Types of indexes and lengths.
INDEXES = frozenset((OperandType.TENSOR_INT32, OperandType.TENSOR_INT64))
#: Additional index types of a few operators.
SHORT_INDEXES = INDEXES | {
    OperandType.TENSOR_QUANT16_SYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
}


@cache
def element_rows(types: tuple[OperandType, ...] = ELEMENTS) -> tuple[Row, ...]:
    """Returns rows for data of one of the types; many definitions have the same."""
    return tuple(row(FeatureLevel.LEVEL_1, T=kind, zero_points16=True) for kind in types)


def indexes(
    name: str,
    *,
    rank: int | tuple[int, int] = 1,
    types: frozenset[OperandType] = INDEXES,
) -> Parameter:
    """Creates a parameter for a tensor of indexes or lengths."""
    ranks = (rank, rank) if isinstance(rank, int) else rank
    return Parameter(name=name, types=types, ranks=ranks)


def number(name: str) -> Parameter:
    """Creates a parameter for an integer: a scalar, or a tensor with one element."""
    return Parameter(name=name, types=SHORT_INDEXES | {OperandType.INT32}, ranks=ANY_RANK)


def extend_movement(
    definition: Definition,
    operation_type: OperationType,
    *,
    types: tuple[OperandType, ...] = ELEMENTS,
    shape: Callable[[Call], tuple[Shape, ...]] | None = None,
    reference: Callable[[Call], tuple[Array, ...]] | None = None,
) -> Definition:
    """Extends an Android operation that moves elements to all element types, ranks and index types.

    Checks of Android, which compare scales, are left out: raw values are copied, and the output's
    scale determines their meaning.

    Args:
        definition: the definition of the Android operation.
        operation_type: operation of the extension.
        types: the types of the elements.
        shape, reference: replacements for Android's, if necessary.
    """
    return replace(
        definition,
        type=operation_type,
        forms=tuple(_of_any_index(form) for form in definition.forms),
        rows=element_rows(types),
        checks=(),
        shape=shape or definition.shape,
        reference=reference or definition.reference,
        level=None,
        widens=definition.type,
    )


def _of_any_index(form: Form) -> Form:
    return replace(
        form,
        inputs=tuple(_of_any_type(parameter) for parameter in form.inputs),
        outputs=tuple(_of_any_type(parameter) for parameter in form.outputs),
    )


def _of_any_type(parameter: Parameter) -> Parameter:
    if isinstance(parameter.types, str):
        return replace(parameter, ranks=ANY_RANK)
    if parameter.types == {OperandType.TENSOR_INT32}:
        return replace(parameter, types=SHORT_INDEXES)
    if parameter.types == {OperandType.INT32}:
        return replace(parameter, types=number(parameter.name).types, ranks=ANY_RANK)
    return parameter


def lengths(call: Call, name: str) -> Shape:
    """Returns the value of a list of lengths as a shape.

    Raises:
        BadData: it is not a list, too long, or a length is negative.
        UnknownValue: it is not known yet.
    """
    (rank,) = call.shape(name)
    if rank > MAX_RANK:
        raise BadData(f"{call.name(name)} has {rank} lengths; at most {MAX_RANK} are allowed")
    shape = tuple(call.array(name).tolist())
    if any(length < 0 for length in shape):
        raise BadData(f"{call.name(name)} is {list(shape)}; no length may be negative")
    return shape


def checked_indexes(call: Call, name: str, length: int) -> Array:
    """Returns indexes below that length, as int64.

    Raises:
        BadData: one of them is out of range.
        UnknownValue: they are not known yet.
    """
    found: Array = call.array(name).astype(np.int64)
    outside = (found < 0) | (found >= length)
    if outside.any():
        raise BadData(
            f"{call.name(name)} has {found[outside].flat[0]}; indexes from 0 to {length - 1} are expected"
        )
    return found
