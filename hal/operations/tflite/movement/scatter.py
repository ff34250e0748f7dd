"""SCATTER_ND, SPARSE_TO_DENSE, ONE_HOT."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.machinery.signature import ANY_RANK, MAX_RANK, Form, scalar, tensor
from neurald.hal.operations.tflite.machinery.elements import element_rows, indexes, lengths, number
from neurald.hal.operations.tflite.movement.gather import positions


def _scatter_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape; the last axis of the indices holds indexes of the output's first axes."""
    shape, (*picked, depth) = lengths(call, "shape"), call.shape("indices")
    updates = call.shape("updates")
    if depth > len(shape) or updates != (*picked, *shape[depth:]):
        raise BadData(
            f"{call.name('updates')} has shape {list(updates)}; {[*picked, *shape[depth:]]} is expected "
            "for indices "
            f"{[*picked, depth]} into {list(shape)}"
        )
    return (shape,)


def _scatter(call: Call) -> tuple[Array, ...]:
    """Adds updates with equal indexes; all other elements are 0."""
    (shape,) = _scatter_shape(call)
    depth = call.shape("indices")[-1]
    where = positions(call, "indices", shape).reshape(-1)
    updates = call.array("updates")
    result = np.zeros((int(np.prod(shape[:depth])), *shape[depth:]), updates.dtype)
    with np.errstate(all="ignore"):
        np.add.at(result, where, updates.reshape(len(where), *shape[depth:]))
    return (result.reshape(shape),)


def _dense_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the shape; indices are a number, a list, or a matrix with one row per index."""
    shape, picked = lengths(call, "shape"), call.shape("indices")
    depth = picked[1] if len(picked) == 2 else 1
    if depth != len(shape):
        raise BadData(
            f"{call.name('indices')} has {depth} numbers for each index; the output {list(shape)} has rank "
            f"{len(shape)}"
        )
    count = picked[0] if picked else 1
    if call.shape("values") not in ((), (count,)):
        raise BadData(
            f"{call.name('values')} has shape {list(call.shape('values'))}; one value, or {[count]}, is "
            "expected"
        )
    return (shape,)


def dense_positions(call: Call) -> Array:
    """Returns the position of each value in the flattened output.

    Raises:
        BadData: an index is out of range.
        UnknownValue: they are not known yet.
    """
    (shape,) = _dense_shape(call)
    indices = call.array("indices")
    count = len(indices) if indices.ndim else 1
    tuples = indices.reshape(count, len(shape)).astype(np.int64)
    if ((tuples < 0) | (tuples >= np.array(shape, np.int64))).any():
        raise BadData(f"{call.name('indices')} has an index outside of the output, {list(shape)}")
    weights = np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1][: len(shape)]
    positions: Array = (tuples * weights).sum(axis=1)
    return positions


def _dense(call: Call) -> tuple[Array, ...]:
    result = np.full(_dense_shape(call)[0], call.array("default"))
    result.reshape(-1)[dense_positions(call)] = call.array("values")
    return (result,)


def one_hot_axis(call: Call) -> int:
    """Returns the new axis of the output; -1 is the last one."""
    return resolve_axis(call.scalar("axis"), len(call.shape("indices")) + 1, call.name("axis"))


def _one_hot_shape(call: Call) -> tuple[Shape, ...]:
    axis, shape = one_hot_axis(call), call.shape("indices")
    for name in ("on", "off"):
        if int(np.prod(call.shape(name))) != 1:
            raise BadData(f"{call.name(name)} has shape {list(call.shape(name))}; one element is expected")
    return ((*shape[:axis], call.scalar_in("depth", 0), *shape[axis:]),)


def _one_hot(call: Call) -> tuple[Array, ...]:
    """Selects `on` where an index equals the position along the new axis, otherwise `off`."""
    axis, depth = one_hot_axis(call), call.scalar("depth")
    steps = np.arange(depth).reshape(depth, *(1,) * (len(call.shape("indices")) - axis))
    is_on = np.expand_dims(call.array("indices"), axis) == steps
    return (np.where(is_on, call.array("on").reshape(()), call.array("off").reshape(())),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_SCATTER_ND,
        forms=(
            Form(
                inputs=(
                    indexes("indices", rank=(1, MAX_RANK)),
                    tensor("updates", rank=ANY_RANK),
                    indexes("shape"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_scatter_shape,
        reference=_scatter,
        arithmetic=frozenset({"updates"}),
    ),
    Definition(
        type=OperationType.TFLITE_SPARSE_TO_DENSE,
        forms=(
            Form(
                inputs=(
                    indexes("indices", rank=(0, 2)),
                    indexes("shape"),
                    tensor("values", rank=(0, 1)),
                    tensor("default", rank=0),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_dense_shape,
        reference=_dense,
        arithmetic=frozenset({"values", "default"}),
    ),
    Definition(
        type=OperationType.TFLITE_ONE_HOT,
        forms=(
            Form(
                inputs=(
                    indexes("indices", rank=ANY_RANK),
                    number("depth"),
                    tensor("on", rank=ANY_RANK),
                    tensor("off", rank=ANY_RANK),
                    scalar("axis"),
                ),
                outputs=(tensor("output"),),
            ),
        ),
        rows=element_rows(),
        shape=_one_hot_shape,
        reference=_one_hot,
        arithmetic=frozenset({"on", "off"}),
    ),
)
