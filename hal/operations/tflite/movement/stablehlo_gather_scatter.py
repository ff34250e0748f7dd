"""STABLEHLO_GATHER and STABLEHLO_SCATTER: slices read and written by index.

Dimension numbers follow the StableHLO specification, without batching dimensions.
"""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, scalar, tensor
from neurald.hal.operations.tflite.machinery.elements import ORDERED_ELEMENTS, element_rows, indexes

#: Update functions of STABLEHLO_SCATTER; 0 replaces the element.
_UPDATES: dict[int, Callable[[Array, tuple[Array, ...], Array], None]] = {
    0: lambda result, where, values: result.__setitem__(where, values),
    1: np.add.at,
    2: np.multiply.at,
    3: np.minimum.at,
    4: np.maximum.at,
}


def distinct_axes(call: Call, name: str, rank: int) -> list[int]:
    """Returns a list of distinct axes below that rank."""
    (count,) = call.shape(name)
    axes: list[int] = integers(call, name, (count,)).tolist()
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise BadData(f"{call.name(name)} is {axes}; different axes from 0 to {rank - 1} are expected")
    return axes


def index_shape(call: Call, depth: int) -> tuple[Shape, int]:
    """Returns the shape of the indexes without the index axis, and that axis.

    An implicit last one has length 1.
    """
    shape = call.shape("indices")
    axis = call.scalar_in("index_axis", 0, len(shape))
    found = shape[axis] if axis < len(shape) else 1
    if found != depth:
        raise BadData(
            f"{call.name('indices')} has shape {list(shape)}; length {depth} is expected along axis {axis}"
        )
    return (*shape[:axis], *shape[axis + 1 :]), axis


def _starts(call: Call, axis: int, mapped: list[int], rank: int) -> Array:
    """Returns the start of each index's slice along all input axes, one row per index."""
    picked = call.array("indices").astype(np.int64)
    rows = picked[..., np.newaxis] if axis == picked.ndim else np.moveaxis(picked, axis, -1)
    starts = np.zeros((math.prod(rows.shape[:-1]), rank), np.int64)
    starts[:, mapped] = rows.reshape(len(starts), len(mapped))
    return starts


def _where(starts: Array, sizes: Shape) -> list[Array]:
    """Returns broadcastable indexes of all elements of all slices, along each axis."""
    rank = len(sizes)
    return [
        starts[:, axis].reshape(-1, *(1,) * rank)
        + np.arange(size).reshape(1, *(1,) * axis, size, *(1,) * (rank - axis - 1))
        for axis, size in enumerate(sizes)
    ]


def slice_sizes(call: Call) -> Shape:
    """Returns the shape of each gathered slice."""
    shape = call.shape("input")
    sizes: Shape = tuple(integers(call, "sizes", (len(shape),)).tolist())
    if any(not 0 <= size <= length for size, length in zip(sizes, shape, strict=True)):
        raise BadData(f"{call.name('sizes')} is {list(sizes)}; slices of input {list(shape)} are expected")
    return sizes


def _gathered_shape(call: Call) -> tuple[Shape, ...]:
    rank, sizes = len(call.shape("input")), slice_sizes(call)
    collapsed, mapped = distinct_axes(call, "collapsed", rank), distinct_axes(call, "mapped", rank)
    batches, _ = index_shape(call, len(mapped))
    kept = [size for axis, size in enumerate(sizes) if axis not in collapsed]
    offsets = distinct_axes(call, "offsets", len(batches) + len(kept))
    if any(sizes[axis] != 1 for axis in collapsed) or len(offsets) != len(kept):
        raise BadData(
            f"{call.name('collapsed')} is {collapsed}; axes where sizes {list(sizes)} are 1, and {len(kept)} "
            f"offsets instead of {offsets}, are expected"
        )
    rest, inside = iter(batches), iter(kept)
    return (
        tuple(next(inside) if axis in offsets else next(rest) for axis in range(len(batches) + len(kept))),
    )


