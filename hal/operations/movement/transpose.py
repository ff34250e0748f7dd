"""TRANSPOSE, CHANNEL_SHUFFLE, REVERSE: the same elements in another order."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axis, same_scale, shape_of_input
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_RANKS = (1, 4)


def transposed_axes(call: Call, *, from_end: bool = False) -> tuple[int, ...]:
    """Returns the input axis of each output axis; without the argument, a matrix is transposed.

    Args:
        call: the call of TRANSPOSE.
        from_end: whether negative axes count from the end, as in TFLite.
    """
    shape = call.shape("input")
    if not call.has("permutation"):
        if len(shape) != 2:
            raise BadData(
                f"{call.name('input')} has rank {len(shape)}; rank 2 is expected where the permutation is "
                "omitted"
            )
        return 1, 0
    axes = tuple(integers(call, "permutation", (len(shape),)).tolist())
    if from_end:
        axes = tuple(axis + len(shape) if axis < 0 else axis for axis in axes)
    if sorted(axes) != list(range(len(shape))):
        raise BadData(
            f"{call.name('permutation')} is {list(axes)}; every axis from 0 to {len(shape) - 1} is "
            "expected once"
        )
    return axes


def _transpose_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    return (tuple(shape[axis] for axis in transposed_axes(call)),)


def _transpose_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").transpose(transposed_axes(call)),)


def shuffled_groups(call: Call) -> tuple[int, int]:
    """Returns the axis to shuffle, and the number of groups."""
    shape = call.shape("input")
    axis = resolve_axis(call.scalar("axis"), len(shape), call.name("axis"))
    groups = call.scalar_in("groups", 1)
    if shape[axis] % groups:
        raise BadData(
            f"{call.name('groups')} is {groups}; it does not divide the length {shape[axis]} of axis {axis}"
        )
    return axis, groups


def _shuffle_shape(call: Call) -> tuple[Shape, ...]:
    shuffled_groups(call)
    return shape_of_input(call)


def _shuffle_reference(call: Call) -> tuple[Array, ...]:
    """Takes the first element of every group, then the second of every group, and so on."""
    values, (axis, groups) = call.array("input"), shuffled_groups(call)
    shape = values.shape
    grouped = values.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return (grouped.swapaxes(axis, axis + 1).reshape(shape),)


def reversed_axis(call: Call) -> int:
    """Returns the axis that REVERSE reverses."""
    rank = len(call.shape("input"))
    axis = int(integers(call, "axis", (1,))[0])
    if not 0 <= axis < rank:
        raise BadData(f"{call.name('axis')} is {axis}; it must be from 0 to {rank - 1}")
    return axis


def _reverse_shape(call: Call) -> tuple[Shape, ...]:
    reversed_axis(call)
    return shape_of_input(call)


def _reverse_reference(call: Call) -> tuple[Array, ...]:
    return (np.flip(call.array("input"), reversed_axis(call)),)


DEFINITIONS = (
    Definition(
        type=OperationType.TRANSPOSE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=_RANKS),
                    tensor("permutation", OperandType.TENSOR_INT32, rank=1, optional=True),
                ),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_2, quant8=FeatureLevel.LEVEL_2),
        checks=(same_scale("input"),),
        shape=_transpose_shape,
        reference=_transpose_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.CHANNEL_SHUFFLE,
        forms=(
            Form(
                inputs=(tensor("input", rank=_RANKS), scalar("groups"), scalar("axis")),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3),
        checks=(same_scale("input"),),
        shape=_shuffle_shape,
        reference=_shuffle_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.REVERSE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=(1, 8)),
                    tensor("axis", OperandType.TENSOR_INT32, rank=1),
                ),
                outputs=(tensor("output", rank=(1, 8)),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_7, quant8=FeatureLevel.LEVEL_7, int32=FeatureLevel.LEVEL_7),
        checks=(same_scale("input"),),
        shape=_reverse_shape,
        reference=_reverse_reference,
        arithmetic=frozenset({"input"}),
    ),
)
