"""PAD and MIRROR_PAD for every type, PADV2, DILATE, STABLEHLO_PAD."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import MAX_OPERAND_BYTES
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, tensor
from neurald.hal.operations.movement import padding
from neurald.hal.operations.tflite.machinery.elements import (
    SHORT_INDEXES,
    element_rows,
    extend_movement,
    indexes,
)

_ANDROID = {definition.type: definition for definition in padding.DEFINITIONS}


def _one_value(call: Call) -> Array:
    value = call.array("value")
    if value.size != 1:
        raise BadData(f"{call.name('value')} has shape {list(value.shape)}; exactly one element is expected")
    return value.reshape(())


def _padded_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    pairs = padding.paddings(call, len(shape))
    return (tuple(before + length + after for length, (before, after) in zip(shape, pairs, strict=True)),)


def _pad(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    result = np.full(_padded_shape(call)[0], _one_value(call))
    pairs = zip(padding.paddings(call, values.ndim), values.shape, strict=True)
    result[tuple(slice(before, before + length) for (before, _), length in pairs)] = values
    return (result,)


def checked_dilations(call: Call) -> list[int]:
    """Returns the distance at which DILATE places elements along each axis."""
    steps: list[int] = integers(call, "dilations", (len(call.shape("input")),)).tolist()
    if any(each < 1 for each in steps):
        raise BadData(f"{call.name('dilations')} is {steps}; numbers of at least 1 are expected")
    return steps


def _dilated_shape(call: Call) -> tuple[Shape, ...]:
    pairs = zip(call.shape("input"), checked_dilations(call), strict=True)
    return (tuple((length - 1) * step + 1 if length else 0 for length, step in pairs),)


def _dilate(call: Call) -> tuple[Array, ...]:
    """Fills the gaps between elements with the value."""
    result = np.full(_dilated_shape(call)[0], _one_value(call))
    result[tuple(slice(None, None, step) for step in checked_dilations(call))] = call.array("input")
    return (result,)


def interior_paddings(call: Call) -> list[tuple[int, int, int]]:
    """Returns the padding before, after and between two elements, for each axis.

    Negative padding before or after crops.
    """
    rank = len(call.shape("input"))
    low, high, between = (integers(call, name, (rank,)).tolist() for name in ("low", "high", "interior"))
    if any(each < 0 for each in between):
        raise BadData(f"{call.name('interior')} is {between}; no number may be negative")
    numbers = list(zip(low, high, between, strict=True))
    if any(abs(number) > MAX_OPERAND_BYTES for axis in numbers for number in axis):
        raise BadData(f"{call.name('low')}, high and interior have a number that is larger than any operand")
    return numbers


def _stablehlo_padded_shape(call: Call) -> tuple[Shape, ...]:
    shape = tuple(
        low + (max(0, length - 1) * between + length) + high
        for length, (low, high, between) in zip(call.shape("input"), interior_paddings(call), strict=True)
    )
    if any(each < 0 for each in shape):
        raise BadData(
            f"{call.name('low')}: the output would have shape {list(shape)}; no length may be negative"
        )
    return (shape,)


def _stablehlo_pad(call: Call) -> tuple[Array, ...]:
    (shape,) = _stablehlo_padded_shape(call)
    values = call.array("input")
    result = np.full(shape, _one_value(call))
    sources, targets = [], []
    for length, end, (low, _, between) in zip(values.shape, shape, interior_paddings(call), strict=True):
        positions = low + np.arange(length) * (between + 1)
        kept = np.flatnonzero((positions >= 0) & (positions < end))
        sources.append(kept)
        targets.append(positions[kept])
    result[np.ix_(*targets)] = values[np.ix_(*sources)]
    return (result,)


DEFINITIONS = (
    extend_movement(_ANDROID[OperationType.PAD], OperationType.TFLITE_PAD),
    extend_movement(_ANDROID[OperationType.MIRROR_PAD], OperationType.TFLITE_MIRROR_PAD),
    Definition(
        type=OperationType.TFLITE_PADV2,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    indexes("paddings", rank=2, types=SHORT_INDEXES),
                    tensor("value", rank=ANY_RANK),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_padded_shape,
        reference=_pad,
        arithmetic=frozenset({"input", "value"}),
    ),
    Definition(
        type=OperationType.TFLITE_DILATE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    indexes("dilations"),
                    tensor("value", rank=ANY_RANK),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_dilated_shape,
        reference=_dilate,
        arithmetic=frozenset({"input", "value"}),
    ),
    Definition(
        type=OperationType.TFLITE_STABLEHLO_PAD,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    tensor("value", rank=ANY_RANK),
                    indexes("low"),
                    indexes("high"),
                    indexes("interior"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_stablehlo_padded_shape,
        reference=_stablehlo_pad,
        arithmetic=frozenset({"input", "value"}),
    ),
)
