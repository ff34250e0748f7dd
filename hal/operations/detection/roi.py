"""ROI_ALIGN, ROI_POOLING.

Resample regions of images to one size, by averaging samples or taking maxima.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.quantized import round_away, store
from neurald.hal.operations.detection.boxes import (
    box_rows,
    coordinate_scale,
    expect_boxes,
    expect_images,
    expect_shape,
    float32,
    positive,
)
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.layout import (
    from_nhwc,
    is_nchw,
    shape_from_nhwc,
    shape_to_nhwc,
    to_nhwc,
)
from neurald.hal.operations.machinery.rules import same_scale
from neurald.hal.operations.machinery.signature import Form, Parameter, scalar, tensor

#: Computes the output of one region, (height, width, depth), from an NHWC image and a box in its
#: elements.
RegionReference = Callable[[Call, Array, Array], Array]

_STRIDES = ("height_stride", "width_stride")
_SAMPLES = ("height_samples", "width_samples")
_SIZES = ("height", "width")
#: Maximum number of samples of a region along one axis.
_MAX_SAMPLES = 1 << 24


def _form(*extra: Parameter) -> Form:
    """Returns a form; `extra` parameters are between the strides and the layout."""
    return Form(
        inputs=(
            tensor("input", rank=4),
            tensor("boxes", "R", rank=2),
            tensor("images", OperandType.TENSOR_INT32, rank=1),
            scalar("height"),
            scalar("width"),
            *(scalar(name, "S") for name in _STRIDES),
            *extra,
            scalar("nchw", OperandType.BOOL, level=FeatureLevel.LEVEL_3),
        ),
        outputs=(tensor("output", rank=4),),
    )


def _positive_sizes(call: Call) -> None:
    for name in _SIZES:
        call.scalar_in(name, 1)


def _number_of_samples(call: Call) -> None:
    """Checks the numbers of samples; 0 means as many as cover the region."""
    for name, size in zip(_SAMPLES, _SIZES, strict=True):
        call.scalar_in(name, 0, _MAX_SAMPLES // call.scalar_in(size, 1))


def region_shape(call: Call) -> Shape:
    """Returns the NHWC shape of the output."""
    shape = call.shape("input")
    shape = shape_to_nhwc(shape) if is_nchw(call) else shape
    if min(shape) < 1:
        raise BadData(f"{call.name('input')} has shape {list(call.shape('input'))}; no dimension may be 0")
    count = call.shape("boxes")[0]
    expect_shape(call, "boxes", (count, 4), "four coordinates for each box")
    expect_shape(call, "images", (count,), "one image for each box")
    _positive_sizes(call)
    return count, call.scalar("height"), call.scalar("width"), shape[3]


def _shape(call: Call) -> tuple[Shape, ...]:
    shape = region_shape(call)
    return (shape_from_nhwc(shape) if is_nchw(call) else shape,)


def map_scales(call: Call) -> tuple[np.float32, np.float32]:
    """Returns the number of input elements per unit of the boxes, vertically and horizontally."""
    down, right = (np.float32(1) / np.float32(call.scalar(name)) for name in _STRIDES)
    return down, right


def _boxes_on_map(call: Call, height: int, width: int) -> Array:
    """Converts the boxes to elements of the input, (n, 4).

    Raises:
        BadData: the corners of a box are out of order, or it exceeds the input.
    """
    boxes = float32(call, "boxes")
    expect_boxes(call, "boxes", boxes)
    with np.errstate(all="ignore"):
        down, right = map_scales(call)
        scaled = boxes * np.array((right, down, right, down), np.float32)
    inside = (boxes >= 0) & (scaled <= np.array((width, height, width, height), np.float32))
    wrong = np.flatnonzero(~inside.all(axis=1))
    if wrong.size:
        raise BadData(
            f"{call.name('boxes')}: box {wrong[0]} is {boxes[wrong[0]].tolist()}; one inside the image, "
            "whose "
            f"map has height {height} and width {width}, is expected"
        )
    return scaled


def _reference(region: RegionReference) -> Callable[[Call], tuple[Array, ...]]:
    def reference(call: Call) -> tuple[Array, ...]:
        output = np.empty(region_shape(call), call.operand("output").type.dtype)
        values = call.array("input")
        values = to_nhwc(values) if is_nchw(call) else values
        boxes = _boxes_on_map(call, values.shape[1], values.shape[2])
        images = expect_images(call, len(values))
        for index, (box, image) in enumerate(zip(boxes, images, strict=True)):
            output[index] = region(call, values[image], box)
        return (from_nhwc(output) if is_nchw(call) else output,)

    return reference


class _Samples(Struct, frozen=True, kw_only=True):
    """Sampling positions along an axis, (samples per output element, output elements).

    Attributes:
        lower, upper: indexes of the adjacent elements.
        fraction: position between `lower` (0) and `upper` (1).
    """

    lower: Array
    upper: Array
    fraction: Array

    @property
    def span(self) -> slice:
        """The range of elements used."""
        return slice(int(self.lower.min()), int(self.upper.max()) + 1)

    def average(self, values: Array, first: int) -> Array:
        """Averages interpolated samples along the first axis; `values` start at `first`."""
        total = np.zeros((self.lower.shape[1], *values.shape[1:]), np.float32)
        for lower, upper, fraction in zip(self.lower, self.upper, self.fraction, strict=True):
            share = fraction.reshape(-1, *(1,) * (values.ndim - 1))
            total += values[lower - first] * (1 - share) + values[upper - first] * share
        return total / np.float32(len(self.lower))


def _samples(start: np.float32, extent: np.float32, count: int, samples: int, length: int) -> _Samples:
    """Computes the sampling positions along one axis.

    Args:
        start, extent: the start and extent of the region, which is treated as at least one element
            long.
        count: number of output elements.
        samples: per output element; 0 for as many as cover it.
        length: the length of the image.
    """
    step = max(extent, np.float32(1)) / np.float32(count)
    samples = samples or int(np.ceil(step))
    between = step / np.float32(samples)
    starts = start + step * np.arange(count, dtype=np.float32)
    coordinates = starts + between / 2 + between * np.arange(samples, dtype=np.float32)[:, np.newaxis]
    lower = np.minimum(coordinates.astype(np.int64), length - 1)
    upper = np.minimum(lower + 1, length - 1)
    fraction = np.where(lower == length - 1, np.float32(0), coordinates - lower.astype(np.float32))
    return _Samples(lower=lower, upper=upper, fraction=fraction)


def _align(call: Call, image: Array, box: Array) -> Array:
    source, output = call.operand("input"), call.operand("output")
    sizes, samples = ([call.scalar(name) for name in names] for names in (_SIZES, _SAMPLES))
    rows, columns = (
        _samples(box[1 - axis], box[3 - axis] - box[1 - axis], sizes[axis], samples[axis], image.shape[axis])
        for axis in (0, 1)
    )
    values = image[rows.span, columns.span].astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_quantized(source):
            values = (values - np.float32(source.zero_point)) * np.float32(source.scale)
        tall = rows.average(values, rows.span.start)
        aligned = columns.average(tall.swapaxes(0, 1), columns.span.start)
        return store(aligned.swapaxes(0, 1), output)


def _bins(start: np.float32, stop: np.float32, count: int, length: int) -> list[slice]:
    """Returns the elements of each of `count` outputs along an axis.

    Outputs at the end of the image may have no elements.
    """
    first, last = round_away(np.array((start, stop), np.float64)).astype(np.int64).tolist()
    step = np.float32(last - first + 1) / np.float32(count)
    edges = step * np.arange(count + 1, dtype=np.float32) + np.float32(first)
    starts, stops = np.floor(edges[:-1]).astype(np.int64), np.ceil(edges[1:]).astype(np.int64)
    return [
        slice(int(min(begin, length)), int(min(end, length)))
        for begin, end in zip(starts, stops, strict=True)
    ]


def _largest(values: Array, bins: list[slice], empty: int) -> Array:
    """Returns the maximum of each bin along the first axis, `empty` for an empty bin."""
    result = np.full((len(bins), *values.shape[1:]), empty, values.dtype)
    for index, part in enumerate(bins):
        if part.start < part.stop:
            result[index] = values[part].max(axis=0)
    return result


def _pool(call: Call, image: Array, box: Array) -> Array:
    """Pools a region by its maxima; a bin outside of the image gives the zero point."""
    empty = call.operand("output").zero_point
    rows = _bins(box[1], box[3], call.scalar("height"), image.shape[0])
    columns = _bins(box[0], box[2], call.scalar("width"), image.shape[1])
    tall = _largest(image, rows, empty)
    pooled = _largest(tall.swapaxes(0, 1), columns, empty).swapaxes(0, 1)
    return np.ascontiguousarray(pooled)


def _definition(
    operation_type: OperationType, form: Form, checks: tuple[Check, ...], region: RegionReference
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(form,),
        rows=box_rows(),
        checks=(coordinate_scale("boxes"), _positive_sizes, positive(*_STRIDES), *checks),
        shape=_shape,
        reference=_reference(region),
    )


DEFINITIONS = (
    _definition(
        OperationType.ROI_ALIGN,
        _form(*(scalar(name) for name in _SAMPLES)),
        (_number_of_samples,),
        _align,
    ),
    _definition(OperationType.ROI_POOLING, _form(), (same_scale("input"),), _pool),
)
