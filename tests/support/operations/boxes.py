"""Boxes, scores and other inputs of detection operations, in every supported type."""

from collections.abc import Sequence

import numpy as np
from support.operations.single_operation import Given, given, wanted

from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

FLOAT32, FLOAT16 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16
QUANT8, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
QUANT16, INT32 = OperandType.TENSOR_QUANT16_ASYMM, OperandType.TENSOR_INT32
TYPES = [FLOAT32, FLOAT16, QUANT8, SIGNED]


def coordinates(operand_type: OperandType, values: Array) -> Given:
    """Creates boxes or sizes, in eighths of a pixel if the data are quantised."""
    if operand_type in (QUANT8, SIGNED):
        return given(QUANT16, np.round(values * 8), 0.125)
    return given(operand_type, values)


def coordinates_out(operand_type: OperandType) -> Operand:
    """Creates the output that corresponds to `coordinates`."""
    return wanted(QUANT16, 0.125) if operand_type in (QUANT8, SIGNED) else wanted(operand_type)


def data(operand_type: OperandType, values: Array, scale: float) -> Given:
    """Creates scores or deltas of about 1, in steps of `scale` if they are quantised."""
    if operand_type is QUANT8:
        return given(operand_type, np.clip(np.round(values / scale) + 128, 0, 255), scale, 128)
    if operand_type is SIGNED:
        return given(operand_type, np.clip(np.round(values / scale), -128, 127), scale, 0)
    return given(operand_type, values)


def real(source: Given) -> Array:
    """Returns the real numbers that an input represents."""
    assert source.value is not None
    return (source.value.astype(np.float64) - source.operand.zero_point) * (source.operand.scale or 1)


def reals(*values: float, operand_type: OperandType) -> tuple[Given, ...]:
    """Creates scalars of the type that corresponds to the data."""
    scalar_type = OperandType.FLOAT16 if operand_type is FLOAT16 else OperandType.FLOAT32
    return tuple(given(scalar_type, value) for value in values)


def random_boxes(generator: np.random.Generator, *shape: int) -> Array:
    """Creates random boxes with corners from 0 to 39; the last dimension has the coordinates."""
    corners = np.sort(generator.integers(0, 40, (*shape, 2, 2)), axis=-2)
    return corners.reshape(*shape, 4).astype(np.float64)


def iou(first: Sequence[float] | Array, second: Sequence[float] | Array) -> float:
    """Returns the intersection over union; 0 for two boxes without area."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0) * max(height, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return float(shared / (areas - shared)) if areas > shared else 0.0


def to_nchw(source: Given) -> Given:
    """Returns images in NHWC as images in NCHW."""
    assert source.value is not None
    operand = source.operand
    return given(operand.type, np.moveaxis(source.value, 3, 1), operand.scale, operand.zero_point)


def real_scalars(kind: OperandType, *numbers: float) -> list[Given]:
    """Creates scalars of the floats that belong to a type of tensors."""
    scalar = OperandType.FLOAT16 if kind is OperandType.TENSOR_FLOAT16 else OperandType.FLOAT32
    return [given(scalar, number) for number in numbers]
