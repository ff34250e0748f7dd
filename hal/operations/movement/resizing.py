"""RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR: images of another size."""

import math
from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away, saturate
from neurald.hal.operations.convolution.windowing import Pair
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_from_nhwc,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.rules import data_rows, same_scale
from neurald.hal.operations.machinery.signature import Form, Parameter, layout, scalar, tensor

FLAGS = (
    scalar("align_corners", OperandType.BOOL, default=False, level=FeatureLevel.LEVEL_4),
    scalar("half_pixel_centers", OperandType.BOOL, default=False, level=FeatureLevel.LEVEL_4),
)

_MAX_LENGTH = 2**31 - 1
_NEAREST = (OperationType.RESIZE_NEAREST_NEIGHBOR, OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR)


def _forms(nchw: Parameter) -> tuple[Form, ...]:
    """Returns the forms by size and by scale; only RESIZE_BILINEAR may omit the layout."""
    image, output = tensor("input", rank=4), (tensor("output", rank=4),)
    return (
        Form(inputs=(image, scalar("width"), scalar("height"), nchw, *FLAGS), outputs=output),
        Form(
            inputs=(image, scalar("width_scale", "S"), scalar("height_scale", "S"), nchw, *FLAGS),
            outputs=output,
            level=FeatureLevel.LEVEL_3,
        ),
    )


def _length(call: Call, along: str, length: int) -> int:
    """Returns the output's height or width; by scale, the float32 product is rounded down.

    As in TFLite, only images of nearest neighbours may be empty.
    """
    least = int(call.binding.type not in _NEAREST)
    if "size" in call.binding.inputs:
        size: int = integers(call, "size", (2,)).tolist()[("height", "width").index(along)]
        if size < least:
            raise BadData(f"{call.name('size')} has {along} {size}; it must be at least {least}")
        return size
    if along in call.binding.inputs:
        return call.scalar_in(along, least)
    scale = call.scalar(f"{along}_scale")
    with np.errstate(over="ignore"):
        product = float(np.float32(length) * np.float32(scale))
    if not 1 <= product <= _MAX_LENGTH:
        raise BadData(
            f"{call.name(f'{along}_scale')} is {scale:g}; {along} {length} becomes {product:g} then"
        )
    return math.floor(product)


def _nhwc_shape(call: Call) -> Shape:
    shape = call.shape("input")
    return shape_to_nhwc(shape) if is_nchw(call) else shape


def flags(call: Call) -> tuple[bool, bool]:
    """Returns whether corners are aligned, and whether pixel centres are at half pixels.

    TFLite allows both only for the nearest neighbour.
    """
    align_corners, half_pixel_centers = (bool(call.scalar(flag.name)) for flag in FLAGS)
    takes_both = call.binding.type is OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR
    if align_corners and half_pixel_centers and not takes_both:
        raise BadData(f"{call.binding.type.name}: align_corners and half_pixel_centers exclude each other")
    return align_corners, half_pixel_centers


def flags_fit(call: Call) -> None:
    """Raises BadData if both flags are set but exclude each other."""
    flags(call)


def output_size(call: Call) -> Pair:
    """Returns height and width of the output."""
    _, height, width, _ = _nhwc_shape(call)
    size = _length(call, "height", height), _length(call, "width", width)
    for what, length in (("height", height), ("width", width)):
        if length < 1 and all(size):
            raise BadData(f"{call.name('input')}: the {what} is {length}; it must be at least 1")
    return size


def _shape(call: Call) -> tuple[Shape, ...]:
    batches, _, _, channels = _nhwc_shape(call)
    shape = (batches, *output_size(call), channels)
    return (shape_from_nhwc(shape) if is_nchw(call) else shape,)


def coordinates(call: Call, length: int, result: int) -> Array:
    """Returns the float32 input coordinates of `result` output elements.

    With half-pixel centres these are the coordinates of the centres, not yet shifted back by half
    an element.
    """
    align_corners, half_pixel_centers = flags(call)
    if align_corners and result > 1:
        scale = np.float32(length - 1) / np.float32(result - 1)
    else:
        scale = np.float32(length) / np.float32(result)
    return (np.arange(result, dtype=np.float32) + np.float32(0.5 * half_pixel_centers)) * scale


def nearest_indexes(call: Call, length: int, result: int) -> Array:
    """Returns the int64 input index of each output element.

    Ties round away from zero if corners are aligned.
    """
    align_corners, _ = flags(call)
    centres = coordinates(call, length, result)
    picked = round_away(centres) if align_corners else np.floor(centres)
    return np.asarray(np.clip(picked.astype(np.int64), 0, length - 1))


def _nearest(call: Call, values: Array) -> Array:
    """Takes the nearest rows and columns."""
    if not all(output_size(call)):
        return np.zeros((len(values), *output_size(call), values.shape[3]), values.dtype)
    for axis, result in zip((1, 2), output_size(call), strict=True):
        values = np.take(values, nearest_indexes(call, values.shape[axis], result), axis=axis)
    return values


def neighbours(call: Call, length: int, result: int) -> tuple[Array, Array, Array]:
    """Returns lower and upper int64 input index of each output element, and float32 offset."""
    _, half_pixel_centers = flags(call)
    centres = coordinates(call, length, result) - np.float32(0.5 * half_pixel_centers)
    lower = np.clip(np.floor(centres), 0, length - 1)
    upper = np.clip(np.ceil(centres), 0, length - 1)
    return lower.astype(np.int64), upper.astype(np.int64), centres - lower


def _bilinear(call: Call, values: Array) -> Array:
    """Interpolates one axis after the other in float32.

    Quantised values are rounded at the end, ties away from zero.
    """
    output = call.operand("output")
    real = values.astype(np.float32)
    for axis, result in zip((1, 2), output_size(call), strict=True):
        lower, upper, after = neighbours(call, real.shape[axis], result)
        weight = after.reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        first, second = (np.take(real, ends, axis=axis) for ends in (lower, upper))
        real = first * (1 - weight) + second * weight
    return saturate(round_away(real), output) if is_quantized(output) else real.astype(values.dtype)


def _reference(resize: Callable[[Call, Array], Array]) -> Callable[[Call], tuple[Array, ...]]:
    def reference(call: Call) -> tuple[Array, ...]:
        values = call.array("input")
        if is_nchw(call):
            return (from_nhwc(resize(call, to_nhwc(values))),)
        return (resize(call, values),)

    return reference


DEFINITIONS = (
    Definition(
        type=OperationType.RESIZE_BILINEAR,
        forms=_forms(layout()),
        rows=data_rows(quant8=FeatureLevel.LEVEL_3),
        checks=(same_scale("input"), flags_fit),
        shape=_shape,
        reference=_reference(_bilinear),
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.RESIZE_NEAREST_NEIGHBOR,
        forms=_forms(scalar("nchw", OperandType.BOOL, level=FeatureLevel.LEVEL_3)),
        rows=data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_3),
        checks=(same_scale("input"), flags_fit),
        shape=_shape,
        reference=_reference(_nearest),
        arithmetic=frozenset({"input"}),
    ),
)
