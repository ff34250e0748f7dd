"""EMBEDDING_LOOKUP_SPARSE, which combines rows of a table."""

from enum import IntEnum

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor
from neurald.hal.operations.tflite.movement.embedding import TABLE_RANKS, existing_rows, rows_exist


class Combiner(IntEnum):
    """Combination of the weighted rows of one position."""

    SUM = 0
    #: Divided by the sum of the weights.
    MEAN = 1
    #: Divided by the square root of the sum of the squared weights.
    SQRTN = 2


def _lists_agree(call: Call) -> None:
    """Checks that indices, weights and dense shape match the lookups."""
    (count,) = call.shape("lookups")
    rows, (rank,) = call.shape("indices"), call.shape("dense_shape")
    if rows != (count, rank) or call.shape("weights") != (count,) or rank < 1:
        raise BadData(
            f"{call.binding.type.name}: {count} lookups have indices of shape {list(rows)} for a dense "
            "shape of "
            f"{rank} lengths, and weights of shape {list(call.shape('weights'))}; {[count, rank]} and "
            f"{[count]} are "
            "expected"
        )


def _sparse_shape(call: Call) -> tuple[Shape, ...]:
    lengths = call.array("dense_shape").tolist()
    if any(each < 0 for each in lengths):
        raise BadData(f"{call.name('dense_shape')} is {lengths}; no length may be negative")
    return ((*lengths[:-1], *call.shape("values")[1:]),)


def known_combiner(call: Call) -> Combiner:
    """Returns the combiner of EMBEDDING_LOOKUP_SPARSE.

    Raises:
        BadData: the number is not a combiner.
    """
    number = call.scalar("combiner")
    if number not in list(Combiner):
        raise BadData(f"{call.name('combiner')} is {number}; 0 (SUM), 1 (MEAN) or 2 (SQRTN) is expected")
    return Combiner(number)


def _combiner_is_known(call: Call) -> None:
    known_combiner(call)


def lookup_rows(call: Call, lengths: Shape) -> Array:
    """Returns the output row of each lookup.

    Args:
        call: the call of EMBEDDING_LOOKUP_SPARSE.
        lengths: the lengths of the output, without those of a row.

    Raises:
        BadData: there is no such row.
        UnknownValue: the indices are not known yet.
    """
    indices = call.array("indices")[:, : len(lengths)]
    wrong = np.flatnonzero(((indices < 0) | (indices >= np.array(lengths, np.int64))).any(axis=1))
    if wrong.size:
        raise BadData(
            f"{call.name('indices')} has {indices[wrong[0]].tolist()} at {wrong[0]}; indexes below "
            f"{list(lengths)} are "
            "expected"
        )
    rows = np.zeros(len(indices), np.int64)
    for axis, length in enumerate(lengths):
        rows = rows * length + indices[:, axis]
    return rows


def _lookup_sparse(call: Call) -> tuple[Array, ...]:
    """Combines consecutive lookups of the same position.

    A later run adds to the existing row as one term.
    """
    (shape,) = _sparse_shape(call)
    _lists_agree(call)
    numbers, combiner = existing_rows(call, "lookups"), known_combiner(call)
    table, weights = call.array("values"), call.array("weights")
    lengths = shape[: len(shape) - table.ndim + 1]
    rows = lookup_rows(call, lengths)
    flat = np.zeros((int(np.prod(lengths)), int(np.prod(table.shape[1:]))), np.float32)
    combined_rows(combiner, rows, numbers, weights, table.reshape(len(table), flat.shape[1]), flat)
    return (flat.reshape(shape),)


def combined_rows(
    combiner: Combiner, rows: Array, numbers: Array, weights: Array, table: Array, flat: Array
) -> Array:
    """Adds weighted rows of a table to others; see `_lookup_sparse`.

    Args:
        combiner: how the rows of a run are combined.
        rows: the rows to which each is added.
        numbers: the numbers of each in the table.
        weights: the weights of each.
        table: (rows, width).
        flat: (rows, width), is changed.
    """
    borders = np.flatnonzero(np.diff(rows)) + 1
    runs = np.split(np.arange(len(rows)), borders) if len(rows) else []
    with np.errstate(all="ignore"):
        for run in runs:
            target, weight = rows[run[0]], weights[run]
            flat[target] += np.tensordot(weight, table[numbers[run]], 1)
            if combiner is Combiner.MEAN:
                flat[target] /= weight.sum(dtype=np.float32)
            elif combiner is Combiner.SQRTN:
                flat[target] /= np.sqrt(np.square(weight).sum(dtype=np.float32))
    return flat


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE,
        forms=(
            Form(
                inputs=(
                    tensor("lookups", OperandType.TENSOR_INT32, rank=1),
                    tensor("indices", OperandType.TENSOR_INT32, rank=2),
                    tensor("dense_shape", OperandType.TENSOR_INT32, rank=1),
                    tensor("weights", rank=1),
                    tensor("values", rank=TABLE_RANKS),
                    scalar("combiner"),
                ),
                outputs=(tensor("output"),),
            ),
        ),
        rows=(row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_FLOAT32),),
        checks=(_lists_agree, _combiner_is_known, rows_exist),
        shape=_sparse_shape,
        reference=_lookup_sparse,
    ),
)
