"""CAST, BITCAST, and parts of complex numbers."""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, tensor
from neurald.hal.operations.tflite.machinery.tables import REALS

_COMPLEX = OperandType.TENSOR_COMPLEX64
_TYPES = (*REALS, OperandType.TENSOR_BOOL8, _COMPLEX)
_LEVEL = FeatureLevel.LEVEL_1

_FORM = Form(inputs=(tensor("input", "T", rank=ANY_RANK),), outputs=(tensor("output", "U", rank=ANY_RANK),))


def cast(values: Array, dtype: "np.dtype[np.generic]") -> Array:
    """Converts `values` to another element type.

    Integers wrap around. Reals are truncated and saturate to the range of an integer type; NaN
    becomes its maximum. The imaginary part of complex numbers is dropped.
    """
    if values.dtype.kind == "c" and dtype.kind != "c":
        values = values.real
    with np.errstate(all="ignore"):
        if values.dtype.kind != "f" or dtype.kind not in "iu":
            return values.astype(dtype)
        limits = np.iinfo(dtype.name)
        whole = np.trunc(values.astype(np.float64))
        # The 64-bit maximum is not a float64: values not below it are set separately.
        is_large = ~(whole < float(limits.max))
        inside = np.where(is_large, 0, np.maximum(whole, float(limits.min))).astype(dtype)
        return np.where(is_large, dtype.type(limits.max), inside)


def _cast(call: Call) -> tuple[Array, ...]:
    return (cast(call.array("input"), call.operand("output").type.dtype),)


def _bitcast_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape: a smaller type adds an axis, a larger one removes the last."""
    shape = call.shape("input")
    source, target = (call.operand(name).type.dtype.itemsize for name in ("input", "output"))
    if source == target:
        return (shape,)
    if source > target:
        return ((*shape, source // target),)
    if shape[-1:] != (target // source,):
        raise BadData(
            f"{call.name('input')} has shape {list(shape)}; a last length of {target // source} is expected"
        )
    return (shape[:-1],)


def _bitcast(call: Call) -> tuple[Array, ...]:
    (shape,) = _bitcast_shape(call)
    content = np.ascontiguousarray(call.array("input")).tobytes()
    dtype = call.operand("output").type.dtype
    if dtype == np.bool_:
        # A bool is one of two bytes, of which every byte but 0 is true.
        return ((np.frombuffer(content, np.uint8) != 0).reshape(shape),)
    return (np.frombuffer(content, dtype).reshape(shape).copy(),)


_BITS = (*_TYPES, OperandType.TENSOR_COMPLEX128)


def _part(operation_type: OperationType, function: Callable[[Array], Array]) -> Definition:
    def reference(call: Call) -> tuple[Array, ...]:
        with np.errstate(over="ignore"):
            return (np.array(function(call.array("input")), call.operand("output").type.dtype),)

    return Definition(
        type=operation_type,
        forms=(_FORM,),
        rows=(
            row(_LEVEL, T=_COMPLEX, U=OperandType.TENSOR_FLOAT32),
            row(_LEVEL, T=OperandType.TENSOR_COMPLEX128, U=OperandType.TENSOR_FLOAT64),
        ),
        shape=shape_of_input,
        reference=reference,
    )


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_CAST,
        forms=(_FORM,),
        rows=tuple(
            row(_LEVEL, T=source, U=target, zero_points16=True) for source in _TYPES for target in _TYPES
        ),
        shape=shape_of_input,
        reference=_cast,
        widens=OperationType.CAST,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_BITCAST,
        forms=(_FORM,),
        rows=tuple(
            row(_LEVEL, T=source, U=target, zero_points16=True) for source in _BITS for target in _BITS
        ),
        shape=_bitcast_shape,
        reference=_bitcast,
    ),
    _part(OperationType.TFLITE_COMPLEX_ABS, np.abs),
    _part(OperationType.TFLITE_REAL, np.real),
    _part(OperationType.TFLITE_IMAG, np.imag),
)
