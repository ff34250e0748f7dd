"""RFFT2D: the Fourier transform of real matrices."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, tensor


def _lengths(call: Call) -> tuple[int, int]:
    """Returns the numbers of rows and columns of the transformed matrices."""
    if call.shape("lengths") != (2,):
        raise BadData(f"{call.name('lengths')} has shape {list(call.shape('lengths'))}; [2] is expected")
    rows, columns = call.array("lengths").tolist()
    for length in (rows, columns):
        if length < 1 or length & (length - 1):
            raise BadData(f"{call.name('lengths')} has {length}; a power of 2 is expected")
    return rows, columns


def _shape(call: Call) -> tuple[Shape, ...]:
    rows, columns = _lengths(call)
    return ((*call.shape("input")[:-2], rows, columns // 2 + 1),)


def _reference(call: Call) -> tuple[Array, ...]:
    """Transforms matrices truncated or zero-padded to the lengths.

    The second half of each row, which mirrors the first, is omitted. Elements that are their own
    mirror images are real; their imaginary part is -0.0, as in TFLite, so that phases are the same.
    """
    rows, columns = _lengths(call)
    source = call.array("input").astype(np.float64)
    # A single row is its own transform along the other dimension.
    is_row = rows == 1 and source.shape[-2] > 0
    result = np.fft.rfft(source[..., :1, :], columns) if is_row else np.fft.rfft2(source, (rows, columns))
    with np.errstate(over="ignore", invalid="ignore"):
        result = result.astype(np.complex64)
    result.imag[..., :: max(1, rows // 2), :: max(1, columns // 2)] = -0.0
    return (result,)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_RFFT2D,
        forms=(
            Form(
                inputs=(
                    tensor("input", OperandType.TENSOR_FLOAT32, rank=(2, MAX_RANK)),
                    tensor("lengths", OperandType.TENSOR_INT32, rank=1),
                ),
                outputs=(tensor("output", OperandType.TENSOR_COMPLEX64, rank=(2, MAX_RANK)),),
            ),
        ),
        rows=(row(FeatureLevel.LEVEL_1),),
        shape=_shape,
        reference=_reference,
    ),
)
