"""Computes with lengths that are not known yet: SHAPE, and operations on its result.

Models compute the arguments of RESHAPE, FILL and others from the shapes of their inputs. If these
have open dimensions, the arguments are arrays of extents (of dtype object).
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    estimate,
    excess,
    has_extents,
    is_one,
    may_change,
    same_length,
    surely_lowest,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.rules import resolve_axes

_T = OperationType
#: Operations whose references only move elements, of whatever type they are.
_MOVING = frozenset(
    (
        _T.RESHAPE,
        _T.TFLITE_RESHAPE,
        _T.EXPAND_DIMS,
        _T.TFLITE_EXPAND_DIMS,
        _T.SQUEEZE,
        _T.TFLITE_SQUEEZE,
        _T.SLICE,
        _T.TFLITE_SLICE,
        _T.STRIDED_SLICE,
        _T.TFLITE_STRIDED_SLICE,
        _T.GATHER,
        _T.TFLITE_GATHER,
        _T.TFLITE_GATHER_ND,
        _T.TILE,
        _T.TFLITE_TILE,
        _T.TFLITE_BROADCAST_TO,
        _T.REVERSE,
        _T.TFLITE_REVERSE_V2,
        _T.TRANSPOSE,
        _T.TFLITE_TRANSPOSE,
        _T.FILL,
        _T.TFLITE_FILL,
        _T.CONCATENATION,
        _T.TFLITE_CONCATENATION,
        _T.PACK,
        _T.TFLITE_PACK,
        _T.TFLITE_UNPACK,
        _T.SPLIT,
        _T.TFLITE_SPLIT,
        _T.TFLITE_SPLIT_V,
    )
)
#: The inputs whose elements they move.
_MOVED = frozenset(("input", "inputs", "value", "values"))
_ARITHMETIC: Mapping[OperationType, Callable[[Any, Any], Any]] = {
    _T.ADD: operator.add,
    _T.TFLITE_ADD: operator.add,
    _T.SUB: operator.sub,
    _T.TFLITE_SUB: operator.sub,
    _T.MUL: operator.mul,
    _T.TFLITE_MUL: operator.mul,
    _T.TFLITE_FLOOR_DIV: operator.floordiv,
    _T.TFLITE_FLOOR_MOD: operator.mod,
}
#: Operations that choose one of two numbers, and whether it is the smaller one.
_EXTREMES: Mapping[OperationType, bool] = {
    _T.MINIMUM: True,
    _T.TFLITE_MINIMUM: True,
    _T.MAXIMUM: False,
    _T.TFLITE_MAXIMUM: False,
}
_NEGATIONS = frozenset((_T.NEG, _T.TFLITE_NEG))
_CASTS = frozenset((_T.CAST, _T.TFLITE_CAST))
#: Operations that combine the elements along axes.
_REDUCTIONS: Mapping[OperationType, Callable[[Any, Any], Any]] = {
    _T.TFLITE_SUM: operator.add,
    _T.TFLITE_REDUCE_PROD: operator.mul,
    _T.TFLITE_REDUCE_MAX: lambda one, other: _larger(one, other),
    _T.TFLITE_REDUCE_MIN: lambda one, other: _smaller(one, other),
}
#: Operations that combine the elements of segments, and the result for a segment without any.
_SEGMENTS: Mapping[OperationType, tuple[Callable[[Any, Any], Any], int]] = {
    _T.TFLITE_UNSORTED_SEGMENT_SUM: (operator.add, 0),
    _T.TFLITE_UNSORTED_SEGMENT_PROD: (operator.mul, 1),
}
#: All of them.
_KINDS = frozenset(
    (
        *_MOVING,
        *_ARITHMETIC,
        *_EXTREMES,
        *_NEGATIONS,
        *_CASTS,
        *_REDUCTIONS,
        *_SEGMENTS,
        _T.TFLITE_BROADCAST_ARGS,
    )
)
#: Largest result: such arrays are shapes, and their parts.
_MAX_ELEMENTS = 64


def lengths_of(call: Call, value: Callable[[int], Array | None]) -> Sequence[Array] | None:
    """Returns the results of an operation on extents, as arrays of extents.

    Args:
        call: the operation.
        value: returns the value of an operand if it is known.

    Returns:
        None if it does not compute with extents, or if it is not supported.
    """
    kind = call.binding.type
    if kind is _T.TFLITE_SHAPE:
        shape = call.shape("input")
        return (as_objects(shape),) if any(isinstance(length, Extent) for length in shape) else None
    extents: set[int] = set()
    for indexes in call.binding.inputs.values():
        for index in indexes:
            known = value(index)
            if known is None:
                return None
            if known.dtype == object:
                extents.add(index)
    if not extents or kind not in _KINDS or not _has_few_results(call):
        return None
    results: Sequence[Any]
    if kind in _MOVING:
        if not extents.isdisjoint(_arguments(call)):
            return None
        results = DEFINITIONS[kind].reference(call)
    elif kind in _ARITHMETIC and (
        "activation" not in call.binding.inputs or call.activation is FusedActivation.NONE
    ):
        combine = np.frompyfunc(_ARITHMETIC[kind], 2, 1)
        results = (combine(*_pair(call)),)
    elif kind in _EXTREMES:
        results = (np.frompyfunc(_smaller if _EXTREMES[kind] else _larger, 2, 1)(*_pair(call)),)
    elif kind in _NEGATIONS:
        results = (np.frompyfunc(operator.neg, 1, 1)(np.asarray(call.array("input"), object)),)
    elif kind is _T.TFLITE_BROADCAST_ARGS:
        results = (_broadcast(call.array("shape1").tolist(), call.array("shape2").tolist()),)
    elif kind in _CASTS and call.operand("output").type.dtype.kind in "iu":
        results = (call.array("input"),)
    elif kind in _REDUCTIONS and call.array("input").size:
        combine = np.frompyfunc(_REDUCTIONS[kind], 2, 1)
        lengths: Any = np.asarray(call.array("input"), object)
        axes, keeps = resolve_axes(call, "axes"), bool(call.scalar("keep_dims"))
        for axis in sorted(axes, reverse=True):
            lengths = combine.reduce(lengths, axis=axis, keepdims=keeps)
        results = (lengths,)
    elif (
        kind in _SEGMENTS
        and len(call.shape("input")) == len(call.shape("segments")) == 1
        and extents.isdisjoint(_arguments(call))
    ):
        results = (_of_segments(call, *_SEGMENTS[kind]),)
    else:
        return None
    arrays = tuple(each if isinstance(each, np.ndarray) else as_objects(each) for each in results)
    return arrays if all(each is not None for array in arrays for each in array.flat) else None


def _has_few_results(call: Call) -> bool:
    """Returns whether the results are as small as shapes and their parts are."""
    shapes = DEFINITIONS[call.binding.type].known_output_shapes(call)
    return shapes is not None and all(
        not has_extents(shape) and math.prod(shape) <= _MAX_ELEMENTS for shape in shapes
    )


def _pair(call: Call) -> tuple[Array, Array]:
    """Returns the two inputs of an operation as arrays of objects."""
    first, second = (np.asarray(call.array(name), object) for name in ("input1", "input2"))
    return first, second


def _broadcast(one: list[Any], other: list[Any]) -> tuple[Any, ...]:
    """Returns the shape of a result of two operands; None for a length that is not known."""
    rank = max(len(one), len(other))
    return tuple(
        _broadcast_length(first, second)
        for first, second in zip(
            [1] * (rank - len(one)) + one, [1] * (rank - len(other)) + other, strict=True
        )
    )


def _broadcast_length(one: Any, other: Any) -> Any:
    """Returns the length that an operation on two lengths has; None if that is not known."""
    if is_one(one) or same_length(one, other):
        return other
    if is_one(other):
        return one
    # Only a length of 1 is repeated.
    may_repeat = min(surely_lowest(one), surely_lowest(other)) <= 1
    return None if may_repeat or estimate(one) != estimate(other) or one != other else one


def _smaller(one: Any, other: Any) -> Any:
    """Returns the smaller of two numbers; None if that is data.

    So it is if they change while the model runs: a symbol may be 0, unlike a difference.
    """
    if one is None or other is None:
        return None
    found = excess(one - other)
    return None if may_change(found) else one - found


def _larger(one: Any, other: Any) -> Any:
    """Returns the larger of two numbers; None if that is data."""
    smaller = _smaller(one, other)
    return None if smaller is None else one + other - smaller


def _of_segments(call: Call, combine: Callable[[Any, Any], Any], start: int) -> tuple[Any, ...]:
    """Returns a number for each segment of a vector; negative numbers of segments are none."""
    found: list[Any] = [start] * call.array("count").item()
    numbers = call.array("segments").tolist()
    for number, length in zip(numbers, call.array("input").tolist(), strict=True):
        if number >= 0:
            found[number] = combine(found[number], length)
    return tuple(found)


def _arguments(call: Call) -> list[int]:
    """Returns the inputs that say which elements an operation moves."""
    return [index for name, indexes in call.binding.inputs.items() if name not in _MOVED for index in indexes]


def as_lengths(values: Any) -> Array:
    """Returns extents and numbers as an array: of INT32 if all of them are numbers."""
    objects = as_objects(tuple(values) if isinstance(values, list) else values)
    is_known = not any(isinstance(each, Extent) for each in objects.reshape(-1).tolist())
    return objects.astype(np.int32) if is_known else objects


def as_objects(values: Any) -> Array:
    """Returns extents and numbers as an array of objects; a single one has rank 0."""
    if isinstance(values, tuple):
        found = np.empty(len(values), object)
        found[:] = values
        return found
    single = np.empty((), object)
    single[()] = values
    return single
