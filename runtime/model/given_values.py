"""Values of operands as applications give them: checks, and the form in which models keep them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.hal.api_arguments import integer, number, read_array, shown, shown_reason
from neurald.hal.errors import BadData, WrongType
from neurald.hal.model.elements import as_elements
from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.masked_elements import require_unmasked
from neurald.hal.model.strings import as_strings, encode_strings
from neurald.hal.model.types import OperandType, byte_size


def constant_size(operand: Operand, what: str) -> int:
    """Returns the size of an operand's value in bytes.

    Args:
        operand: the operand.
        what: names it in messages.

    Raises:
        BadData: it refers to a model, or its shape is not fully specified.
    """
    if operand.type is OperandType.MODEL:
        raise BadData(f"{what}: type MODEL takes a model, not bytes")
    if operand.dimensions is None or 0 in operand.dimensions:
        shape = "unknown rank" if operand.dimensions is None else list(operand.dimensions)
        raise BadData(f"{what}: a constant must be fully specified; its shape is {shape}")
    return byte_size(operand.type, operand.dimensions)


def stored_value(value: Any, operand: Operand, what: str) -> np.ndarray[Any, Any]:
    """Returns the value of an operand as an array of its elements, or the bytes of its strings.

    Args:
        value: an array, a number, or nested lists.
        operand: the operand, whose shape is fully specified.
        what: names it in messages.

    Raises:
        BadData: the value has another size, or numbers that its type does not have.
        WrongType: it is no value of such a type.
    """
    expected = constant_size(operand, what)
    dtype = operand.type.dtype
    if isinstance(value, np.ndarray):
        require_unmasked(value, what)
    if operand.type is OperandType.TENSOR_STRING:
        return _stored_strings(value, operand, what)
    if isinstance(value, np.ndarray | np.generic):
        array = as_elements(np.asarray(value), operand.type)
        if array.dtype != dtype:
            raise BadData(f"{what}: the array has type {array.dtype}; {operand.type.name} needs {dtype}")
    else:
        array = _converted(value, dtype, what)
    if array.nbytes != expected:
        raise BadData(
            f"{what}: the value has {array.nbytes} bytes; "
            f"{operand.type.name}{list(operand.dimensions or ())} needs {expected}"
        )
    return np.ascontiguousarray(array)


def _converted(value: Any, dtype: "np.dtype[Any]", what: str) -> np.ndarray[Any, Any]:
    """Converts Python numbers to an array. Integers and bools must be representable exactly."""
    try:
        given = read_array(value)
        if given.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError("it is complex")
        with np.errstate(over="ignore"):
            array = given.astype(dtype)
            require_unmasked(value, what)
    except (TypeError, ValueError, OverflowError) as error:
        kind = WrongType if isinstance(error, TypeError) else BadData
        raise kind(f"{what}: {shown(value)} cannot be stored as {dtype}: {shown_reason(error)}") from None
    if dtype.kind != "f" and not np.array_equal(given, array):
        raise BadData(f"{what}: {shown(value)} cannot be represented exactly as {dtype}")
    return array


def _stored_strings(value: Any, operand: Operand, what: str) -> np.ndarray[Any, Any]:
    """Encodes strings given as an array, or as nested lists of bytes or text."""
    try:
        given = read_array(value, None if isinstance(value, np.ndarray) else np.dtype(object))
    except (TypeError, ValueError) as error:
        raise BadData(f"{what}: {shown(value)} is not an array of strings: {shown_reason(error)}") from None
    require_unmasked(value, what)
    array = as_strings(given, what)
    if array.size != math.prod(operand.dimensions or ()):
        raise BadData(
            f"{what}: the value has {array.size} strings; TENSOR_STRING{list(operand.dimensions or ())} "
            "is expected"
        )
    return encode_strings(array)


def given_channel_quant(given: tuple[int, Sequence[float]], what: str) -> ChannelQuant:
    """Returns the scales of channels, given as a dimension and a sequence."""
    try:
        dimension, scales = given
        values = list(scales)
    except (TypeError, ValueError):
        raise WrongType(
            f"{what} is {shown(given)}; a dimension and a sequence of scales are expected"
        ) from None
    return ChannelQuant(
        dimension=integer(dimension, f"{what}, the dimension"),
        scales=tuple(given_scale(scale, f"{what}, scale {n}") for n, scale in enumerate(values)),
    )


def given_scale(value: object, what: str) -> float:
    """Rounds a scale to float32, the precision in which all scales are stored."""
    with np.errstate(over="ignore"):
        return float(np.float32(number(value, what)))
