"""TILE for every type, BROADCAST_TO, and BROADCAST_ARGS, which computes its shape."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, tensor
from neurald.hal.operations.movement import tiling
from neurald.hal.operations.tflite.machinery.elements import (
    ELEMENTS_AND_STRINGS,
    element_rows,
    extend_movement,
    indexes,
    lengths,
)

_TILE = next(d for d in tiling.DEFINITIONS if d.type is OperationType.TILE)


def _broadcast_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape: lengths of 1 are repeated, and missing dimensions are prepended."""
    shape, target = call.shape("input"), lengths(call, "shape")
    missing = len(target) - len(shape)
    if missing < 0 or any(a not in (1, b) for a, b in zip(shape, target[missing:], strict=True)):
        raise BadData(
            f"{call.name('shape')} is {list(target)}; input {list(shape)} cannot be broadcast to that"
        )
    return (target,)


def _broadcast(call: Call) -> tuple[Array, ...]:
    return (np.broadcast_to(call.array("input"), _broadcast_shape(call)[0]).copy(),)


def _longer_shape(call: Call) -> tuple[Shape, ...]:
    return (max(call.shape("shape1"), call.shape("shape2")),)


def _broadcast_lengths(call: Call) -> tuple[Array, ...]:
    """Broadcasts two shapes, aligned at their ends; where lengths differ, one must be 1."""
    one, other = (call.array(name).tolist() for name in ("shape1", "shape2"))
    rank = max(len(one), len(other))
    pairs = zip(
        [1] * (rank - len(one)) + one,
        [1] * (rank - len(other)) + other,
        strict=True,
    )
    result = []
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            raise BadData(f"{call.name('shape2')} is {other}; that does not broadcast with shape1, {one}")
        result.append(b if a == 1 else a)
    return (np.array(result, call.operand("output").type.dtype),)


DEFINITIONS = (
    extend_movement(_TILE, OperationType.TFLITE_TILE, types=ELEMENTS_AND_STRINGS),
    Definition(
        type=OperationType.TFLITE_BROADCAST_TO,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK), indexes("shape")),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_broadcast_shape,
        reference=_broadcast,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_BROADCAST_ARGS,
        forms=(
            Form(
                inputs=(tensor("shape1", rank=1), tensor("shape2", rank=1)),
                outputs=(tensor("output", rank=1),),
            ),
        ),
        rows=(
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_INT32),
            row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_INT64),
        ),
        shape=_longer_shape,
        reference=_broadcast_lengths,
    ),
)
