"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR as in TFLite: the size may be a tensor.

Bilinear results for quantised values match TFLite's reference kernels: signed ones are interpolated
in fixed point with 10-bit weights, unsigned ones in float32. Scales of inputs and outputs are
ignored.

The scale from positions in the result to positions in the image has 10 bits of fraction as well, so
its rounding adds up along an image: a row at the end of a large one may be computed from rows that
are half an element or more away. XNNPACK, which LiteRT uses by default, rounds each position
instead, so its bytes may differ much. Where TFLite's reference kernels would read elements after
the last one of a row or column, the last one is used.
"""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import from_nhwc, is_nchw, to_nhwc
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, row, tensor
from neurald.hal.operations.movement import resizing
from neurald.hal.operations.movement.resizing import FLAGS, flags, flags_fit, neighbours, output_size
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS
from neurald.hal.records import replace

#: The weight 1 for signed quantised values.
ONE = 1 << 10

_BILINEAR_ROWS = (
    *data_rows(quant8=FeatureLevel.LEVEL_1),
    row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_QUANT16_SYMM, S=OperandType.FLOAT32, zero_points16=True),
)
_NEAREST_ROWS = tuple(
    row(FeatureLevel.LEVEL_1, T=kind, S=OperandType.FLOAT32, zero_points16=True) for kind in ELEMENTS
)

_FORM = Form(
    inputs=(
        tensor("input", rank=4),
        tensor("size", OperandType.TENSOR_INT32, rank=1),
        *(replace(flag, level=FeatureLevel.LEVEL_1) for flag in FLAGS),
    ),
    outputs=(tensor("output", rank=4),),
)


def fixed_point_neighbours(call: Call, length: int, result: int) -> tuple[Array, Array, Array]:
    """Returns each output element's lower and upper input index, and offset in 1 / `ONE`.

    All are int64.
    """
    align_corners, half_pixel_centers = flags(call)
    if align_corners and result > 1:
        step = (ONE * (length - 1) + (result - 1) // 2) // (result - 1)
    else:
        step = (ONE * length + result // 2) // result
    coordinates = np.arange(result, dtype=np.int64) * step
    if half_pixel_centers:
        coordinates += step // 2 - ONE // 2
    # Before the first element, both neighbours are the first.
    lower = np.maximum(coordinates // ONE, 0)
    upper = np.clip(-(-coordinates // ONE), 0, length - 1)
    return np.minimum(lower, length - 1), upper, coordinates - lower * ONE


def _fixed_point(call: Call, values: Array) -> Array:
    """Interpolates one axis after the other, exactly; rounded at the end, ties away from zero."""
    # Two products with 10-bit weights, and the sign.
    sums = values.astype(np.int32 if values.dtype.itemsize == 1 else np.int64)
    for axis, result in zip((1, 2), output_size(call), strict=True):
        lower, upper, after = fixed_point_neighbours(call, sums.shape[axis], result)
        weight = after.astype(sums.dtype).reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        first, second = (np.take(sums, ends, axis=axis) for ends in (lower, upper))
        sums = first * (ONE - weight) + second * weight
    half = ONE * ONE // 2
    rounded: Array = np.sign(sums) * ((np.abs(sums) + half) // (ONE * ONE))
    return rounded.astype(values.dtype)


def _unsigned(call: Call, values: Array) -> Array:
    """Sums the four neighbours, each times both weights, in float32; rounded at the end."""
    ends, weights = [], []
    for axis, result in zip((1, 2), output_size(call), strict=True):
        lower, upper, after = neighbours(call, values.shape[axis], result)
        after = after.reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        ends.append((lower, upper))
        weights.append((1 - after, after))
    total: Array | np.float32 = np.float32(0)
    # In TFLite's order of additions.
    for column, row_ in ((0, 0), (0, 1), (1, 0), (1, 1)):
        part = np.take(np.take(values, ends[0][row_], axis=1), ends[1][column], axis=2).astype(np.float32)
        total = total + part * weights[0][row_] * weights[1][column]
    limit = np.iinfo(values.dtype).max
    return np.clip(np.floor(total + np.float32(0.5)), 0, limit).astype(values.dtype)


def _reference(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    if values.dtype.kind == "f":
        return _BILINEAR.reference(call)
    values = to_nhwc(values) if is_nchw(call) else values
    result = _unsigned(call, values) if values.dtype.kind == "u" else _fixed_point(call, values)
    return (from_nhwc(result) if is_nchw(call) else result,)


_BILINEAR, _NEAREST = resizing.DEFINITIONS

DEFINITIONS: tuple[Definition, ...] = (
    replace(
        _BILINEAR,
        type=OperationType.TFLITE_RESIZE_BILINEAR,
        forms=(*_BILINEAR.forms, _FORM),
        rows=_BILINEAR_ROWS,
        checks=(flags_fit,),
        reference=_reference,
        widens=_BILINEAR.type,
    ),
    replace(
        _NEAREST,
        type=OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR,
        forms=(*_NEAREST.forms, _FORM),
        rows=_NEAREST_ROWS,
        checks=(),
        widens=_NEAREST.type,
    ),
)