def _gather(call: Call) -> tuple[Array, ...]:
    """Gathers slices; starts are clamped so that slices stay inside the input."""
    values, sizes = call.array("input"), slice_sizes(call)
    (shape,) = _gathered_shape(call)
    collapsed, mapped = (
        distinct_axes(call, "collapsed", values.ndim),
        distinct_axes(call, "mapped", values.ndim),
    )
    batches, axis = index_shape(call, len(mapped))
    limits = np.array(values.shape, np.int64) - np.array(sizes, np.int64)
    starts = np.clip(_starts(call, axis, mapped, values.ndim), 0, limits)
    kept = [size for dimension, size in enumerate(sizes) if dimension not in collapsed]
    if 0 in shape:
        return (np.empty(shape, values.dtype),)
    found = values[tuple(_where(starts, sizes))] if values.ndim else np.full(len(starts), values)
    offsets = distinct_axes(call, "offsets", len(shape))
    rest = [axis for axis in range(len(shape)) if axis not in offsets]
    result = np.moveaxis(found.reshape(*batches, *kept), range(len(shape)), [*rest, *sorted(offsets)])
    return (np.ascontiguousarray(result),)


def scatter_parts(call: Call) -> tuple[list[int], list[int], list[int], int]:
    """Returns the updates' window axes, the input's inserted and indexed axes, the index axis."""
    shape, updates = call.shape("input"), call.shape("updates")
    window = sorted(distinct_axes(call, "window", len(updates)))
    inserted, mapped = (
        distinct_axes(call, "inserted", len(shape)),
        distinct_axes(call, "mapped", len(shape)),
    )
    batches, axis = index_shape(call, len(mapped))
    sliced = [length for dimension, length in enumerate(shape) if dimension not in inserted]
    outer = tuple(length for dimension, length in enumerate(updates) if dimension not in window)
    if (
        outer != batches
        or len(window) != len(sliced)
        or any(updates[dimension] > length for dimension, length in zip(window, sliced, strict=True))
    ):
        raise BadData(
            f"{call.name('updates')} has shape {list(updates)} with axes {window} inside of slices; that "
            "does not go "
            f"with input {list(shape)} and indices {list(call.shape('indices'))}"
        )
    return window, inserted, mapped, axis


def _scattered_shape(call: Call) -> tuple[Shape, ...]:
    scatter_parts(call)
    return (call.shape("input"),)


def scattered_updates(call: Call) -> Array:
    """Returns the updates slice by slice: (indexes, elements of a slice)."""
    window, _, _, _ = scatter_parts(call)
    updates = call.array("updates")
    outer = [dimension for dimension in range(updates.ndim) if dimension not in window]
    count = math.prod(updates.shape[dimension] for dimension in outer)
    inner = math.prod(updates.shape[dimension] for dimension in window)
    slices: Array = updates.transpose(*outer, *window).reshape(count, inner)
    return slices


def scattered_positions(call: Call) -> Array:
    """Returns the flattened input position of each of `scattered_updates`; -1 if out of range.

    Raises:
        UnknownValue: the indexes are not known yet.
    """
    window, inserted, mapped, axis = scatter_parts(call)
    shape, updates = call.shape("input"), call.shape("updates")
    lengths = iter(updates[dimension] for dimension in window)
    sizes = tuple(1 if dimension in inserted else next(lengths) for dimension in range(len(shape)))
    starts = _starts(call, axis, mapped, len(shape))
    where = np.zeros((len(starts), *sizes), np.int64)
    fits = np.ones(where.shape, bool)
    for positions, length in zip(_where(starts, sizes), shape, strict=True):
        fits &= (positions >= 0) & (positions < length)
        where = where * length + positions
    return np.where(fits, where, -1).reshape(len(starts), math.prod(sizes))


def _scatter(call: Call) -> tuple[Array, ...]:
    """Applies the updates; elements out of range are ignored."""
    result, positions = call.array("input").copy(), scattered_positions(call)
    fits = positions >= 0
    elements = result.reshape(-1)
    _UPDATES[call.scalar("update")](elements, (positions[fits],), scattered_updates(call)[fits])
    return (elements.reshape(result.shape),)


def _known_update(call: Call) -> None:
    call.scalar_in("update", 0, len(_UPDATES) - 1)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_STABLEHLO_GATHER,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    indexes("indices", rank=ANY_RANK),
                    indexes("offsets"),
                    indexes("collapsed"),
                    indexes("mapped"),
                    scalar("index_axis"),
                    indexes("sizes"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(),
        shape=_gathered_shape,
        reference=_gather,
    ),
    Definition(
        type=OperationType.TFLITE_STABLEHLO_SCATTER,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    indexes("indices", rank=ANY_RANK),
                    tensor("updates", rank=ANY_RANK),
                    indexes("window"),
                    indexes("inserted"),
                    indexes("mapped"),
                    scalar("index_axis"),
                    scalar("update"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(ORDERED_ELEMENTS),
        checks=(_known_update,),
        shape=_scattered_shape,
        reference=_scatter,
    ),
)
