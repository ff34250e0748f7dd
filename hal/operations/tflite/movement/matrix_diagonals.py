"""MATRIX_DIAG, MATRIX_SET_DIAG: diagonals of matrices, the last two axes of a tensor."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, tensor
from neurald.hal.operations.tflite.machinery.elements import element_rows


def _diagonal_shape(call: Call) -> tuple[Shape, ...]:
    shape = call.shape("diagonal")
    return ((*shape, shape[-1]),)


def _diagonal(call: Call) -> tuple[Array, ...]:
    """Puts the elements of the last axis on the diagonal of a square matrix of zeros."""
    values = call.array("diagonal")
    result = np.zeros(_diagonal_shape(call)[0], values.dtype)
    diagonal = np.arange(values.shape[-1])
    result[..., diagonal, diagonal] = values
    return (result,)


def _set_shape(call: Call) -> tuple[Shape, ...]:
    shape, diagonal = call.shape("input"), call.shape("diagonal")
    expected = (*shape[:-2], min(shape[-2:]))
    if diagonal != expected:
        raise BadData(
            f"{call.name('diagonal')} has shape {list(diagonal)}; {list(expected)} is expected for input "
            f"{list(shape)}"
        )
    return (shape,)


def _set(call: Call) -> tuple[Array, ...]:
    values, result = call.array("diagonal"), call.array("input").copy()
    diagonal = np.arange(values.shape[-1])
    result[..., diagonal, diagonal] = values
    return (result,)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_MATRIX_DIAG,
        forms=(Form(inputs=(tensor("diagonal"),), outputs=(tensor("output", rank=(2, MAX_RANK)),)),),
        rows=element_rows(),
        shape=_diagonal_shape,
        reference=_diagonal,
    ),
    Definition(
        type=OperationType.TFLITE_MATRIX_SET_DIAG,
        forms=(
            Form(
                inputs=(tensor("input", rank=(2, MAX_RANK)), tensor("diagonal")),
                outputs=(tensor("output", rank=(2, MAX_RANK)),),
            ),
        ),
        rows=element_rows(),
        shape=_set_shape,
        reference=_set,
    ),
)
