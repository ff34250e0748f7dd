"""Segment reductions and buckets.

SEGMENT_SUM, UNSORTED_SEGMENT_MAX, _MIN, _PROD, _SUM, BUCKETIZE.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import shape_of_input
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, row, tensor
from neurald.hal.operations.reduction.reduction import highest, lowest
from neurald.hal.operations.tflite.machinery.tables import typed_rows

_INT32 = OperandType.TENSOR_INT32
_DATA = (OperandType.TENSOR_FLOAT32, _INT32)
_BUCKETED = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT64,
    _INT32,
    OperandType.TENSOR_INT64,
)


def _segment_form(*more: Parameter) -> Form:
    return Form(
        inputs=(tensor("input"), tensor("segments", _INT32, rank=ANY_RANK), *more),
        outputs=(tensor("output"),),
    )


def _sum_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape from the last segment's number; numbers start at 0 and are contiguous."""
    shape = call.shape("input")
    if call.shape("segments") != shape[:1]:
        raise BadData(
            f"{call.name('segments')} has shape {list(call.shape('segments'))}; {list(shape[:1])} is expected"
        )
    segments = call.array("segments").astype(np.int64)
    steps = np.diff(segments, prepend=0)
    if not np.isin(steps, (0, 1)).all() or segments[:1].any():
        raise BadData(f"{call.name('segments')} must begin with 0 and never grow by more than 1")
    return ((int(segments[-1]) + 1 if segments.size else 0, *shape[1:]),)


def _unsorted_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape; segments belong to the leading axes of the data."""
    shape, rank, counts = call.shape("input"), len(call.shape("segments")), call.array("count")
    if call.shape("segments") != shape[:rank]:
        raise BadData(
            f"{call.name('segments')} has shape {list(call.shape('segments'))}; "
            f"the leading lengths of the data, {list(shape)}, are expected"
        )
    if counts.size != 1 or counts.flat[0] < 0:
        raise BadData(f"{call.name('count')} is {counts.tolist()}; one number of at least 0 is expected")
    with suppress(UnknownValue):
        segments = call.array("segments")
        if segments.size and segments.max() >= counts.flat[0]:
            raise BadData(
                f"{call.name('segments')} has {segments.max()}; less than {counts.flat[0]} is expected"
            )
    return ((counts.item(), *shape[rank:]),)


def _segment_reduction(
    function: np.ufunc, start: Callable[[Array], float], shape_of: Callable[[Call], tuple[Shape, ...]]
) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference for a segment reduction.

    Empty segments are `start`, negative numbers are ignored.
    """

    def reference(call: Call) -> tuple[Array, ...]:
        values, segments, (shape,) = call.array("input"), call.array("segments"), shape_of(call)
        result = np.full(shape, start(values), values.dtype)
        numbers = segments.reshape(-1)
        rows = values.reshape(numbers.size, *shape[1:])
        counted = numbers >= 0
        with np.errstate(all="ignore"):
            function.at(result, numbers[counted], rows[counted])
        return (result,)

    return reference


def _unsorted(
    operation_type: OperationType, function: np.ufunc, start: Callable[[Array], float]
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(_segment_form(tensor("count", _INT32, rank=ANY_RANK)),),
        rows=typed_rows(*_DATA),
        shape=_unsorted_shape,
        reference=_segment_reduction(function, start, _unsorted_shape),
    )


def _sorted_boundaries(call: Call) -> None:
    boundaries = call.array("boundaries")
    # Comparisons with NaN are false.
    unordered = np.flatnonzero(~(boundaries[:-1] <= boundaries[1:]))
    if len(boundaries) == 1 and np.isnan(boundaries).any():
        raise BadData(f"{call.name('boundaries')} is NaN; a number is expected")
    if len(unordered):
        first = int(unordered[0])
        raise BadData(
            f"{call.name('boundaries')} must be sorted; {boundaries[first + 1]} follows {boundaries[first]}"
        )


def _bucketize(call: Call) -> tuple[Array, ...]:
    """Counts the boundaries that are not above each number; NaN is above all."""
    boundaries = call.array("boundaries").astype(np.float64)
    values = call.array("input")
    # As in C, comparing an integer with a float32 converts it to float32.
    real = values.astype(np.float32) if values.dtype.kind == "i" else values
    return (np.searchsorted(boundaries, real.astype(np.float64), "right").astype(np.int32),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_SEGMENT_SUM,
        forms=(_segment_form(),),
        rows=typed_rows(*_DATA),
        shape=_sum_shape,
        reference=_segment_reduction(np.add, lambda _: 0, _sum_shape),
    ),
    _unsorted(OperationType.TFLITE_UNSORTED_SEGMENT_MAX, np.maximum, lowest),
    _unsorted(OperationType.TFLITE_UNSORTED_SEGMENT_MIN, np.minimum, highest),
    _unsorted(OperationType.TFLITE_UNSORTED_SEGMENT_PROD, np.multiply, lambda _: 1),
    _unsorted(OperationType.TFLITE_UNSORTED_SEGMENT_SUM, np.add, lambda _: 0),
    Definition(
        type=OperationType.TFLITE_BUCKETIZE,
        forms=(
            Form(
                inputs=(
                    tensor("input", "T", rank=ANY_RANK),
                    tensor("boundaries", OperandType.TENSOR_FLOAT32, rank=1),
                ),
                outputs=(tensor("output", _INT32, rank=ANY_RANK),),
            ),
        ),
        rows=tuple(row(FeatureLevel.LEVEL_1, T=kind) for kind in _BUCKETED),
        checks=(_sorted_boundaries,),
        shape=shape_of_input,
        reference=_bucketize,
    ),
)
