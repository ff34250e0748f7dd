"""Integers of a graph as sums of other integers, such as a loop's counter plus 1.

Slices in a loop often begin at the counter. Their lengths, and those of what is concatenated from
them, are known although the counter is not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue

_T = OperationType
#: Number of elements of operands whose integers are followed.
MAX_ELEMENTS = 32
INTEGER_TYPES = (
    OperandType.INT32,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
)
#: Operations that only move elements, and the input that has them; its other inputs must be known.
_MOVING = {
    _T.RESHAPE: "input",
    _T.TFLITE_RESHAPE: "input",
    _T.EXPAND_DIMS: "input",
    _T.TFLITE_EXPAND_DIMS: "input",
    _T.SQUEEZE: "input",
    _T.TFLITE_SQUEEZE: "input",
    _T.SLICE: "input",
    _T.TFLITE_SLICE: "input",
    _T.STRIDED_SLICE: "input",
    _T.TFLITE_STRIDED_SLICE: "input",
    _T.GATHER: "values",
    _T.TFLITE_GATHER: "values",
    _T.CONCATENATION: "inputs",
    _T.TFLITE_CONCATENATION: "inputs",
    _T.PACK: "inputs",
    _T.TFLITE_PACK: "inputs",
}
_ARITHMETIC = {
    _T.ADD: np.add,
    _T.TFLITE_ADD: np.add,
    _T.SUB: np.subtract,
    _T.TFLITE_SUB: np.subtract,
    _T.MUL: np.multiply,
    _T.TFLITE_MUL: np.multiply,
}
_CASTS = (_T.CAST, _T.TFLITE_CAST)


class Sum(Struct, frozen=True):
    """A constant plus multiples of elements of operands.

    Attributes:
        constant: the constant, which may be a length.
        terms: factors that are not 0, by operand and number of the element.
    """

    constant: "int | Extent"
    terms: tuple[tuple[tuple[int, int], int], ...] = ()

    def __add__(self, other: "Sum") -> "Sum":
        return _total(self.constant + other.constant, [*self.terms, *other.terms])

    def __sub__(self, other: "Sum") -> "Sum":
        return self + other * Sum(-1)

    def __mul__(self, other: "Sum") -> "Sum":
        if self.terms and other.terms:
            raise UnknownValue("a product")
        by, scaled = (self, other) if other.terms else (other, self)
        if scaled.terms and isinstance(by.constant, Extent):
            raise UnknownValue("a product")
        return _total(
            self.constant * other.constant, [(key, factor * by.constant) for key, factor in scaled.terms]
        )


def _total(constant: "int | Extent", terms: list[tuple[tuple[int, int], int]]) -> Sum:
    factors: dict[tuple[int, int], int] = {}
    for key, factor in terms:
        factors[key] = factors.get(key, 0) + factor
    return Sum(constant, tuple(sorted((key, factor) for key, factor in factors.items() if factor)))


#: The sums of an operand's elements, in its shape.
Sums = np.ndarray[Any, np.dtype[np.object_]]


def constant_sums(array: Array) -> Sums:
    """Returns known integers, or lengths, as sums."""
    sums = np.empty(array.shape, object)
    for at, value in np.ndenumerate(array):
        sums[at] = Sum(value if isinstance(value, Extent) else int(value))
    return sums


def unknown_sums(operand: int, shape: Shape) -> Sums:
    """Returns the elements of an operand about which nothing is known."""
    sums = np.empty(shape, object)
    for number, at in enumerate(np.ndindex(*shape)):
        sums[at] = Sum(0, (((operand, number), 1),))
    return sums


def sums_of_result(call: Call, sums_of: Callable[[int], Sums | None]) -> Sums | None:
    """Returns the sums of an operation's only result, or None if it computes something else.

    Args:
        call: the operation; its result and its inputs are integers.
        sums_of: returns the sums of an operand.
    """
    kind = call.binding.type
    try:
        if kind in _ARITHMETIC:
            if "activation" in call.binding.inputs and call.activation is not FusedActivation.NONE:
                return None
            first, second = (sums_of(index) for index in _data(call)[:2])
            if first is None or second is None:
                return None
            result: Sums = np.asarray(_ARITHMETIC[kind](first, second), object)
            return result
        if kind in _CASTS:
            return sums_of(_data(call)[0])
        return _moved(call, sums_of) if kind in _MOVING else None
    except (UnknownValue, BadData):
        return None


def _data(call: Call) -> tuple[int, ...]:
    return tuple(index for indexes in call.binding.inputs.values() for index in indexes)


def _moved(call: Call, sums_of: Callable[[int], Sums | None]) -> Sums | None:
    """Lets the reference move numbers that stand for the elements."""
    labels: dict[int, Array] = {}
    elements: list[Sum] = []
    if len(set(_data(call))) < len(_data(call)) and "inputs" not in call.binding.inputs:
        # The operand that is moved also says how.
        return None
    for index in call.indexes(_MOVING[call.binding.type]):
        sums = sums_of(index)
        if sums is None:
            return None
        if index not in labels:
            first = len(elements)
            elements += sums.reshape(-1).tolist()
            labels[index] = np.arange(first, len(elements), dtype=np.int32).reshape(sums.shape)
    (moved,) = DEFINITIONS[call.binding.type].reference(call.with_values(labels))
    result = np.empty(moved.shape, object)
    for at, number in np.ndenumerate(moved):
        result[at] = elements[int(number)]
    return result
