"""Converts values to the arrays of inputs, and real numbers to quantised ones and back."""

from typing import Any, TypeAlias

import numpy as np

from neurald.hal.api_arguments import read_array, shown, shown_reason
from neurald.hal.errors import BadData, WrongType
from neurald.hal.model.masked_elements import require_unmasked
from neurald.runtime.function.tensor_info import TensorInfo

Array: TypeAlias = np.ndarray[Any, Any]


def as_array(value: Any) -> Any:
    """Returns a value as an array if it is a tensor of another library on the CPU.

    Such tensors have DLPack's methods. Their memory is not copied. Other values are returned
    unchanged.

    Raises:
        BadData: the tensor is not in the memory of the CPU.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.from_dlpack(value) if hasattr(value, "__dlpack__") else value
    except Exception as error:  # Those of other libraries may be any.
        raise BadData(
            f"a {type(value).__name__} cannot be read as an array in the memory of the CPU: "
            f"{shown_reason(error) or type(error).__name__}"
        ) from error


def require_match(value: Any, info: TensorInfo, error: BadData) -> None:
    """Names the input if a value, which was refused, has another type or shape than it.

    Args:
        value: what was given.
        info: the info of the input.
        error: that was raised of all inputs.

    Raises:
        BadData: type or shape differ.
        WrongType: it is not an array, and cannot be made one.
    """
    if value is None:
        return
    if not isinstance(value, np.ndarray):
        try:
            value = read_array(value, info.dtype)
        except (TypeError, ValueError, OverflowError) as reason:
            raise type(error)(
                f"input {info.name!r} is {shown(value)}, which is not an array of {info.dtype}: "
                f"{_advice(value, info) or shown_reason(reason)}"
            ) from error
    if value.dtype != info.dtype and not info.dtype.hasobject:
        raise BadData(
            f"input {info.name!r} has type {info.dtype}; an array of {value.dtype} is given. "
            "Convert it, or compile with convert=True"
        ) from error
    shape = info.shape
    if shape is not None and (
        len(shape) != value.ndim
        or any(length not in (None, given) for length, given in zip(shape, value.shape, strict=True))
    ):
        lengths = ", ".join("?" if each is None else str(each) for each in shape)
        raise BadData(
            f"input {info.name!r} has shape [{lengths}]; an array of shape {list(value.shape)} is given. "
            "Other shapes can be chosen when the model is compiled: shapes={name: shape}"
        ) from error


def _advice(value: Any, info: TensorInfo) -> str:
    """Returns what makes an array of a value, or ""."""
    return f"numpy.frombuffer(data, numpy.{info.dtype}) makes one" if isinstance(value, bytes) else ""


def converted(value: Any, info: TensorInfo) -> Any:
    """Converts a value to the type of an input.

    Real numbers for a quantised input are quantised, with rounding to the nearest value. Other
    numbers must be representable in the input's type, but for the precision of real numbers.

    Raises:
        BadData: the value has no such type.
        WrongType: it is None.
    """
    if value is None:
        raise WrongType(f"input {info.name!r} is None; an array is expected")
    try:
        array = read_array(as_array(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadData(
            f"input {info.name!r} is {shown(value)}, which is not an array: {shown_reason(error)}"
        ) from None
    if array is not value:
        require_unmasked(value, f"input {info.name!r}")
    if array.dtype == info.dtype or info.dtype.hasobject:
        return array
    if info.is_quantized and array.dtype.kind == "f":
        return quantized(array, info)
    if array.dtype.kind not in ("biufc" if info.dtype.kind == "c" else "biuf"):
        kind = WrongType if array.dtype.hasobject else BadData
        raise kind(f"input {info.name!r} has type {info.dtype}; {array.dtype} cannot be converted to it")
    with np.errstate(all="ignore"):
        result = array.astype(info.dtype)
        # Real numbers may lose digits, but not become infinite.
        holds = np.isfinite(result) == np.isfinite(array) if info.dtype.kind in "fc" else result == array
        if not holds.all():
            raise BadData(f"input {info.name!r} has type {info.dtype}, which cannot hold all given values")
    return result


def quantized(array: Array, info: TensorInfo) -> Array:
    """Returns the quantised values that are nearest to real numbers.

    Raises:
        BadData: there are values that are not numbers.
    """
    if np.isnan(array).any():
        raise BadData(f"input {info.name!r} is quantised, and the given values contain NaN")
    limits = np.iinfo(info.dtype)
    steps = np.rint(array.astype(np.float64) / _scale(array, info)) + info.zero_point
    result: Array = np.clip(steps, limits.min, limits.max).astype(info.dtype)
    return result


def dequantized(array: Array, info: TensorInfo) -> Array:
    """Returns the real numbers, float32, for which quantised values stand; others unchanged."""
    if not info.is_quantized:
        return array
    result: Array = ((array.astype(np.float64) - info.zero_point) * _scale(array, info)).astype(np.float32)
    return result


def _scale(array: Array, info: TensorInfo) -> Any:
    """Returns the scale, or all of them as an array that goes with the values.

    Raises:
        BadData: the values have another number of channels than there are scales.
    """
    if not info.scales:
        return info.scale
    dimension, count = info.quantized_dimension or 0, len(info.scales)
    if array.shape[dimension : dimension + 1] != (count,):
        raise BadData(
            f"input {info.name!r} has {count} scales along dimension {dimension}; "
            f"an array of shape {list(array.shape)} is given"
        )
    return np.reshape(info.scales, (count,) + (1,) * (array.ndim - dimension - 1))
