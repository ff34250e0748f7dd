"""TILE, FILL, PACK, EXPAND_DIMS, RANK: repeated elements and additional dimensions."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.arguments import integers, one_scale
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, resolve_axis, same_scale
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, row, scalar, tensor

_ROWS = data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_3)

#: Input types of RANK: every tensor type of Android NN.
_RANKED = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT8_SYMM,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_QUANT16_SYMM,
)


def _multiples(call: Call) -> list[int]:
    multiples: list[int] = integers(call, "multiples", (len(call.shape("input")),)).tolist()
    if any(each < 0 for each in multiples):
        raise BadData(f"{call.name('multiples')} is {multiples}; no number may be negative")
    return multiples


def _tile_shape(call: Call) -> tuple[Shape, ...]:
    pairs = zip(call.shape("input"), _multiples(call), strict=True)
    return (tuple(length * multiple for length, multiple in pairs),)


def _tile_reference(call: Call) -> tuple[Array, ...]:
    return (np.tile(call.array("input"), _multiples(call)),)


def _fill_shape(call: Call) -> tuple[Shape, ...]:
    (rank,) = call.shape("dimensions")
    if rank > MAX_RANK:
        raise BadData(f"{call.name('dimensions')} has {rank} numbers; at most {MAX_RANK} are allowed")
    shape = tuple(call.array("dimensions").tolist())
    if any(length < 0 for length in shape):
        raise BadData(f"{call.name('dimensions')} is {list(shape)}; no number may be negative")
    return (shape,)


def _fill_reference(call: Call) -> tuple[Array, ...]:
    return (np.full(_fill_shape(call)[0], call.array("value")),)


def pack_axis(call: Call) -> int:
    """Returns the axis of the output along which inputs are stacked, from 0.

    Only in `neurald.tflite` the argument may count from the end.
    """
    first, *others = call.shapes("inputs")
    for position, shape in enumerate(others, start=1):
        if shape != first:
            index = call.indexes("inputs")[position]
            raise BadData(
                f"{call.operand_label(index)} (inputs[{position}] of PACK) has shape {list(shape)}; "
                f"that of inputs[0], {list(first)}, is expected"
            )
    if call.binding.type is OperationType.PACK:
        return call.scalar_in("axis", 0, len(first))
    return resolve_axis(int(call.scalar("axis")), len(first) + 1, call.name("axis"))


def _pack_shape(call: Call) -> tuple[Shape, ...]:
    axis = pack_axis(call)
    first = call.shapes("inputs")[0]
    return ((*first[:axis], len(call.indexes("inputs")), *first[axis:]),)


def _pack_reference(call: Call) -> tuple[Array, ...]:
    return (np.stack(call.arrays("inputs"), axis=pack_axis(call)),)


def _expand_dims_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("input")
    axis = resolve_axis(call.scalar("axis"), len(shape) + 1, call.name("axis"))
    return ((*shape[:axis], 1, *shape[axis:]),)


def _expand_dims_reference(call: Call) -> tuple[Array, ...]:
    return (call.array("input").reshape(_expand_dims_shape(call)[0]),)


def _rank_shape(call: Call) -> tuple[Shape, ...]:
    """Returns the shape of a scalar."""
    return ((),)


def _rank_reference(call: Call) -> tuple[Array, ...]:
    return (np.array(len(call.shape("input")), call.operand("output").type.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.TILE,
        forms=(
            Form(
                inputs=(tensor("input"), tensor("multiples", OperandType.TENSOR_INT32, rank=1)),
                outputs=(tensor("output"),),
            ),
        ),
        rows=_ROWS,
        checks=(same_scale("input"),),
        shape=_tile_shape,
        reference=_tile_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.FILL,
        forms=(
            Form(
                inputs=(tensor("dimensions", OperandType.TENSOR_INT32, rank=1), scalar("value", "S")),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=(
            row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_FLOAT32, S=OperandType.FLOAT32),
            row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_FLOAT16, S=OperandType.FLOAT16),
            row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_INT32, S=OperandType.INT32),
        ),
        shape=_fill_shape,
        reference=_fill_reference,
    ),
    Definition(
        type=OperationType.PACK,
        forms=(
            Form(
                inputs=(scalar("axis"), tensor("inputs", rank=ANY_RANK, variadic=True)),
                outputs=(tensor("output"),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_6, quant8=FeatureLevel.LEVEL_6, int32=FeatureLevel.LEVEL_6),
        checks=(one_scale("inputs", "output"),),
        shape=_pack_shape,
        reference=_pack_reference,
        arithmetic=frozenset({"inputs"}),
    ),
    Definition(
        type=OperationType.EXPAND_DIMS,
        forms=(Form(inputs=(tensor("input", rank=ANY_RANK), scalar("axis")), outputs=(tensor("output"),)),),
        rows=_ROWS,
        checks=(same_scale("input"),),
        shape=_expand_dims_shape,
        reference=_expand_dims_reference,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.RANK,
        forms=(
            Form(
                inputs=(tensor("input", rank=ANY_RANK),),
                outputs=(scalar("output", OperandType.INT32),),
            ),
        ),
        rows=tuple(row(FeatureLevel.LEVEL_4, T=data) for data in _RANKED),
        shape=_rank_shape,
        reference=_rank_reference,
    ),
)
