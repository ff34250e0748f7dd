"""RESHAPE, SQUEEZE: another shape for the same elements."""

import math

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axes, same_scale
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, tensor

_RANKS = (0, 4)


def _reshape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape.

    One target dimension may be -1, to be computed from the number of elements.
    """
    shape = call.shape("input")
    (rank,), name = call.shape("shape"), call.name("shape")
    if rank > MAX_RANK:
        raise BadData(f"{name} has {rank} lengths; at most {MAX_RANK} are allowed")
    target = call.array("shape").tolist()
    if any(length < -1 for length in target) or target.count(-1) > 1:
        raise BadData(f"{name} is {target}; lengths from 0, and -1 at most once, are expected")
    elements = math.prod(shape)
    if -1 in target:
        others = math.prod(length for length in target if length != -1)
        if others == 0 or elements % others:
            raise BadData(
                f"{name} is {target}; the {elements} elements of {list(shape)} leave no length for -1"
            )
        target[target.index(-1)] = elements // others
    elif math.prod(target) != elements:
        raise BadData(f"{name} is {target}, {math.prod(target)} elements; input {list(shape)} has {elements}")
    return (tuple(target),)


def _squeeze(call: Call) -> tuple[Shape, ...]:
    """Removes all dimensions of length 1, or those of the listed axes.

    The result has at least rank 1.
    """
    shape = call.shape("input")
    if call.has("axes"):
        axes = resolve_axes(call, "axes")
        for axis in axes:
            if shape[axis] != 1:
                raise BadData(
                    f"{call.name('axes')}: axis {axis} of {list(shape)} has length {shape[axis]}; 1 is "
                    "expected"
                )
    else:
        axes = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return (tuple(length for axis, length in enumerate(shape) if axis not in axes) or (1,),)


def _reshape_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").reshape(_reshape(call)[0]),)


def _squeeze_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").reshape(_squeeze(call)[0]),)


DEFINITIONS = (
    Definition(
        type=OperationType.RESHAPE,
        forms=(
            Form(
                inputs=(tensor("input", rank=_RANKS), tensor("shape", OperandType.TENSOR_INT32, rank=1)),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(quant8=FeatureLevel.LEVEL_1, int32=FeatureLevel.LEVEL_6),
        checks=(same_scale("input"),),
        shape=_reshape,
        reference=_reshape_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.SQUEEZE,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=_RANKS),
                    tensor("axes", OperandType.TENSOR_INT32, rank=1, optional=True),
                ),
                outputs=(tensor("output", rank=_RANKS),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_2, quant8=FeatureLevel.LEVEL_2),
        checks=(same_scale("input"),),
        shape=_squeeze,
        reference=_squeeze_reference,
        arithmetic=frozenset({"input"}),
    ),
)
