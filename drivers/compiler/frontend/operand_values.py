"""Operands as the values that kernels compute with."""

from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.drivers.compiler.ir.complex_numbers import (
    as_numbers,
    as_pairs,
    is_complex,
    part_type,
    value_shape,
)
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.string_references import StringConstants, is_string, stored_dtype
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.machinery.call import Array


def value_of_operand(
    operand: Operand,
    shape: Shape | None,
    array: Array | None,
    index: int,
    strings: StringConstants | None,
) -> Value:
    """Returns an operand as a value.

    Raises:
        Unsupported: kernels do not support its type, or its shape is not known yet.
    """
    if strings is None and is_string(operand.type):
        raise Unsupported(f"{operand.type.name} is not supported by kernels")
    kind = scalar_of(operand.type)
    if shape is None:
        raise Unsupported(f"the shape of operand {index} is not known before execution")
    if operand.lifetime is Lifetime.NO_VALUE:
        raise Unsupported(f"operand {index} is omitted but required")
    elements = None if array is None else stored_elements(operand.type, array, strings)
    return Value(value_shape(operand.type, shape), kind, elements, operand.name or f"operand {index}")


def scalar_of(kind: OperandType) -> Scalar:
    """Returns the scalar type of an operand; for complex operands, the type of their parts.

    Strings are references.

    Raises:
        Unsupported: kernels do not support the type.
    """
    if kind is OperandType.MODEL:
        raise Unsupported("graph operands are not supported by kernels")
    if is_complex(kind):
        return Scalar.of(part_type(kind))
    try:
        return Scalar.of(stored_dtype(kind))
    except KeyError:
        raise Unsupported(f"{kind.name} is not supported by kernels") from None


def stored_elements(kind: OperandType, array: Array, strings: StringConstants | None) -> Array:
    """Returns the elements of a constant in the form that kernels compute with."""
    if strings is not None and is_string(kind):
        return strings.references(array)
    return as_pairs(array)


def elements_of_operand(kind: OperandType, array: Array, strings: StringConstants | None) -> Array:
    """Returns the elements of a constant as the operand's type has them."""
    if strings is not None and is_string(kind):
        return strings.of(array)
    return as_numbers(kind, array)
